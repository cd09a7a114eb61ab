// isobit gate: ask a server the same things alone and in company, and say whether the answers stayed the same.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "gate/gate.h"
#include "isobit/commands.h"
#include "isobit/in_process_server.h"
#include "isobit/output.h"

namespace isobit {
namespace {

struct GateFlags {
  gate::GateOptions options;
  ModelFlags model;
  std::string json;
};

Result<int> Gate(GateFlags& flags) {
  gate::GateOptions& options = flags.options;
  if (options.url.empty() == flags.model.model.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "URL", "give the URL of a running server, or --model PATH to start one in this process");
  }
  if (options.api_key.empty()) {
    if (const char* key = std::getenv("ISOBIT_API_KEY"); key != nullptr) options.api_key = key;
  }
  const SystemClock clock;
  ProgressLine line;
  std::unique_ptr<InProcessServer> own;
  if (options.url.empty()) {
    ISOBIT_ASSIGN(own, StartInProcessServer(flags.model, clock, [&](std::string_view text) { line.Show(text); }));
    options.url = own->url();
    options.rerun_as = fmt::format("--model {} --contract {} --kv-type {}", flags.model.model, flags.model.preset, flags.model.kv_type);
  }
  ISOBIT_ASSIGN(const gate::GateReport report,
                gate::RunGate(options, clock, [&](const std::string& text) { line.Show("gate: " + text); }));
  line.Show("");
  // The report goes where it was asked for; the table must not end up inside it.
  if (flags.json != "-") std::fputs(report.ToText().c_str(), stdout);
  if (!flags.json.empty()) ISOBIT_TRY(WriteJson(flags.json, report.ToJson()));
  return report.exit_code();
}

}  // namespace

void AddGateCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<GateFlags>();
  gate::GateOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("gate", "Prove or disprove that a server's answers do not depend on who else is asking");
  command->add_option("url", options.url, "A running OpenAI-compatible server, like http://127.0.0.1:8000 (http only)");
  command->add_option("--arms", options.arms, "Which circumstances to change: repeat, batch, stagger, cache, score (default: all)")->delimiter(',');
  command->add_option("--concurrency", options.concurrency, "How many at once in the batch arm, each against alone")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--prompts", options.num_prompts, "How many prompts to ask, 2 to 24 built-in ones")->capture_default_str();
  command->add_option("--prompts-file", options.prompts_file, "Own prompts: one JSON string or list of token ids a line");
  command->add_option("--max-tokens", options.max_tokens, "Length of an answer; 128 shows most drift")->capture_default_str();
  command->add_option("--seed", options.seed, "Chooses the first prompt and the seeds of sampled questions")->capture_default_str();
  command->add_option("--model-name", options.model, "The model to ask for (default: the first of /v1/models)");
  command->add_option("--api-key", options.api_key, "Sent as Bearer token (default: ISOBIT_API_KEY)");
  command->add_option("--timeout", options.timeout_seconds, "Seconds for one answer")->capture_default_str();
  command->add_option("--json", flags->json, "Write the report as JSON to this file, or - for standard output");
  CLI::App* own = command->add_option_group("Own server", "With --model, a server is started in this process on a free loopback port");
  flags->model.AddTo(*own);
  own->get_option("--model")->required(false);
  CLI::Option* max_seqs = own->get_option("--max-seqs");
  command->footer(
      "Examples:\n"
      "  isobit gate http://127.0.0.1:8000                             every arm against a running server\n"
      "  isobit gate --model SmolLM2.gguf --concurrency 16             start the model in this process and judge it\n"
      "  isobit gate http://127.0.0.1:8000 --arms repeat,batch --json report.json\n"
      "Exit codes: 0 every arm IDENTICAL, 1 answers differ, 2 usage, environment or failed answers, 3 something could not be exercised.");
  command->callback([flags, max_seqs, exit_code] {
    // The own server gets as many slots as the widest arm needs, unless it was told otherwise.
    if (max_seqs->count() == 0) {
      for (const std::int64_t concurrency : flags->options.concurrency) flags->model.max_seqs = std::max(flags->model.max_seqs, concurrency);
    }
    const auto result = Gate(*flags);
    *exit_code = result.ok() ? *result : PrintError(result.error());
  });
}

}  // namespace isobit
