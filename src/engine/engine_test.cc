#include "engine/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>

namespace isobit {
namespace {

constexpr std::int32_t kVocab = 16;
constexpr std::int32_t kBroken = 13;  // logits after it are NaN

// Says the successor of the last token: 3, 4, 5, ... Its logits fall by one per id on from there.
class SuccessorModel final : public LanguageModel {
 public:
  explicit SuccessorModel(const ModelLimits& limits) : limits_(limits) {}
  std::int64_t vocab_size() const override { return kVocab; }
  const ModelLimits& limits() const override { return limits_; }
  void Forward(const BatchInputs& batch) override {
    ++num_forwards;
    num_rows += batch.num_tokens();
    outputs_.clear();
    for (const std::int32_t row : batch.output_rows) outputs_.push_back(batch.token_ids[row]);
  }
  std::span<const float> Logits(std::int64_t first, std::int64_t count) override {
    EXPECT_LE(count, limits_.max_logit_rows);
    logits_.clear();
    for (std::int64_t i = first; i < first + count; ++i) {
      for (std::int32_t id = 0; id < kVocab; ++id) {
        const bool broken = outputs_.at(i) == kBroken;
        logits_.push_back(broken
                              ? std::numeric_limits<float>::quiet_NaN()
                              : -static_cast<float>((id - outputs_.at(i) - 1 + kVocab) % kVocab));
      }
    }
    return logits_;
  }

  std::int64_t num_forwards = 0, num_rows = 0;

 private:
  ModelLimits limits_;
  std::vector<std::int32_t> outputs_;
  std::vector<float> logits_;
};

GenerationRequest Request(std::vector<std::int32_t> prompt, std::int64_t max_new_tokens) {
  GenerationRequest request;
  request.prompt_ids = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_new_tokens = max_new_tokens;
  return request;
}

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    Create({.max_sequences = 2, .max_batch_tokens = 16, .prefill_chunk = 8, .max_queue = 3});
  }

  void Create(const EngineConfig& config, TraceRecorder* recorder = nullptr) {
    engine_ = std::move(Engine::Create(config, model_, clock_, recorder).value());
  }

  // The events come to seen_[index].
  RequestId Submit(GenerationRequest request, std::size_t index = 0) {
    return engine_
        ->Submit(std::move(request),
                 [this, index](EngineEvent e) { seen_[index].push_back(std::move(e)); })
        .value();
  }
  Error Refusal(GenerationRequest request) {
    const Result<RequestId> id =
        engine_->Submit(std::move(request), [](EngineEvent) { FAIL() << "refused"; });
    return id.ok() ? Error{} : id.error();
  }
  void RunAll() {
    for (int i = 0; engine_->Step(); ++i) ASSERT_LT(i, 1000);
  }
  std::vector<std::int32_t> Tokens(std::size_t index = 0) const {
    std::vector<std::int32_t> tokens;
    for (const EngineEvent& event : seen_[index]) {
      if (event.token) tokens.push_back(*event.token);
    }
    return tokens;
  }
  const EngineEvent& Last(std::size_t index = 0) const { return seen_[index].back(); }
  void ExpectBackToBase() const {
    const EngineStats stats = engine_->Stats();
    EXPECT_EQ(stats.num_running, 0);
    EXPECT_EQ(stats.num_waiting, 0);
    EXPECT_EQ(stats.num_free_blocks + stats.num_cached_blocks, stats.num_blocks);
  }

  const ModelLimits limits_{.max_batch_tokens = 16,
                            .max_sequences = 2,
                            .max_logit_rows = 3,
                            .max_model_len = 40,
                            .num_blocks = 6,
                            .block_size = 8};
  SuccessorModel model_{limits_};
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
  std::vector<EngineEvent> seen_[4];
};

using Ids = std::vector<std::int32_t>;

TEST_F(EngineTest, GeneratesUntilTheLength) {
  const RequestId id = Submit(Request({1, 2}, 3));
  EXPECT_EQ(id, 1u);
  EXPECT_EQ(engine_->Stats().num_waiting, 1);
  RunAll();
  EXPECT_EQ(Tokens(), Ids({3, 4, 5}));
  ASSERT_EQ(seen_[0].size(), 4u);
  EXPECT_EQ(Last().finish, FinishReason::kLength);
  EXPECT_EQ(Last().id, id);
  EXPECT_FALSE(Last().error);
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.prompt_tokens, 2);
  EXPECT_EQ(stats.generated_tokens, 3);
  EXPECT_EQ(stats.finished_length, 1);
  EXPECT_EQ(stats.num_steps, 3);
  EXPECT_EQ(model_.num_rows, 4);  // the last token is not run
  ExpectBackToBase();
  EXPECT_FALSE(engine_->Step());
}

