// EngineBench: one round of a piece of work through the real engine, greedy sampling included: its time and what it answered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "isobit/loaded_model.h"

namespace isobit {

// `streams` prompts of `prompt_tokens` each, then `steps` steps that give every stream one more token. steps == 0: the prefill alone.
struct BenchWork {
  std::int64_t streams = 1;
  std::int64_t prompt_tokens = 0;
  std::int64_t steps = 0;

  std::string Name() const;               // "prefill 512", "decode 128 x 16"
  std::int64_t TimedTokens() const { return steps == 0 ? streams * prompt_tokens : streams * steps; }
  // Most tokens a stream can grow to: an early stream decodes while later ones are still in prefill.
  std::int64_t MaxLength(std::int64_t prefill_chunk) const;
};

// Ids of every stream, pure in (seed, stream, position).
std::vector<std::vector<std::int32_t>> BenchPrompts(const BenchWork& work, std::int64_t vocab_size, std::uint32_t seed);

struct BenchSample {
  double seconds = 0;          // of the timed part: the prefill with its first token, or the steps behind it
  double forward_seconds = 0;  // inside LanguageModel::Forward; the rest is the head, sampling and bookkeeping
  std::vector<std::vector<std::int32_t>> tokens;  // [streams][1 + steps]
  std::string digest;                             // SHA-256; see EngineBench::Run
};

class EngineBench {
 public:
  // flags.max_batch_tokens, max_seqs and kv_tokens must fit the work: FitFlags.
  static Result<EngineBench> Create(const ModelFlags& flags, LoadedModel& model, const Clock& clock);

  // digest covers tokens; with_logprobs: also the log-probabilities of each token and of the 20 likeliest, which depend on every logit
  // of the row. That costs time, so it is for a round that is not timed.
  Result<BenchSample> Run(const BenchWork& work, const std::vector<std::vector<std::int32_t>>& prompts, bool with_logprobs);

 private:
  EngineBench(RunningEngine running, std::int64_t prefill_chunk, const Clock& clock)
      : running_(std::move(running)), prefill_chunk_(prefill_chunk), clock_(clock) {}

  RunningEngine running_;
  std::int64_t prefill_chunk_;
  const Clock& clock_;
};

// Sizes the engine so that no piece of work queues, is preempted or meets the prefix cache.
void FitFlags(const std::vector<BenchWork>& works, ModelFlags* flags);

}  // namespace isobit
