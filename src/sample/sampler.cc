#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "contract/elementary.h"
#include "contract/float_bits.h"
#include "contract/norm.h"
#include "contract/sampling.h"

namespace isobit {
namespace {

constexpr float kAbsent = -std::numeric_limits<float>::infinity();

// The order of every tie: larger first, lower id among equals.
struct BetterToken {
  std::span<const float> z;
  bool operator()(std::int32_t a, std::int32_t b) const { return z[a] != z[b] ? z[a] > z[b] : a < b; }
};

bool ChangesLogits(const SamplingParams& params, std::span<const std::int32_t> masked_ids) {
  return !params.logit_bias.empty() || !params.allowed_token_ids.empty() || !masked_ids.empty() ||
         params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
}

std::vector<std::int32_t> Sorted(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::vector<std::int32_t> ids(a.begin(), a.end());
  ids.insert(ids.end(), b.begin(), b.end());
  std::sort(ids.begin(), ids.end());
  return ids;
}

void ApplyPenalties(const SamplingParams& params, const TokenHistory& history, std::vector<float>& z) {
  if (params.repetition_penalty != 1.0f) {
    std::vector<std::int32_t> ids = Sorted(history.prompt, history.output);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (const std::int32_t id : ids) {
      z[id] = z[id] > 0 ? z[id] / params.repetition_penalty : z[id] * params.repetition_penalty;
    }
  }
  if (params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f) {
    const std::vector<std::int32_t> ids = Sorted(history.output, {});
    for (std::size_t i = 0; i < ids.size();) {
      std::size_t end = i;
      while (end < ids.size() && ids[end] == ids[i]) ++end;
      float& value = z[ids[i]];
      if (params.frequency_penalty != 0.0f) value = value - static_cast<float>(end - i) * params.frequency_penalty;
      if (params.presence_penalty != 0.0f) value = value - params.presence_penalty;
      i = end;
    }
  }
}

void ApplyMasks(const SamplingParams& params, std::span<const std::int32_t> masked_ids, std::vector<float>& z) {
  if (!params.allowed_token_ids.empty()) {
    std::vector<float> allowed(z.size(), kAbsent);
    for (const std::int32_t id : params.allowed_token_ids) allowed[id] = z[id];
    z.swap(allowed);
  }
  for (const std::int32_t id : masked_ids) z[id] = kAbsent;
}

void KeepTopK(std::int64_t k, std::vector<float>& z) {
  if (k == 0 || k >= static_cast<std::int64_t>(z.size())) return;
  std::vector<std::int32_t> ids(z.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
  std::nth_element(ids.begin(), ids.begin() + k, ids.end(), BetterToken{z});
  for (std::size_t i = k; i < ids.size(); ++i) z[ids[i]] = kAbsent;
}

void KeepTopP(float top_p, float max, std::vector<float>& z) {
  if (top_p >= 1.0f) return;
  const float threshold = top_p * contract::SumExp(z, max);
  std::vector<std::int32_t> heap;
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (z[i] != kAbsent) heap.push_back(static_cast<std::int32_t>(i));
  }
  // A heap hands the tokens out best first, so that only the kept ones are ever sorted.
  const auto worse = [better = BetterToken{z}](std::int32_t a, std::int32_t b) { return better(b, a); };
  std::make_heap(heap.begin(), heap.end(), worse);
  std::vector<float> kept(z.size(), kAbsent);
  float sum = 0.0f;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), worse);
    const std::int32_t id = heap.back();
    heap.pop_back();
    kept[id] = z[id];
    sum = sum + contract::Exp(z[id] - max);
    if (sum >= threshold) break;
  }
  z.swap(kept);
}

void KeepMinP(float min_p, float max, std::vector<float>& z) {
  if (min_p <= 0.0f) return;
  for (float& value : z) {
    if (value != kAbsent && contract::Exp(value - max) < min_p) value = kAbsent;
  }
}

std::int32_t GumbelArgMax(const SamplingParams& params, std::int64_t position, std::span<const float> z) {
  // The likeliest token's noise first: most others cannot win even with the largest noise, or show in the bits of their draw that
  // theirs is too small. The bound leaves a margin of 0.01, far more than the rounding of z + noise.
  std::int32_t best = contract::ArgMax(z);
  float best_value = z[best] + contract::GumbelNoise(params.seed, params.choice, position, best);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const float needed = best_value - z[i];
    if (needed > contract::kMaxGumbelNoise) continue;
    const auto id = static_cast<std::int32_t>(i);
    const std::uint32_t bits = contract::NoiseBits(params.seed, params.choice, position, id);
    if (bits < contract::MinBitsForNoise(needed)) continue;
    const float value = z[id] + contract::GumbelOfBits(bits);
    if (value > best_value || (value == best_value && id < best)) {
      best = id;
      best_value = value;
    }
  }
  return best;
}

}  // namespace

Status CheckLogits(std::span<const float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!contract::IsFinite(logits[i])) {
      return Fail(ErrorCode::kNumeric, "logits", "the logit of token {} is not finite: the weights or the KV of this request hold "
                  "NaN or infinity", i);
    }
  }
  return {};
}

Result<std::int32_t> SampleToken(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
                                 std::span<const std::int32_t> masked_ids, std::int64_t position) {
  ISOBIT_TRY(CheckLogits(logits));
  const bool changes = ChangesLogits(params, masked_ids);
  if (params.greedy() && !changes) return contract::ArgMax(logits);

  std::vector<float> z(logits.begin(), logits.end());
  for (const auto& [id, bias] : params.logit_bias) z[id] = z[id] + bias;
  ApplyPenalties(params, history, z);
  ApplyMasks(params, masked_ids, z);
  std::int32_t best = contract::ArgMax(z);
  if (z[best] == kAbsent) {
    return Fail(ErrorCode::kInvalidArgument, "allowed_token_ids", "no token is left to choose from");
  }
  if (params.greedy()) return best;

  for (float& value : z) value = value / params.temperature;
  best = contract::ArgMax(z);
  const float max = z[best];
  if (!contract::IsFinite(max)) {
    return Fail(ErrorCode::kNumeric, "temperature", "a logit divided by {} is not finite", params.temperature);
  }
  KeepTopK(params.top_k, z);
  KeepTopP(params.top_p, max, z);
  KeepMinP(params.min_p, max, z);
  ISOBIT_CHECK(z[best] == max, "the likeliest token survives every filter");
  return GumbelArgMax(params, position, z);
}

TokenLogprob ScoreToken(std::span<const float> logits, std::int32_t token, std::int64_t top_count, std::vector<TokenLogprob>* top) {
  ISOBIT_CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size());
  const contract::LogSumExp normalizer = contract::ComputeLogSumExp(logits);
  const BetterToken better{logits};
  TokenLogprob scored{token, normalizer.LogProb(logits[token]), 1};
  for (std::size_t i = 0; i < logits.size(); ++i) scored.rank += better(static_cast<std::int32_t>(i), token);
  if (top != nullptr) {
    const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(top_count, 0, static_cast<std::int64_t>(logits.size())));
    std::vector<std::int32_t> ids(logits.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
    std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), better);
    top->clear();
    for (std::size_t i = 0; i < count; ++i) {
      top->push_back({ids[i], normalizer.LogProb(logits[ids[i]]), static_cast<std::int32_t>(i + 1)});
    }
  }
  return scored;
}

}  // namespace isobit
