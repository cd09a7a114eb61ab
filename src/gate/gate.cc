#include "gate/gate.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "gate/arms.h"
#include "gate/openai_subject.h"
#include "gate/prompts.h"

namespace isobit::gate {
namespace {

constexpr std::int64_t kMaxConcurrency = 1024;
constexpr std::int64_t kMaxTokens = 1 << 20;

Error BadOption(std::string field, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(field), std::move(message)};
}

Status CheckOptions(const GateOptions& options) {
  for (const std::string& arm : options.arms) {
    if (std::find(ArmNames().begin(), ArmNames().end(), arm) == ArmNames().end()) {
      return BadOption("arms", fmt::format("no arm is called \"{}\"; there are {}", arm, fmt::join(ArmNames(), ", ")));
    }
  }
  for (const std::int64_t concurrency : options.concurrency) {
    if (concurrency < 1 || concurrency > kMaxConcurrency) {
      return BadOption("concurrency", fmt::format("{} is not from 1 to {}", concurrency, kMaxConcurrency));
    }
  }
  if (options.concurrency.empty() || *std::max_element(options.concurrency.begin(), options.concurrency.end()) < 2) {
    return BadOption("concurrency", "give at least one number above 1; 1 is what every other is compared with");
  }
  if (options.max_tokens < 4 || options.max_tokens > kMaxTokens) {
    return BadOption("max_tokens", fmt::format("{} is not from 4 to {}; 128 shows most drift", options.max_tokens, kMaxTokens));
  }
  if (options.timeout_seconds < 1 || options.timeout_seconds > 86400) {
    return BadOption("timeout_seconds", fmt::format("{} is not from 1 to 86400", options.timeout_seconds));
  }
  return {};
}

void AddNotes(const Capabilities& capabilities, GateReport& report) {
  const auto note = [&](bool missing, const char* text) {
    if (missing) report.notes.emplace_back(text);
  };
  note(!capabilities.stream, "answers do not stream: overlap can be shown by the running gauge only");
  note(!capabilities.token_ids, "no token ids: answers are compared by token text and bytes");
  note(!capabilities.logprobs, "no log-probabilities: drift that does not change a token stays unseen");
  note(!capabilities.seed, "seeds are not honoured: all questions are greedy");
  note(!capabilities.cache_salt, "no working cache_salt (or no true cached_tokens): a cold run cannot be forced, only a first one");
  note(capabilities.running_gauge.empty(), "no gauge of running requests in /metrics: overlap is shown by interleaved tokens alone");
  const Json& fields = report.subject["request_fields"];
  std::vector<std::string> unseen, refused;
  for (const auto& [field, state] : fields.items()) {
    if (field == "cache_salt" || field == "stream_options") continue;
    if (state == "accepted") unseen.push_back(field);
    if (state == "refused") refused.push_back(field);
  }
  if (!unseen.empty()) report.notes.push_back(fmt::format("accepted without an effect that could be seen: {}", fmt::join(unseen, ", ")));
  if (!refused.empty()) report.notes.push_back(fmt::format("refused by the server and not sent: {}", fmt::join(refused, ", ")));
}

}  // namespace

const std::vector<std::string>& ArmNames() {
  static const std::vector<std::string> names = {"repeat", "batch", "stagger", "cache", "score"};
  return names;
}

