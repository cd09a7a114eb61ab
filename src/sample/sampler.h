// The sampler: one row of logits and that request's parameters to one token, by the law of contract/sampling.h. Looks at nothing
// else, so no neighbour, slot or order of arrival can matter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "sample/sampling_params.h"

namespace isobit {

// What penalties need to know of a sequence so far.
struct TokenHistory {
  std::span<const std::int32_t> prompt;
  std::span<const std::int32_t> output;
};

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;       // of the raw logits: before bias, penalties, temperature and masks
  std::int32_t rank = 0;   // 1 + number of tokens with a larger logit, or an equal one and a lower id
};

// Picks the token at absolute position `position` (prompt length + tokens generated so far). masked ids (e.g. EOS while min_tokens is
// not reached) count as absent. kNumeric if any logit is NaN or infinite; kInvalidArgument (allowed_token_ids) if nothing is left.
Result<std::int32_t> SampleToken(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
                                 std::span<const std::int32_t> masked_ids, std::int64_t position);

// kNumeric if any logit is NaN or infinite.
Status CheckLogits(std::span<const float> logits);

// Log-probability and rank of `token`; `top_count` best tokens by (logit descending, id ascending) into *top.
TokenLogprob ScoreToken(std::span<const float> logits, std::int32_t token, std::int64_t top_count, std::vector<TokenLogprob>* top);

}  // namespace isobit