TEST_F(EngineTest, TheStopTokenIsDeliveredThenTheFinish) {
  GenerationRequest request = Request({1}, 9);
  request.stop_token_ids = {7, 4};  // in any order
  Submit(request);
  RunAll();
  EXPECT_EQ(Tokens(), Ids({2, 3, 4}));
  EXPECT_EQ(Last().finish, FinishReason::kStop);
  EXPECT_EQ(Last().stop_token_id, 4);
  EXPECT_EQ(engine_->Stats().finished_stop, 1);
}

TEST_F(EngineTest, StopIdsAreMaskedUntilMinTokens) {
  GenerationRequest request = Request({1}, 9);
  request.stop_token_ids = {3};
  request.min_new_tokens = 2;
  Submit(request);
  RunAll();
  // 3 would be second: the next best is 4. Then nothing stops it but the length: 3 comes round
  // again as the 16th.
  EXPECT_EQ(Tokens(), Ids({2, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(Last().finish, FinishReason::kLength);

  // Everything masked: an error of this request, not a hang.
  request.stop_token_ids = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Submit(request, 1);
  RunAll();
  EXPECT_EQ(Last(1).finish, FinishReason::kError);
  EXPECT_NE(Last(1).error->message.find("no token is left"), std::string::npos);
  ExpectBackToBase();
}

TEST_F(EngineTest, ScoresThePromptOverChunksAndSlices) {
  // 10 tokens, chunks of 8, 3 logit rows at a time.
  GenerationRequest request = Request({1, 2, 3, 4, 5, 6, 7, 8, 9, 12}, 1);
  request.num_prompt_logprobs = 1;
  request.num_logprobs = 2;
  Submit(request);
  RunAll();
  ASSERT_EQ(seen_[0].size(), 3u);
  ASSERT_TRUE(seen_[0][0].has_prompt_scores);
  const std::vector<PromptScore>& scores = seen_[0][0].prompt_scores;
  ASSERT_EQ(scores.size(), 9u);
  for (std::int32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(scores[i].actual.id, i + 2);
    EXPECT_EQ(scores[i].actual.rank, 1);
    EXPECT_NEAR(scores[i].actual.logprob, -0.458675, 1e-6);  // -log(1 + e^-1 + ... + e^-15)
    ASSERT_EQ(scores[i].top.size(), 1u);
    EXPECT_EQ(scores[i].top[0].id, i + 2);
  }
  EXPECT_EQ(scores[8].actual.id, 12);
  EXPECT_EQ(scores[8].actual.rank, 3);
  EXPECT_NEAR(scores[8].actual.logprob, scores[0].actual.logprob - 2, 1e-6);
  EXPECT_EQ(scores[8].top[0].id, 10);

  EXPECT_EQ(seen_[0][1].token, 13);
  EXPECT_EQ(seen_[0][1].logprob->id, 13);
  EXPECT_EQ(seen_[0][1].logprob->rank, 1);
  ASSERT_EQ(seen_[0][1].top.size(), 2u);
  EXPECT_EQ(seen_[0][1].top[1].id, 14);
}

TEST_F(EngineTest, ScoresWithoutGenerating) {
  GenerationRequest request = Request({1, 2, 5}, 0);
  request.num_prompt_logprobs = 0;
  Submit(request);
  Submit(Request({4}, 0), 1);
  RunAll();
  ASSERT_EQ(seen_[0].size(), 2u);
  EXPECT_EQ(seen_[0][0].prompt_scores.size(), 2u);
  EXPECT_EQ(seen_[0][0].prompt_scores[1].actual.rank, 3);
  EXPECT_TRUE(seen_[0][0].prompt_scores[1].top.empty());
  EXPECT_EQ(Last().finish, FinishReason::kLength);
  ASSERT_EQ(seen_[1].size(), 1u);
  EXPECT_EQ(Last(1).finish, FinishReason::kLength);
  EXPECT_EQ(engine_->Stats().generated_tokens, 0);
}

TEST_F(EngineTest, AScoredPromptOfOneTokenHasNoScores) {
  GenerationRequest request = Request({4}, 1);
  request.num_prompt_logprobs = 0;
  Submit(request);
  RunAll();
  ASSERT_EQ(seen_[0].size(), 3u);
  EXPECT_TRUE(seen_[0][0].has_prompt_scores);
  EXPECT_TRUE(seen_[0][0].prompt_scores.empty());
}

TEST_F(EngineTest, NanFailsThatRequestOnly) {
  Submit(Request({11}, 9), 0);  // says 12, 13, then breaks
  Submit(Request({1}, 5), 1);
  GenerationRequest scored = Request({1, kBroken, 2, 3}, 2);
  scored.num_prompt_logprobs = 1;
  Submit(scored, 2);
  RunAll();
  EXPECT_EQ(Tokens(0), Ids({12, 13}));
  EXPECT_EQ(Last(0).finish, FinishReason::kError);
  EXPECT_EQ(Last(0).error->code, ErrorCode::kNumeric);
  EXPECT_EQ(Tokens(1), Ids({2, 3, 4, 5, 6}));
  EXPECT_EQ(Last(1).finish, FinishReason::kLength);
  ASSERT_EQ(seen_[2].size(), 1u);
  EXPECT_EQ(Last(2).error->code, ErrorCode::kNumeric);
  EXPECT_EQ(engine_->Stats().finished_error, 2);
  ExpectBackToBase();
}

TEST_F(EngineTest, CancelsQueuedInPrefillAndInDecode) {
  const RequestId decoding = Submit(Request({1}, 30), 0);
  const RequestId prefilling = Submit(Request(Ids(24, 5), 3), 1);
  const RequestId queued = Submit(Request({1, 2}, 3), 2);
  engine_->Step();
  EXPECT_EQ(engine_->Stats().num_running, 2);
  EXPECT_EQ(engine_->Stats().num_waiting, 1);
  for (const RequestId id : {queued, prefilling, decoding}) engine_->Cancel(id);
  const std::int64_t num_forwards = model_.num_forwards;
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(model_.num_forwards, num_forwards);  // nobody was left to run
  EXPECT_EQ(Tokens(0), Ids({2}));
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(Last(i).finish, FinishReason::kCancelled);
  EXPECT_EQ(seen_[1].size(), 1u);
  EXPECT_EQ(seen_[2].size(), 1u);
  EXPECT_EQ(engine_->Stats().finished_cancelled, 3);
  ExpectBackToBase();
}

TEST_F(EngineTest, CancelsOnlyWhatItNames) {
  engine_->Cancel(0);
  engine_->Cancel(1);  // not given out yet: must not hit the next request
  engine_->Cancel(~RequestId{0});
  const RequestId id = Submit(Request({1}, 1));
  RunAll();
  EXPECT_EQ(Last().finish, FinishReason::kLength);
  engine_->Cancel(id);  // finished long ago
  RunAll();
  EXPECT_EQ(seen_[0].size(), 2u);
  EXPECT_EQ(engine_->Stats().finished_cancelled, 0);
}

TEST_F(EngineTest, ASinkThatThrowsIsAClientThatLeft) {
  int num_calls = 0;
  ASSERT_TRUE(engine_
                  ->Submit(Request({1}, 9),
                           [&](EngineEvent) { ++num_calls, throw std::runtime_error("gone"); })
                  .ok());
  Submit(Request({1}, 4), 1);
  RunAll();
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(Tokens(1), Ids({2, 3, 4, 5}));
  EXPECT_EQ(engine_->Stats().finished_cancelled, 1);
  ExpectBackToBase();
}

TEST_F(EngineTest, BooksAreClosedWhenTheFinishIsTold) {
  bool told = false;
  ASSERT_TRUE(engine_
                  ->Submit(Request({1}, 1),
                           [&](EngineEvent event) {
                             if (!event.finish) return;
                             told = true;
                             ExpectBackToBase();
                             EXPECT_EQ(engine_->Stats().finished_length, 1);
                           })
                  .ok());
  RunAll();
  EXPECT_TRUE(told);
}

TEST_F(EngineTest, RefusesWhatCannotBeServed) {
  const auto field = [&](const std::function<void(GenerationRequest&)>& change) {
    GenerationRequest request = Request({1}, 4);
    change(request);
    const Error error = Refusal(request);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << error.ToString();
    return error.field;
  };
  EXPECT_EQ(field([](auto& r) { r.prompt_ids = {}; }), "prompt");
  EXPECT_EQ(field([](auto& r) { r.prompt_ids = {1, kVocab}; }), "prompt");
  EXPECT_EQ(field([](auto& r) { r.prompt_ids = {-1}; }), "prompt");
  EXPECT_EQ(field([](auto& r) { r.prompt_ids = Ids(41, 1); }), "prompt");
  EXPECT_EQ(field([](auto& r) { r.max_new_tokens = -1; }), "max_tokens");
  EXPECT_EQ(field([](auto& r) { r.max_new_tokens = 40; }), "max_tokens");
  EXPECT_EQ(field([](auto& r) { r.max_new_tokens = std::numeric_limits<std::int64_t>::max(); }),
            "max_tokens");
  EXPECT_EQ(field([](auto& r) { r.min_new_tokens = 5; }), "min_tokens");
  EXPECT_EQ(field([](auto& r) { r.min_new_tokens = -1; }), "min_tokens");
  EXPECT_EQ(field([](auto& r) { r.stop_token_ids = {kVocab}; }), "stop_token_ids");
  EXPECT_EQ(field([](auto& r) { r.num_logprobs = kVocab + 1; }), "logprobs");
  EXPECT_EQ(field([](auto& r) { r.num_prompt_logprobs = -2; }), "prompt_logprobs");
  EXPECT_EQ(field([](auto& r) { r.cache_salt.assign(2000, 'a'); }), "cache_salt");
  EXPECT_EQ(field([](auto& r) { r.sampling.temperature = 1e-5f; }), "temperature");
  EXPECT_EQ(field([](auto& r) { r.sampling.logit_bias = {{kVocab, 1.0f}}; }), "logit_bias");
  const Error too_long = Refusal(Request(Ids(41, 1), 0));
  EXPECT_NE(too_long.message.find("maximum context length is 40 tokens"), std::string::npos)
      << too_long.message;
  EXPECT_FALSE(engine_->Step());  // none of them got in
  // The longest that fits.
  Submit(Request({1}, 39));
  RunAll();
  EXPECT_EQ(Tokens().size(), 12u);  // up to the broken 13
}

TEST_F(EngineTest, RefusesMoreKvThanThePoolHolds) {
  SuccessorModel small({.max_batch_tokens = 16,
                        .max_sequences = 2,
                        .max_logit_rows = 3,
                        .max_model_len = 40,
                        .num_blocks = 2,
                        .block_size = 8});
  auto engine = std::move(
      Engine::Create({.max_sequences = 2, .max_batch_tokens = 16}, small, clock_, nullptr).value());
  const auto ignore = [](EngineEvent) {};
  EXPECT_TRUE(
      engine->Submit(Request(Ids(16, 1), 1), ignore).ok());  // the sampled token needs no KV
  const Result<RequestId> refused = engine->Submit(Request(Ids(16, 1), 2), ignore);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "max_tokens");
  EXPECT_NE(refused.error().message.find("holds 16"), std::string::npos) << refused.error().message;
}

TEST_F(EngineTest, TheQueueHasAnEnd) {
  for (int i = 0; i < 3; ++i) Submit(Request({1}, 2));
  const Error full = Refusal(Request({1}, 2));
  EXPECT_EQ(full.code, ErrorCode::kResourceExhausted);
  engine_->Step();  // two run, one waits
  EXPECT_EQ(engine_->Stats().num_waiting, 1);
  Submit(Request({1}, 2));
  Submit(Request({1}, 2));
  EXPECT_EQ(Refusal(Request({1}, 2)).code, ErrorCode::kResourceExhausted);
  RunAll();
  EXPECT_EQ(engine_->Stats().finished_length, 5);
}

TEST_F(EngineTest, RefusesAnImpossibleConfiguration) {
  const auto field = [&](const EngineConfig& config, const ModelLimits& limits) {
    SuccessorModel model(limits);
    const auto engine = Engine::Create(config, model, clock_, nullptr);
    return engine.ok() ? "" : engine.error().field;
  };
  const EngineConfig good{
      .max_sequences = 2, .max_batch_tokens = 16, .prefill_chunk = 8, .max_queue = 3};
  EXPECT_EQ(field(good, limits_), "");
  const auto with_config = [&](auto change) {
    EngineConfig config = good;
    change(config);
    return field(config, limits_);
  };
  EXPECT_EQ(with_config([](auto& c) { c.max_sequences = 3; }), "max_sequences");
  EXPECT_EQ(with_config([](auto& c) { c.max_batch_tokens = 0; }), "max_batch_tokens");
  EXPECT_EQ(with_config([](auto& c) { c.prefill_chunk = 0; }), "prefill_chunk");
  EXPECT_EQ(with_config([](auto& c) { c.max_queue = 0; }), "max_queue");
  const auto with_limits = [&](auto change) {
    ModelLimits limits = limits_;
    change(limits);
    return field(good, limits);
  };
  EXPECT_EQ(with_limits([](auto& l) { l.num_blocks = 0; }), "num_blocks");
  EXPECT_EQ(with_limits([](auto& l) { l.block_size = 4; }), "block_size");
  EXPECT_EQ(with_limits([](auto& l) { l.block_size = 24; }), "block_size");
}

TEST_F(EngineTest, CachesPrefixesUntilCleared) {
  const Ids prompt(20, 5);
  const auto cached = [&](GenerationRequest request) {
    seen_[0].clear();
    Submit(std::move(request));
    RunAll();
    return Last().cached_tokens;
  };
  EXPECT_EQ(cached(Request(prompt, 1)), 0);
  EXPECT_EQ(cached(Request(prompt, 1)), 16);
  GenerationRequest salted = Request(prompt, 1);
  salted.cache_salt = "a";
  EXPECT_EQ(cached(salted), 0);
  EXPECT_EQ(cached(salted), 16);
  GenerationRequest unwilling = Request(prompt, 1);
  unwilling.use_prefix_cache = false;
  EXPECT_EQ(cached(unwilling), 0);
  GenerationRequest scored = Request(prompt, 1);
  scored.num_prompt_logprobs = 0;
  EXPECT_EQ(cached(scored), 0);
  EXPECT_EQ(engine_->Stats().num_cached_blocks, 4);
  engine_->ClearPrefixCache();
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(engine_->Stats().num_cached_blocks, 0);
  EXPECT_EQ(engine_->Stats().num_free_blocks, 6);
  EXPECT_EQ(cached(Request(prompt, 1)), 0);
  EXPECT_EQ(engine_->Stats().prefix_hit_tokens, 32);
  EXPECT_EQ(engine_->Stats().prefix_query_tokens, 6 * 20);
}

TEST_F(EngineTest, StopCancelsWhatIsLeft) {
  engine_->Start();
  engine_->Stop();
  EXPECT_EQ(Refusal(Request({1}, 1)).code, ErrorCode::kCancelled);
  engine_->Start();
  engine_->Stop();
  Create({.max_sequences = 1, .max_batch_tokens = 16, .prefill_chunk = 8, .max_queue = 3});
  Submit(Request({1}, 9), 0);
  Submit(Request({1}, 9), 1);
  engine_->Step();
  Submit(Request({1}, 9), 2);
  engine_->Stop();
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(Last(i).finish, FinishReason::kCancelled);
  EXPECT_EQ(Tokens(0), Ids({2}));
  ExpectBackToBase();
}

TEST_F(EngineTest, RecordsItsSteps) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("isobit_engine_test_{}", getpid()))
          .string();
  auto recorder = std::move(TraceRecorder::Open(path, Json::object()).value());
  Create({.max_sequences = 2, .max_batch_tokens = 16, .prefill_chunk = 8, .max_queue = 3},
         recorder.get());
  Submit(Request(Ids(9, 3), 2), 0);
  Submit(Request({5}, 1), 1);
  RunAll();
  ASSERT_TRUE(recorder->Close().ok());
  const Trace trace = ReadTrace(path).value();
  std::filesystem::remove(path);
  ASSERT_EQ(trace.steps.size(), 3u);
  ASSERT_EQ(trace.steps[0].segments.size(), 2u);
  EXPECT_EQ(trace.steps[0].segments[0].num_rows, 8);
  EXPECT_EQ(trace.steps[0].tokens, (std::vector<std::pair<std::uint64_t, std::int32_t>>{{2, 6}}));
  EXPECT_EQ(trace.steps[1].segments[0].first_position, 8);
  EXPECT_EQ(trace.steps[1].tokens, (std::vector<std::pair<std::uint64_t, std::int32_t>>{{1, 4}}));
  EXPECT_EQ(trace.steps[2].step_index, 2);
}

TEST(FinishReason, HasNames) {
  EXPECT_STREQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_STREQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_STREQ(FinishReasonName(FinishReason::kCancelled), "cancelled");
  EXPECT_STREQ(FinishReasonName(FinishReason::kError), "error");
}

}  // namespace
}  // namespace isobit
