#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "contract/elementary.h"
#include "contract/norm.h"
#include "contract/sampling.h"

namespace isobit {
namespace {

std::vector<float> Logits(std::uint32_t seed, std::size_t count) {
  std::vector<float> logits(count);
  for (std::size_t i = 0; i < count; ++i) {
    logits[i] = static_cast<float>(Philox4x32({static_cast<std::uint32_t>(i), 3, 0, 0}, {seed, 0})[0] >> 20) / 512.0f;  // ties occur
  }
  return logits;
}

std::int32_t Pick(std::span<const float> logits, const SamplingParams& params, std::int64_t position = 5,
                  const TokenHistory& history = {}, std::vector<std::int32_t> masked = {}) {
  auto token = SampleToken(logits, params, history, masked, position);
  EXPECT_TRUE(token.ok()) << token.error().ToString();
  return token.ok() ? *token : -1;
}

// The law of contract/sampling.h, step by step with full sorts: what the sampler must equal.
std::int32_t SlowSample(std::span<const float> logits, const SamplingParams& params, std::int64_t position) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> z(logits.begin(), logits.end());
  for (float& value : z) value = value / params.temperature;
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return z[a] != z[b] ? z[a] > z[b] : a < b; });
  const float max = z[order[0]];
  if (params.top_k > 0 && params.top_k < static_cast<std::int32_t>(order.size())) order.resize(params.top_k);
  if (params.top_p < 1.0f) {
    std::vector<float> present(z.size(), -std::numeric_limits<float>::infinity());
    for (const auto id : order) present[id] = z[id];
    const float threshold = params.top_p * contract::SumExp(present, max);
    float sum = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      sum = sum + contract::Exp(z[order[i]] - max);
      if (sum >= threshold) order.resize(i + 1);
    }
  }
  std::int32_t best = -1;
  float best_value = 0;
  std::sort(order.begin(), order.end());
  for (const auto id : order) {
    if (contract::Exp(z[id] - max) < params.min_p) continue;
    const float value = z[id] + contract::GumbelNoise(params.seed, params.choice, position, id);
    if (best < 0 || value > best_value) best = id, best_value = value;
  }
  return best;
}

TEST(Sampler, EqualsTheSlowLaw) {
  int distinct = 0;
  std::int32_t last = -1;
  for (std::uint32_t trial = 0; trial < 400; ++trial) {
    const auto logits = Logits(trial, 700);
    SamplingParams params;
    params.seed = trial * 77;
    params.choice = trial % 3;
    params.temperature = trial % 4 == 0 ? 0.3f : 1.0f + trial % 5;
    params.top_k = trial % 3 == 0 ? static_cast<std::int32_t>(trial % 60) : 0;
    params.top_p = trial % 2 == 0 ? 0.7f : 1.0f;
    params.min_p = trial % 5 == 0 ? 0.05f : 0.0f;
    const std::int32_t token = Pick(logits, params, trial);
    EXPECT_EQ(token, SlowSample(logits, params, trial)) << trial;
    distinct += token != last;
    last = token;
  }
  EXPECT_GT(distinct, 300);
}

TEST(Sampler, GreedyTakesTheLowestIdAndTopK1Equals) {
  const std::vector<float> logits = {1, 4, 2, 4, 4};
  SamplingParams greedy;
  greedy.temperature = 0;
  EXPECT_EQ(Pick(logits, greedy), 1);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {  // B05: ties at top_k = 1 must not let the seed decide
    SamplingParams one;
    one.top_k = 1;
    one.seed = seed;
    EXPECT_EQ(Pick(logits, one), 1);
  }
}

TEST(Sampler, TopKKeepsExactlyKAtATie) {
  const std::vector<float> logits = {0, 5, 5, 5, 5, 0};
  std::vector<int> seen(6);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SamplingParams params;
    params.top_k = 2;
    params.seed = seed;
    ++seen[Pick(logits, params)];
  }
  EXPECT_GT(seen[1], 50);
  EXPECT_GT(seen[2], 50);
  EXPECT_EQ(seen[1] + seen[2], 200);
}

TEST(Sampler, SamplesItsDistribution) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  int seen[3] = {};
  SamplingParams params;
  for (int i = 0; i < 20000; ++i) {
    params.seed = i;
    ++seen[Pick(logits, params)];
  }
  EXPECT_NEAR(seen[0] / 20000.0, 0.5, 0.015);
  EXPECT_NEAR(seen[1] / 20000.0, 0.3, 0.015);
  EXPECT_NEAR(seen[2] / 20000.0, 0.2, 0.015);
}

TEST(Sampler, ChoicesDifferAndDoNotDependOnEachOther) {
  const auto logits = Logits(9, 500);
  SamplingParams params;
  params.seed = 7;
  params.temperature = 4;
  std::vector<std::int32_t> tokens;
  for (std::uint32_t choice = 0; choice < 4; ++choice) {
    params.choice = choice;
    tokens.push_back(Pick(logits, params));
  }
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(std::unique(tokens.begin(), tokens.end()) - tokens.begin(), 4);
}