Result<GateReport> RunGate(const GateOptions& options, const Clock& clock, const std::function<void(const std::string&)>& progress) {
  ISOBIT_TRY(CheckOptions(options));
  ISOBIT_ASSIGN(const std::vector<Prompt> prompts, ChoosePrompts(options.prompts_file, options.num_prompts, options.seed));
  const OpenAiConfig config{options.url, options.api_key, options.model, options.timeout_seconds};
  ISOBIT_ASSIGN(const std::unique_ptr<OpenAiSubject> subject, OpenAiSubject::Connect(config, clock, progress));
  const Capabilities& capabilities = subject->capabilities();
  for (const Prompt& prompt : prompts) {
    if (!prompt.ids.empty() && !capabilities.completions) {
      return BadOption("prompts_file", "holds token ids, but the server only has a chat endpoint; write the prompts as strings");
    }
  }
  const auto wanted = [&](const char* arm) {
    return options.arms.empty() || std::find(options.arms.begin(), options.arms.end(), arm) != options.arms.end();
  };

  Trial trial{*subject, options, progress, fmt::format("{:016x}", SystemEntropy()), MakeQuestions(prompts, options, capabilities), {}, {}, {}};
  for (const Prompt& prompt : prompts) trial.code_words.push_back(prompt.code_word);
  for (const BuiltInPrompt& neighbour : NeighbourPrompts()) trial.code_words.emplace_back(neighbour.code_word);

  GateReport report;
  report.level = capabilities.level().ToString();
  AskAlone(trial, wanted("repeat") || wanted("cache"));
  if (wanted("repeat")) report.arms.push_back(RepeatArm(trial));
  if (wanted("batch")) {
    for (const std::int64_t concurrency : options.concurrency) {
      // Alone was asked already; it is the reference.
      if (concurrency > 1) report.arms.push_back(BatchArm(trial, concurrency));
    }
    if (capabilities.token_ids || capabilities.logprobs) {
      report.arms.push_back(OrdinaryClientArm(trial, *std::max_element(options.concurrency.begin(), options.concurrency.end())));
    }
  }
  if (wanted("stagger")) {
    report.arms.push_back(StaggerDepthsArm(trial));
    report.arms.push_back(StaggerNeighboursArm(trial));
  }
  if (wanted("cache")) {
    report.arms.push_back(CacheWarmArm(trial));
    report.arms.push_back(CachePartialArm(trial));
    report.arms.push_back(CacheBlockEdgesArm(trial));
  }
  if (wanted("score")) {
    for (ArmReport& arm : ScoreArms(trial)) report.arms.push_back(std::move(arm));
  }
  Control control;
  if (options.positive_control) control = RunControl(trial);

  report.subject = subject->Describe();
  report.options = {
      {"num_prompts", options.num_prompts},
      {"sampled_prompts",
       std::count_if(trial.questions.begin(), trial.questions.end(), [](const Question& q) { return !q.sampling.greedy(); })},
      {"max_tokens", options.max_tokens},
      {"concurrency", options.concurrency},
      {"seed", options.seed},
      {"cache_salt_nonce", trial.nonce}};
  AddNotes(capabilities, report);
  const auto num_early =
      std::count_if(trial.alone.begin(), trial.alone.end(), [](const Answer& a) { return a.ok() && a.finish_reason == "stop"; });
  if (num_early > 0) {
    report.notes.push_back(fmt::format("ignore_eos is not honoured: {} of {} answers ended before {} tokens", num_early,
                                       trial.alone.size(), options.max_tokens));
  }

  report.verdict = Verdict::kIdentical;
  for (ArmReport& arm : report.arms) {
    report.verdict = WorstVerdict(report.verdict, arm.verdict);
    if (arm.verdict == Verdict::kIdentical) arm.next_command.clear();
  }
  if (report.arms.empty()) {
    report.verdict = Verdict::kInconclusive;
    report.reason = "no arm ran";
  }
  const bool qualified = options.positive_control && control.sees_differences && control.sees_no_ghosts;
  report.control = {{"qualified", qualified}, {"checks", control.checks}};
  if (!qualified) {
    report.reason = !options.positive_control      ? "not qualified: the control was switched off"
                    : !control.sees_no_ghosts      ? "not qualified: the control found a difference where there is none"
                                                   : "not qualified: the control did not find the differences that must be there";
    // What was seen to differ differs; but nothing may be called identical, and ghosts make even a difference doubtful.
    const bool doubtful = report.verdict < Verdict::kInconclusive || (options.positive_control && !control.sees_no_ghosts);
    if (doubtful) report.verdict = Verdict::kInconclusive;
  }
  return report;
}

}  // namespace isobit::gate
