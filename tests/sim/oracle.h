// Oracle: what a request must answer, computed from its tokens alone: no engine, no scheduler, no
// blocks.
#pragma once

#include <optional>
#include <vector>

#include "engine/request.h"

namespace isobit::sim {

// What a client sees of one request.
struct Answer {
  std::vector<PromptScore> prompt_scores;
  bool has_prompt_scores = false;
  std::vector<std::int32_t> tokens;
  std::vector<TokenLogprob> logprobs;           // one a token, if asked for
  std::vector<std::vector<TokenLogprob>> tops;  // one a token
  std::optional<FinishReason> finish;
  std::optional<ErrorCode> error;
  std::int32_t stop_token_id = -1;
};

Answer Expect(const GenerationRequest& request);

// The first difference, or "": bits are compared, not values. With `prefix`, `actual` may end
// early.
std::string Difference(const Answer& expected, const Answer& actual, bool prefix);

}  // namespace isobit::sim
