// Engine: the step loop around a LanguageModel: drain, plan, forward, sample, commit, record.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/request.h"
#include "model/language_model.h"
#include "trace/recorder.h"

namespace isobit {

// Sized by flags at start; none of it may change a bit of any answer.
struct EngineConfig {
  std::int64_t max_sequences = 16;       // running at once
  std::int64_t max_batch_tokens = 512;   // rows of one step: decode rows first, the rest goes to prefill
  std::int64_t prefill_chunk = 512;      // most rows of one sequence in one step
  std::int64_t max_queue = 1024;         // waiting requests; more are refused with kResourceExhausted
  bool prefix_cache = true;
};

struct EngineStats {
  std::int64_t num_running = 0, num_waiting = 0;
  std::int64_t num_blocks = 0, num_free_blocks = 0;  // free: neither held by a sequence nor kept for the prefix cache
  std::int64_t num_cached_blocks = 0;                // kept for the prefix cache only; can be taken at any time
  std::int64_t block_size = 0;                       // positions of a block
  std::int64_t num_steps = 0, num_preemptions = 0;
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  std::int64_t prefix_query_tokens = 0, prefix_hit_tokens = 0;
  std::int64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_error = 0;
  std::int64_t forward_nanos = 0;  // spent in LanguageModel::Forward, of step_nanos in whole steps
  std::int64_t step_nanos = 0;
};

class Engine {
 public:
  // model, clock and recorder outlive the engine; recorder may be null.
  static Result<std::unique_ptr<Engine>> Create(const EngineConfig& config, LanguageModel& model, const Clock& clock,
                                                TraceRecorder* recorder);
  ~Engine();

  // Thread-safe. Checks the request (field names are the OpenAI ones: "prompt", "max_tokens", "logit_bias"): empty prompt, ids out of
  // range, prompt + max_new_tokens over max_model_len ("maximum context length"), more KV than the pool can ever hold, full queue.
  Result<RequestId> Submit(GenerationRequest request, EventSink sink);

  // Thread-safe; takes effect before the next step. Unknown or finished ids are ignored.
  void Cancel(RequestId id);

  // One step of the loop; false if there was nothing to do. For tests and single-threaded use; not while Start()ed.
  bool Step();
  // Steps on an own thread until Stop(). Sleeps while idle.
  void Start();
  // Stops after the step in progress; what still runs is finished with kCancelled.
  void Stop();

  EngineStats Stats() const;             // thread-safe, a consistent snapshot taken between steps
  void ClearPrefixCache();               // thread-safe; takes effect before the next step
  const EngineConfig& config() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit
