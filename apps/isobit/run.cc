// isobit run: one answer, or a conversation, in the terminal.
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>

#include "base/random.h"
#include "base/utf8.h"
#include "isobit/commands.h"
#include "isobit/loaded_model.h"
#include "isobit/output.h"
#include "serve/chat_prompt.h"
#include "serve/openai_request.h"

namespace isobit {
namespace {

struct RunFlags {
  ModelFlags model;
  std::string prompt;
  std::string system;
  bool chat = false;
  std::int64_t max_tokens = 256;
  std::uint64_t seed = 0;
  bool has_seed = false;
  bool show_stats = false;
  SamplingParams sampling{.temperature = 0.0f};
};

// Set by Ctrl-C while an answer streams: it ends the answer, not the conversation.
volatile std::sig_atomic_t interrupted = 0;

struct Answer {
  std::string text;
  FinishReason finish = FinishReason::kError;
  std::int64_t tokens = 0;
};

class Session {
 public:
  Session(const RunFlags& flags, LoadedModel& model, Engine& engine, const Clock& clock)
      : flags_(flags), model_(model), engine_(engine), clock_(clock), encoder_(model.serving.tokenizer, model.serving.chat_template) {}

  // Streams the answer to standard output.
  Result<Answer> Complete(std::vector<std::int32_t> ids) {
    GenerationRequest request;
    request.prompt_ids = std::move(ids);
    request.sampling = flags_.sampling;
    request.sampling.seed = flags_.has_seed ? flags_.seed : SystemEntropy();
    const std::int64_t room = model_.serving.max_model_len - static_cast<std::int64_t>(request.prompt_ids.size());
    request.max_new_tokens = std::max<std::int64_t>(1, std::min(flags_.max_tokens, room));
    request.stop_token_ids = model_.serving.eos_token_ids;

    Detokenizer detokenizer(model_.serving.tokenizer, /*skip_special=*/true);
    Answer answer;
    std::optional<Error> error;
    bool done = false;
    const auto print = [&](const std::string& delta) {
      std::fwrite(delta.data(), 1, delta.size(), stdout);
      std::fflush(stdout);
      answer.text += delta;
    };
    interrupted = 0;
    const std::int64_t start = clock_.MonotonicNanos();
    ISOBIT_ASSIGN(const RequestId id, engine_.Submit(std::move(request), [&](EngineEvent event) {
      if (event.token.has_value()) {
        ++answer.tokens;
        print(detokenizer.Append(*event.token));
      }
      if (event.finish.has_value()) {
        answer.finish = *event.finish;
        error = event.error;
        done = true;
      }
    }));
    while (!done) {
      if (interrupted) engine_.Cancel(id);
      engine_.Step();
    }
    print(detokenizer.Finish());
    std::printf("\n");
    if (flags_.show_stats) {
      const double seconds = static_cast<double>(clock_.MonotonicNanos() - start) * 1e-9;
      std::fprintf(stderr, "[%ld tokens in %.2f s, %.1f tokens/s, finish: %s, contract %.12s]\n", static_cast<long>(answer.tokens),
                   seconds, static_cast<double>(answer.tokens) / seconds, FinishReasonName(answer.finish),
                   model_.serving.contract_id.c_str());
    }
    if (error.has_value()) return *error;
    return answer;
  }

  // One turn: the user's words in, the assistant's words appended to the conversation.
  Status Turn(const std::string& words) {
    messages_.push_back({{"role", "user"}, {"content", words}});
    ISOBIT_ASSIGN(const RenderedChat rendered, encoder_.Render({.messages = Conversation()}, /*add_special=*/false));
    auto answer = Complete(rendered.ids);
    if (!answer.ok()) {
      messages_.erase(messages_.end() - 1);
      return answer.error();
    }
    messages_.push_back({{"role", "assistant"}, {"content", answer->text}});
    return {};
  }

