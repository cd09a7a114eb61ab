// What the engine is asked and what it answers: token ids, never text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sample/sampler.h"
#include "sample/sampling_params.h"

namespace isobit {

using RequestId = std::uint64_t;  // the arrival number: the one place where concurrency becomes order

struct GenerationRequest {
  std::vector<std::int32_t> prompt_ids;       // at least one, ids in the vocabulary
  SamplingParams sampling;
  std::int64_t max_new_tokens = 16;           // 0: score the prompt only
  std::int64_t min_new_tokens = 0;            // stop ids are masked until then
  std::vector<std::int32_t> stop_token_ids;   // ascending: the client's, and EOS unless ignore_eos
  std::int32_t num_logprobs = -1;             // -1: none; 0: the chosen token's; n: and the n best
  std::int32_t num_prompt_logprobs = -1;      // likewise for every prompt position but the first
  std::string cache_salt;                     // only requests of equal salt share KV
  bool use_prefix_cache = true;               // false: neither reads nor fills the cache (arms of the gate)
};

enum class FinishReason { kStop, kLength, kCancelled, kError };
const char* FinishReasonName(FinishReason reason);  // "stop", "length", "cancelled", "error"

struct PromptScore {
  TokenLogprob actual;            // of the prompt token at this position, given those before
  std::vector<TokenLogprob> top;
};

// One event of a request's life, in order: [prompt scores], tokens..., one finish.
struct EngineEvent {
  RequestId id = 0;
  // Exactly one kind is set.
  std::vector<PromptScore> prompt_scores;  // [prompt length - 1], for positions 1..., when asked for
  bool has_prompt_scores = false;
  std::optional<std::int32_t> token;
  std::optional<TokenLogprob> logprob;     // with token, if num_logprobs >= 0
  std::vector<TokenLogprob> top;
  std::optional<FinishReason> finish;
  std::optional<Error> error;              // with FinishReason::kError
  std::int32_t stop_token_id = -1;         // with kStop: which id (it is also the last token event)
  std::int64_t cached_tokens = 0;          // with finish: prompt tokens whose KV came from the prefix cache
  std::int64_t first_row_nanos = -1;       // with finish: Clock time of the step that ran its first row; -1: none did
};

// Called on the engine's thread, between steps: it must not block (every neighbour would wait), call Submit, Step or Stop, or throw.
// A sink that throws is taken for a client that left: its request is cancelled and the sink never called again.
using EventSink = std::function<void(EngineEvent)>;

}  // namespace isobit
