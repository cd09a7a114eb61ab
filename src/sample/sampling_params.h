// SamplingParams: everything of a request that turns a row of logits into a token. Already checked: see ValidateSamplingParams.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isobit {

struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy, the lowest id among the maxima. Else >= kMinTemperature
  float top_p = 1.0f;               // (0, 1]
  std::int32_t top_k = 0;           // 0: off
  float min_p = 0.0f;               // [0, 1]
  float repetition_penalty = 1.0f;  // kMinRepetitionPenalty to 100; over prompt and output
  float frequency_penalty = 0.0f;   // [-2, 2]; over output
  float presence_penalty = 0.0f;    // [-2, 2]; over output
  std::vector<std::pair<std::int32_t, float>> logit_bias;  // ascending ids, each once; bias in [-100, 100]
  std::vector<std::int32_t> allowed_token_ids;              // ascending; empty: all
  std::uint64_t seed = 0;           // the HTTP edge draws one where the client gave none
  std::uint32_t choice = 0;         // index of the choice among n

  bool greedy() const { return temperature == 0.0f; }
};

inline constexpr float kMinTemperature = 0.01f;  // below it a scaled logit can overflow: refused, 0 is the way to ask for greedy
inline constexpr float kMinRepetitionPenalty = 0.01f;  // likewise: logits are divided by it

// Ranges as above, ids in [0, vocab_size). Error::field is the OpenAI name ("temperature", "logit_bias").
Status ValidateSamplingParams(const SamplingParams& params, std::int64_t vocab_size);

}  // namespace isobit