TEST(Sampler, BiasPenaltiesAndMasks) {
  const std::vector<float> logits = {1, 3, 2, -1};
  SamplingParams params;
  params.temperature = 0;
  params.logit_bias = {{3, 10.0f}};
  EXPECT_EQ(Pick(logits, params), 3);
  params.logit_bias.clear();
  EXPECT_EQ(Pick(logits, params, 5, {}, {1}), 2);
  params.allowed_token_ids = {0, 3};
  EXPECT_EQ(Pick(logits, params), 0);
  params.allowed_token_ids.clear();
  params.repetition_penalty = 2.0f;
  const std::vector<std::int32_t> prompt = {1}, output = {1, 1, 2};
  EXPECT_EQ(Pick(logits, params, 5, {prompt, {}}), 2);  // 3 / 2 = 1.5 < 2
  params.repetition_penalty = 1.0f;
  params.frequency_penalty = 0.6f;  // 3 - 2 * 0.6 = 1.8; 2 - 0.6 = 1.4
  EXPECT_EQ(Pick(logits, params, 5, {prompt, output}), 1);
  params.frequency_penalty = 0.0f;
  params.presence_penalty = 2.0f;  // once for each token, whatever its count: 1, 1, 0, -1
  EXPECT_EQ(Pick(logits, params, 5, {prompt, output}), 0);
}

TEST(Sampler, NothingLeftAndNonFinite) {
  SamplingParams params;
  params.temperature = 0;
  params.allowed_token_ids = {1};
  const std::vector<float> logits = {1, 2};
  const std::vector<std::int32_t> masked = {1};
  EXPECT_EQ(SampleToken(logits, params, {}, masked, 0).error().field, "allowed_token_ids");
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const std::vector<float> broken = {1, bad};
    EXPECT_EQ(SampleToken(broken, {}, {}, {}, 0).error().code, ErrorCode::kNumeric);
    EXPECT_EQ(CheckLogits(broken).error().code, ErrorCode::kNumeric);
  }
}

TEST(ScoreToken, RankTopAndLogprob) {
  const std::vector<float> logits = {2, 5, 2, 5};
  std::vector<TokenLogprob> top;
  const TokenLogprob scored = ScoreToken(logits, 2, 3, &top);
  EXPECT_EQ(scored.rank, 4);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].id, 1);
  EXPECT_EQ(top[1].id, 3);
  EXPECT_EQ(top[2].id, 0);
  EXPECT_EQ(top[2].logprob, scored.logprob);
  EXPECT_NEAR(scored.logprob, std::log(std::exp(2.0) / (2 * std::exp(2.0) + 2 * std::exp(5.0))), 1e-6);
  EXPECT_EQ(ScoreToken(logits, 3, 0, nullptr).rank, 2);
}

TEST(SamplingParams, ErrorsNameTheField) {
  const auto field = [](auto change) {
    SamplingParams params;
    change(params);
    const Status status = ValidateSamplingParams(params, 100);
    return status.ok() ? "" : status.error().field;
  };
  EXPECT_EQ(field([](auto&) {}), "");
  for (const float bad : {-0.5f, 1e-5f, 1e-30f, NAN, INFINITY, 1e9f}) {
    EXPECT_EQ(field([&](auto& p) { p.temperature = bad; }), "temperature") << bad;
  }
  EXPECT_EQ(field([](auto& p) { p.temperature = -0.0f; }), "");
  EXPECT_EQ(field([](auto& p) { p.top_p = 0.0f; }), "top_p");
  EXPECT_EQ(field([](auto& p) { p.top_p = 1.5f; }), "top_p");
  EXPECT_EQ(field([](auto& p) { p.min_p = -0.1f; }), "min_p");
  EXPECT_EQ(field([](auto& p) { p.top_k = -1; }), "top_k");
  for (const float bad : {0.0f, 1e-40f, 1e-3f, 101.0f, NAN}) {
    EXPECT_EQ(field([&](auto& p) { p.repetition_penalty = bad; }), "repetition_penalty") << bad;
  }
  EXPECT_EQ(field([](auto& p) { p.repetition_penalty = kMinRepetitionPenalty; }), "");
  EXPECT_EQ(field([](auto& p) { p.frequency_penalty = 3.0f; }), "frequency_penalty");
  EXPECT_EQ(field([](auto& p) { p.presence_penalty = NAN; }), "presence_penalty");
  EXPECT_EQ(field([](auto& p) { p.logit_bias = {{100, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(field([](auto& p) { p.logit_bias = {{-1, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(field([](auto& p) { p.logit_bias = {{1, 101.0f}}; }), "logit_bias");
  EXPECT_EQ(field([](auto& p) { p.allowed_token_ids = {3, 3}; }), "allowed_token_ids");
}

}  // namespace
}  // namespace isobit