  Status Interactive() {
    const bool terminal = isatty(STDIN_FILENO) == 1;
    if (terminal) std::fprintf(stderr, "%s, contract %.12s. /reset forgets, /quit or Ctrl-D leaves, Ctrl-C ends an answer.\n",
                               model_.serving.name.c_str(), model_.serving.contract_id.c_str());
    std::string line;
    for (;;) {
      if (terminal) std::fprintf(stderr, "> ");
      if (!std::getline(std::cin, line) || line == "/quit") return {};
      if (line.empty()) continue;
      if (line == "/reset") {
        messages_ = Json::array();
        continue;
      }
      const Status status = Turn(line);
      if (!status.ok() && terminal) PrintError(status.error());
      else ISOBIT_TRY(status);
    }
  }

  PromptEncoder& encoder() { return encoder_; }

 private:
  Json Conversation() const {
    Json all = Json::array();
    if (!flags_.system.empty()) all.push_back({{"role", "system"}, {"content", flags_.system}});
    for (const Json& message : messages_) all.push_back(message);
    return all;
  }

  const RunFlags& flags_;
  LoadedModel& model_;
  Engine& engine_;
  const Clock& clock_;
  PromptEncoder encoder_;
  Json messages_ = Json::array();
};

Status Run(const RunFlags& flags) {
  if (!flags.chat && flags.prompt.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--prompt", "is missing: give --prompt TEXT, or --chat for a conversation");
  }
  if (!IsValidUtf8(flags.prompt)) return Fail(ErrorCode::kInvalidArgument, "--prompt", "is not valid UTF-8");
  if (!IsValidUtf8(flags.system)) return Fail(ErrorCode::kInvalidArgument, "--system", "is not valid UTF-8");
  ModelFlags model_flags = flags.model;
  model_flags.max_seqs = 1;
  const SystemClock clock;
  std::unique_ptr<LoadedModel> model;
  {
    ProgressLine progress;
    ISOBIT_ASSIGN(model, LoadModel(model_flags, clock, [&](std::string_view text) { progress.Show(text); }));
  }
  ISOBIT_TRY(model->RequireTokenizer());
  ISOBIT_TRY(ValidateSamplingParams(flags.sampling, model->transformer->vocab_size()));
  ISOBIT_ASSIGN(RunningEngine running, MakeEngine(model_flags, *model, clock));
  Session session(flags, *model, *running.engine, clock);
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);

  if (flags.chat && flags.prompt.empty()) return session.Interactive();
  if (flags.chat) return session.Turn(flags.prompt);
  const EncodedPrompt prompt = session.encoder().Encode(flags.prompt, /*add_special=*/true, /*parse_special=*/true);
  const auto answer = session.Complete(prompt.ids);
  if (!answer.ok()) return answer.error();
  return {};
}

}  // namespace

void AddRunCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "Answer one prompt, or chat, in the terminal");
  flags->model.AddTo(*command);
  command->add_option("--prompt", flags->prompt, "Text to continue; with --chat: one question");
  command->add_flag("--chat", flags->chat, "Use the model's chat template; without --prompt: a conversation");
  command->add_option("--system", flags->system, "System message of the conversation");
  command->add_option("--max-tokens", flags->max_tokens, "Most tokens of an answer")->capture_default_str();
  command->add_option("--temperature", flags->sampling.temperature, "0: greedy")->capture_default_str();
  command->add_option("--top-p", flags->sampling.top_p, "Nucleus sampling")->capture_default_str();
  command->add_option("--top-k", flags->sampling.top_k, "0: off")->capture_default_str();
  command->add_option("--min-p", flags->sampling.min_p, "0: off")->capture_default_str();
  command->add_option("--repetition-penalty", flags->sampling.repetition_penalty, "1: off")->capture_default_str();
  CLI::Option* seed = command->add_option("--seed", flags->seed, "Seed when temperature is not 0; default: drawn");
  command->add_flag("--stats", flags->show_stats, "Print tokens per second to standard error");
  command->footer("Examples:\n"
                  "  isobit run --model SmolLM2.gguf --prompt 'The capital of France is' --max-tokens 16\n"
                  "  isobit run --model SmolLM2.gguf --chat --prompt 'Why is the sky blue?' --stats\n"
                  "  isobit run --model SmolLM2.gguf --chat --temperature 0.7 --seed 1");
  command->callback([flags, seed, exit_code] {
    flags->has_seed = seed->count() > 0;
    const Status status = Run(*flags);
    *exit_code = status.ok() ? 0 : PrintError(status.error());
  });
}

}  // namespace isobit
