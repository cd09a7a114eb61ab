// The gate against a server that plays every fault it must see: a gate that passes a canary is red.
#include "gate/gate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "gate/fake_server.h"
#include "gate/raw_json.h"

namespace isobit::gate {
namespace {

using Fault = FakeBehaviour::Fault;

GateOptions SmallOptions(std::vector<std::string> arms) {
  GateOptions options;
  options.arms = std::move(arms);
  options.concurrency = {4};
  options.num_prompts = 4;
  options.max_tokens = 16;
  options.timeout_seconds = 20;
  return options;
}

FakeBehaviour Faulty(Fault fault) {
  FakeBehaviour behaviour;
  behaviour.fault = fault;
  return behaviour;
}

GateReport Judge(const FakeBehaviour& behaviour, GateOptions options) {
  FakeServer server(behaviour);
  options.url = server.url();
  const SystemClock clock;
  auto report = RunGate(options, clock, {});
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().ToString());
  return report.ok() ? *report : GateReport{};
}

// The worst verdict among the settings of one arm.
Verdict ArmVerdict(const GateReport& report, const std::string& name) {
  Verdict verdict = Verdict::kIdentical;
  bool found = false;
  for (const ArmReport& arm : report.arms) {
    if (arm.name != name) continue;
    verdict = WorstVerdict(verdict, arm.verdict);
    found = true;
  }
  EXPECT_TRUE(found) << name;
  return verdict;
}

const ArmReport& Arm(const GateReport& report, const std::string& name, const std::string& setting_part) {
  for (const ArmReport& arm : report.arms) {
    if (arm.name == name && arm.setting.find(setting_part) != std::string::npos) return arm;
  }
  ADD_FAILURE() << name << " " << setting_part << "\n" << report.ToText();
  static const ArmReport none;
  return none;
}

TEST(Gate, HonestServerIsIdenticalInEveryArm) {
  FakeServer server({});
  GateOptions options = SmallOptions({});
  options.url = server.url() + "/v1/";
  options.concurrency = {2, 4};
  const SystemClock clock;
  std::vector<std::string> lines;
  const auto report = RunGate(options, clock, [&](const std::string& line) { lines.push_back(line); });
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  SCOPED_TRACE(report->ToText());
  EXPECT_EQ(report->verdict, Verdict::kIdentical);
  EXPECT_EQ(report->exit_code(), 0);
  EXPECT_EQ(report->level, "token ids + log-probability digits + prompt log-probabilities");
  EXPECT_EQ(report->control["qualified"], true);
  ASSERT_EQ(report->arms.size(), 11u);  // repeat, batch 2, 4 and ordinary, two of stagger, three of cache, two of score
  for (const ArmReport& arm : report->arms) {
    SCOPED_TRACE(arm.name + ", " + arm.setting);
    EXPECT_EQ(arm.verdict, Verdict::kIdentical) << arm.evidence;
    EXPECT_EQ(arm.identical, arm.total);
    EXPECT_EQ(arm.total, arm.setting.starts_with("prefix") ? 16 : 4);
    EXPECT_EQ(arm.next_command, "");
  }
  EXPECT_NEAR(Arm(*report, "repeat", "twice").overlap, 1.0, 1e-9);
  EXPECT_GT(Arm(*report, "batch", "concurrency 4").overlap, 2.2);
  EXPECT_GT(Arm(*report, "batch", "concurrency 4").details["peak_running_gauge"], 1);
  EXPECT_EQ(Arm(*report, "score", "echo").details["positions"], 4 * 16);
  EXPECT_GT(Arm(*report, "stagger", "neighbours").details["cancelled"], 0);
  EXPECT_EQ(report->subject["request_fields"]["seed"], "honoured");
  EXPECT_EQ(report->subject["request_fields"]["top_k"], "honoured");
  EXPECT_EQ(report->subject["request_fields"]["min_p"], "honoured");
  EXPECT_EQ(report->subject["request_fields"]["repetition_penalty"], "honoured");
  EXPECT_EQ(report->subject["request_fields"]["cache_salt"], "honoured");
  EXPECT_EQ(report->subject["seed"], true);
  EXPECT_EQ(report->subject["version"], "1.2.3");
  EXPECT_EQ(report->subject["running_gauge"], "vllm:num_requests_running");
  EXPECT_EQ(report->options["sampled_prompts"], 2);
  EXPECT_EQ(report->subject["requests_sha256"].get<std::string>().size(), 64u);
  EXPECT_NE(std::find(lines.begin(), lines.end(), "batch concurrency 4: 4 of 4"), lines.end());

  const Json json = report->ToJson();
  EXPECT_EQ(json["verdict"], "IDENTICAL");
  EXPECT_EQ(json["arms"][0]["name"], "repeat");
  EXPECT_EQ(json["arms"][0]["identical"], 4);
  EXPECT_EQ(json["arms"][0]["total"], 4);
  EXPECT_TRUE(json["arms"][1]["overlap"].is_number());
  EXPECT_NE(report->ToText().find("verdict: IDENTICAL: 0 of 4 prompts differed"), std::string::npos);
}

TEST(Gate, EveryQuestionNamesItsWholeSamplerAndIsTheSameBytesInEveryArm) {
  FakeServer server({});
  GateOptions options = SmallOptions({"repeat", "batch"});
  options.url = server.url();
  const SystemClock clock;
  ASSERT_TRUE(RunGate(options, clock, {}).ok());
  std::vector<std::string> bare;
  for (const std::string& body : server.bodies()) {
    const std::size_t salt = body.find(",\"cache_salt\":\"");
    if (body.find("velmorin") == std::string::npos && body.find("Velmorin") == std::string::npos) continue;
    if (body.find("\"logprobs\"") == std::string::npos || body.find("\"temperature\":0,") == std::string::npos) continue;
    for (const char* field : {"top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty", "seed",
                              "max_tokens", "ignore_eos"}) {
      EXPECT_NE(body.find("\"" + std::string(field) + "\":"), std::string::npos) << field;
    }
    bare.push_back(salt == std::string::npos ? body : body.substr(0, salt));
  }
  ASSERT_GE(bare.size(), 3u);  // alone, again, at concurrency 4
  for (const std::string& body : bare) EXPECT_EQ(body, bare[0]);
}

TEST(Gate, SerialisingServerIsNotExercisedAndNeverIdentical) {
  FakeBehaviour behaviour;
  behaviour.serialise = true;
  const GateReport report = Judge(behaviour, SmallOptions({"repeat", "batch", "stagger"}));
  SCOPED_TRACE(report.ToText());
  EXPECT_EQ(ArmVerdict(report, "repeat"), Verdict::kIdentical);
  EXPECT_EQ(report.verdict, Verdict::kNotExercised);
  EXPECT_EQ(report.exit_code(), 3);
  for (const ArmReport& arm : report.arms) {
    if (arm.name == "repeat") continue;
    EXPECT_EQ(arm.verdict, Verdict::kNotExercised) << arm.setting;
    EXPECT_EQ(arm.identical, 4) << arm.setting;
    EXPECT_LT(arm.overlap, 1.2) << arm.setting;
  }
  EXPECT_NE(Arm(report, "batch", "concurrency 4").evidence.find("one after the other"), std::string::npos);
}

TEST(Gate, EarlyFirstTokensDoNotFakeOverlap) {
  FakeBehaviour behaviour;
  behaviour.serialise = behaviour.early_chunk = true;
  const GateReport report = Judge(behaviour, SmallOptions({"batch"}));
  EXPECT_EQ(ArmVerdict(report, "batch"), Verdict::kNotExercised) << report.ToText();
  EXPECT_EQ(report.exit_code(), 3);
}

struct Canary {
  Fault fault;
  std::vector<std::string> arms;
  std::string red_arm;  // must carry the verdict
  Verdict verdict;
  int exit_code;
  std::string evidence;  // part of the line
};

class Canaries : public testing::TestWithParam<Canary> {};

TEST_P(Canaries, TurnTheGateRed) {
  const Canary& canary = GetParam();
  FakeBehaviour behaviour = Faulty(canary.fault);
  // Slow enough that a neighbour that leaves after 15 ms leaves in the middle.
  if (canary.red_arm == "stagger") behaviour.token_micros = 2500;
  const GateReport report = Judge(behaviour, SmallOptions(canary.arms));
  SCOPED_TRACE(report.ToText());
  EXPECT_EQ(ArmVerdict(report, canary.red_arm), canary.verdict);
  EXPECT_EQ(report.verdict, canary.verdict);
  EXPECT_EQ(report.exit_code(), canary.exit_code);
  const bool said = std::any_of(report.arms.begin(), report.arms.end(), [&](const ArmReport& arm) {
    return arm.name == canary.red_arm && arm.evidence.find(canary.evidence) != std::string::npos && !arm.next_command.empty() &&
           arm.identical < arm.total;
  });
  EXPECT_TRUE(said) << canary.evidence;
  EXPECT_EQ(ArmVerdict(report, "repeat") == Verdict::kIdentical, canary.red_arm != "repeat");
}

INSTANTIATE_TEST_SUITE_P(
    All, Canaries,
    testing::Values(
        Canary{Fault::kBatchDigits, {"repeat", "batch"}, "batch", Verdict::kDifferent, 1, "tokens equal, largest drift 0.0001"},
        Canary{Fault::kBatchTokens, {"repeat", "batch"}, "batch", Verdict::kDifferent, 1, "token 5: "},
        Canary{Fault::kPlainTokens, {"repeat", "batch"}, "batch", Verdict::kDifferent, 1, "text from byte"},
        Canary{Fault::kJoinDigits, {"repeat", "stagger"}, "stagger", Verdict::kDifferent, 1, "log-probability at token"},
        Canary{Fault::kCancelDigits, {"repeat", "stagger"}, "stagger", Verdict::kDifferent, 1, "log-probability at token"},
        Canary{Fault::kRepeatTokens, {"repeat"}, "repeat", Verdict::kDifferent, 1, "token 3: "},
        Canary{Fault::kCacheDigits, {"repeat", "cache"}, "cache", Verdict::kDifferent, 1, "cold / warm against cold: log-probability at token 0"},
        Canary{Fault::kCacheEdgeDigits, {"repeat", "cache"}, "cache", Verdict::kDifferent, 1, "17 ids"},
        Canary{Fault::kScoreDigits, {"repeat", "score"}, "score", Verdict::kDifferent, 1, "log-probability at token 13"},
        Canary{Fault::kLeak, {"repeat", "batch"}, "batch", Verdict::kStructured, 1, "stands only in another prompt"},
        Canary{Fault::kBatchErrors, {"repeat", "batch"}, "batch", Verdict::kError, 2, "HTTP 500: out of slots"},
        Canary{Fault::kDisconnects, {"repeat", "batch"}, "batch", Verdict::kError, 2, "closed the connection"}),
    [](const testing::TestParamInfo<Canary>& info) { return "Fault" + std::to_string(static_cast<int>(info.param.fault)); });

TEST(Gate, FlipsBetweenAlmostEqualCandidatesAreNearTies) {
  const GateReport report = Judge(Faulty(Fault::kBatchNearTies), SmallOptions({"repeat", "batch"}));
  SCOPED_TRACE(report.ToText());
  const ArmReport& arm = Arm(report, "batch", "concurrency 4");
  EXPECT_EQ(arm.verdict, Verdict::kNearTie);
  EXPECT_NE(arm.evidence.find("top-2 margins 0.0031"), std::string::npos);
  EXPECT_GT(arm.details["near_ties"], 0);
  EXPECT_EQ(report.exit_code(), 1);
}

TEST(Gate, OneAnswerForEverythingIsNotQualified) {
  const GateReport report = Judge(Faulty(Fault::kConstant), SmallOptions({"repeat", "batch"}));
  SCOPED_TRACE(report.ToText());
  EXPECT_EQ(report.verdict, Verdict::kInconclusive);
  EXPECT_EQ(report.exit_code(), 3);
  EXPECT_NE(report.reason.find("not qualified"), std::string::npos);
  EXPECT_EQ(report.control["qualified"], false);
}

TEST(Gate, WithoutControlNothingIsIdenticalButADifferenceStaysOne) {
  GateOptions options = SmallOptions({"repeat"});
  options.positive_control = false;
  const GateReport quiet = Judge({}, options);
  EXPECT_EQ(quiet.verdict, Verdict::kInconclusive);
  EXPECT_EQ(quiet.exit_code(), 3);
  const GateReport faulty = Judge(Faulty(Fault::kRepeatTokens), options);
  EXPECT_EQ(faulty.verdict, Verdict::kDifferent);
}

TEST(Gate, ServerWithTextOnlyIsJudgedByText) {
  FakeBehaviour behaviour;
  behaviour.token_ids = behaviour.logprobs = behaviour.echo = behaviour.prompt_logprobs = behaviour.seeds = behaviour.gauge = false;
  behaviour.chunked = false;
  behaviour.refused = {"return_token_ids", "logprobs", "cache_salt", "ignore_eos", "prompt_logprobs", "echo", "min_p"};
  const GateReport report = Judge(behaviour, SmallOptions({"repeat", "batch", "score"}));
  SCOPED_TRACE(report.ToText());
  EXPECT_EQ(report.level, "text");
  EXPECT_EQ(ArmVerdict(report, "repeat"), Verdict::kIdentical);
  EXPECT_EQ(ArmVerdict(report, "batch"), Verdict::kIdentical);
  EXPECT_EQ(ArmVerdict(report, "score"), Verdict::kNotExercised);
  EXPECT_EQ(report.exit_code(), 3);
  EXPECT_EQ(report.options["sampled_prompts"], 0);
  EXPECT_EQ(report.subject["request_fields"]["min_p"], "refused");
  EXPECT_EQ(report.subject["refusals"]["min_p"], "HTTP 422: min_p is not permitted");
  EXPECT_EQ(report.subject["request_fields"]["top_k"], "honoured");
  FakeBehaviour drifting = behaviour;
  drifting.fault = Fault::kBatchTokens;
  const GateReport red = Judge(drifting, SmallOptions({"repeat", "batch"}));
  EXPECT_EQ(ArmVerdict(red, "batch"), Verdict::kDifferent) << red.ToText();
}

TEST(Gate, LlamaStyleAnswersAreCompared) {
  FakeBehaviour behaviour;
  behaviour.content_list = true;
  behaviour.token_ids = behaviour.takes_ids = behaviour.salts = false;
  behaviour.wants_minus_one = true;
  const GateReport report = Judge(behaviour, SmallOptions({"repeat", "batch"}));
  SCOPED_TRACE(report.ToText());
  EXPECT_EQ(report.verdict, Verdict::kIdentical);
  EXPECT_EQ(report.level, "text + log-probability digits + prompt log-probabilities");
  EXPECT_EQ(report.subject["request_fields"]["top_k"], "honoured");
  behaviour.fault = Fault::kBatchDigits;
  const GateReport red = Judge(behaviour, SmallOptions({"repeat", "batch"}));
  EXPECT_EQ(ArmVerdict(red, "batch"), Verdict::kDifferent) << red.ToText();
}

TEST(Gate, ChatOnlyServerIsJudgedThroughChat) {
  FakeBehaviour behaviour;
  behaviour.completions = false;
  const GateReport report = Judge(behaviour, SmallOptions({"repeat", "batch"}));
  SCOPED_TRACE(report.ToText());
  EXPECT_EQ(report.verdict, Verdict::kIdentical);
  EXPECT_EQ(report.subject["endpoint"], "/v1/chat/completions");
}

TEST(Gate, ServerThatDoesNotStreamNeedsItsGauge) {
  FakeBehaviour behaviour;
  behaviour.stream = false;
  behaviour.token_micros = 6000;  // long enough for the gauge to be read
  const GateReport report = Judge(behaviour, SmallOptions({"batch"}));
  EXPECT_EQ(Arm(report, "batch", "concurrency 4").verdict, Verdict::kIdentical) << report.ToText();
  behaviour.gauge = false;
  const GateReport blind = Judge(behaviour, SmallOptions({"batch"}));
  EXPECT_EQ(Arm(blind, "batch", "concurrency 4").verdict, Verdict::kNotExercised) << blind.ToText();
}

TEST(Gate, LyingCacheCounterIsNoProof) {
  FakeBehaviour behaviour;
  behaviour.cached_tokens_lie = 16;
  behaviour.cache = false;
  GateOptions options = SmallOptions({"cache"});
  options.num_prompts = 16;
  options.max_tokens = 4;
  const GateReport report = Judge(behaviour, options);
  EXPECT_EQ(Arm(report, "cache", "warm").verdict, Verdict::kNotExercised) << report.ToText();
  EXPECT_EQ(report.exit_code(), 3);
  // A counter stuck at 0 beside a cache that works: the time to the first token tells.
  behaviour.cached_tokens_lie = 0;
  behaviour.cache = true;
  behaviour.prefill_micros = 400;
  behaviour.salts = false;
  const GateReport timed = Judge(behaviour, options);
  EXPECT_EQ(Arm(timed, "cache", "warm").verdict, Verdict::kIdentical) << timed.ToText();
  EXPECT_NE(Arm(timed, "cache", "warm").evidence.find("cached_tokens proves nothing"), std::string::npos);
}

TEST(Gate, CacheSwitchedOffIsNotExercised) {
  FakeBehaviour behaviour;
  behaviour.cache = false;
  const GateReport report = Judge(behaviour, SmallOptions({"cache"}));
  EXPECT_EQ(ArmVerdict(report, "cache"), Verdict::kNotExercised) << report.ToText();
}

TEST(Gate, CacheFaultIsSeenWithoutSaltsToo) {
  FakeBehaviour behaviour = Faulty(Fault::kCacheDigits);
  behaviour.salts = false;
  const GateReport report = Judge(behaviour, SmallOptions({"cache"}));
  EXPECT_EQ(Arm(report, "cache", "warm").verdict, Verdict::kDifferent) << report.ToText();
}

TEST(Gate, MoreSlotsThanPromptsAreFilledByAskingTwice) {
  GateOptions options = SmallOptions({"batch"});
  options.num_prompts = 2;
  options.concurrency = {1, 5};
  const GateReport report = Judge({}, options);
  EXPECT_EQ(Arm(report, "batch", "concurrency 5").total, 6) << report.ToText();
  EXPECT_EQ(report.arms.size(), 2u);  // 1 is the reference, not a row; and the ordinary client
  EXPECT_EQ(report.verdict, Verdict::kIdentical) << report.ToText();
}

TEST(Gate, OwnPromptsMayBeTextOrIds) {
  const std::string file = testing::TempDir() + "gate_prompts_" + std::to_string(getpid()) + ".jsonl";
  ASSERT_TRUE(WriteFile(file, "\"one two three\"\n\n[1001, 1002, 1003]\n").ok());
  GateOptions options = SmallOptions({"repeat", "score"});
  options.num_prompts = 2;
  options.prompts_file = file;
  const GateReport report = Judge({}, options);
  EXPECT_EQ(report.verdict, Verdict::kIdentical) << report.ToText();
  options.num_prompts = 3;
  FakeServer server({});
  options.url = server.url();
  const SystemClock clock;
  const auto too_many = RunGate(options, clock, {});
  ASSERT_FALSE(too_many.ok());
  EXPECT_EQ(too_many.error().field, "num_prompts");
  ASSERT_TRUE(WriteFile(file, "\"one\"\n{\"no\": 1}\n").ok());
  const auto bad_line = RunGate(options, clock, {});
  ASSERT_FALSE(bad_line.ok());
  EXPECT_NE(bad_line.error().message.find("line 2"), std::string::npos);
  std::remove(file.c_str());
}

TEST(Gate, BadOptionsAndServersAreErrorsThatNameTheField) {
  FakeBehaviour locked;
  locked.api_key = "secret";
  FakeServer server(locked);
  const SystemClock clock;
  const auto field_of = [&](GateOptions options) {
    if (options.url.empty()) options.url = server.url();
    const auto report = RunGate(options, clock, {});
    EXPECT_FALSE(report.ok());
    return report.ok() ? "" : report.error().field;
  };
  EXPECT_EQ(field_of(SmallOptions({"repat"})), "arms");
  GateOptions options = SmallOptions({});
  options.concurrency = {1};
  EXPECT_EQ(field_of(options), "concurrency");
  options = SmallOptions({});
  options.max_tokens = 0;
  EXPECT_EQ(field_of(options), "max_tokens");
  options = SmallOptions({});
  options.num_prompts = 1;
  EXPECT_EQ(field_of(options), "num_prompts");
  options = SmallOptions({});
  options.num_prompts = 1000;
  EXPECT_EQ(field_of(options), "num_prompts");
  options = SmallOptions({});
  options.url = "https://example.org";
  EXPECT_EQ(field_of(options), "url");
  options.url = "http://127.0.0.1:1";
  EXPECT_EQ(field_of(options), "url");
  EXPECT_EQ(field_of(SmallOptions({})), "api_key");
  options = SmallOptions({"repeat"});
  options.url = server.url();
  options.api_key = "secret";
  EXPECT_TRUE(RunGate(options, clock, {}).ok());
}

}  // namespace
}  // namespace isobit::gate
