#include "engine/step.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace isobit {
namespace {

KvCache::Config CacheConfig(const EngineConfig& config, const ModelLimits& limits) {
  return {.num_blocks = limits.num_blocks,
          .block_size = limits.block_size,
          .share_prefixes = config.prefix_cache};
}

std::int64_t NumGenerated(const Sequence& sequence) {
  return sequence.length() - sequence.prompt_length;
}

}  // namespace

StepLoop::StepLoop(const EngineConfig& config, LanguageModel& model, const Clock& clock,
                   TraceRecorder* recorder, Inbox& inbox)
    : limits_{config.max_sequences, config.max_batch_tokens, config.prefill_chunk},
      model_(model),
      clock_(clock),
      recorder_(recorder),
      inbox_(inbox),
      state_(CacheConfig(config, model.limits())) {
  CloseBooks();
}

bool StepLoop::Step() {
  step_start_nanos_ = clock_.MonotonicNanos();
  const bool drained = Drain();
  const StepPlan plan = PlanStep(state_, limits_);
  if (!plan.segments.empty()) {
    BuildBatch(plan, state_, &batch_);

    const std::int64_t forward_start = clock_.MonotonicNanos();
    model_.Forward(batch_.inputs);
    counters_.forward_nanos += clock_.MonotonicNanos() - forward_start;

    ReadLogits();
    Commit(plan);
    if (recorder_ != nullptr) recorder_->Record(trace_step_);
  }
  CloseBooks();
  Deliver();
  counters_.step_nanos += clock_.MonotonicNanos() - step_start_nanos_;
  return drained || !plan.segments.empty();
}

bool StepLoop::Drain() {
  InboxContent content = inbox_.Take();
  const bool any = !content.empty();
  for (Arrival& arrival : content.arrivals) Admit(std::move(arrival));
  for (const RequestId id : content.cancelled) {
    if (requests_.contains(id)) Finish(id, FinishReason::kCancelled);
  }
  if (content.clear_prefix_cache) state_.cache.ClearPrefixes();
  return any;
}

void StepLoop::Admit(Arrival arrival) {
  GenerationRequest& request = arrival.request;
  Sequence sequence;
  sequence.id = arrival.id;
  sequence.tokens = std::exchange(request.prompt_ids, {});
  sequence.prompt_length = sequence.length();
  sequence.tokens.reserve(sequence.tokens.size() +
                          static_cast<std::size_t>(request.max_new_tokens));
  sequence.generates = request.max_new_tokens > 0;
  sequence.scores_prompt = request.num_prompt_logprobs >= 0;
  sequence.uses_prefix_cache = request.use_prefix_cache;
  sequence.cache_salt = request.cache_salt;
  counters_.prompt_tokens += sequence.prompt_length;
  state_.sequences.emplace(arrival.id, std::move(sequence));
  requests_.emplace(arrival.id,
                    ActiveRequest{.request = std::move(request),
                                  .sink = std::make_shared<EventSink>(std::move(arrival.sink))});
}

// The logits come in slices, so that a long scored prompt needs no vocabulary-sized memory per row.
void StepLoop::ReadLogits() {
  const std::int64_t vocab_size = model_.vocab_size();
  const std::int64_t num_outputs = batch_.inputs.num_outputs();
  for (std::int64_t first = 0; first < num_outputs; first += model_.limits().max_logit_rows) {
    const std::int64_t count = std::min(model_.limits().max_logit_rows, num_outputs - first);
    const std::span<const float> logits = model_.Logits(first, count);  // [count, vocab_size]
    ISOBIT_CHECK(static_cast<std::int64_t>(logits.size()) == count * vocab_size);
    for (std::int64_t i = 0; i < count; ++i) {
      ReadRow(batch_.outputs[first + i], logits.subspan(i * vocab_size, vocab_size));
    }
  }
}

void StepLoop::ReadRow(const OutputRow& row, std::span<const float> logits) {
  ActiveRequest& active = requests_.at(row.id);
  if (active.failure) return;  // its later rows mean nothing any more
  Sequence& sequence = state_.sequences.at(row.id);
  if (row.position + 1 < sequence.length()) {
    ScorePromptRow(active, sequence, row.position, logits);
  } else {
    SampleRow(active, sequence, logits);
  }
}

void StepLoop::ScorePromptRow(ActiveRequest& active, Sequence& sequence, std::int64_t position,
                              std::span<const float> logits) {
  ISOBIT_CHECK(position == sequence.num_scored, "row {} after {} scores", position,
               sequence.num_scored);
  if (Status status = CheckLogits(logits); !status.ok()) {
    active.failure = status.error();
    return;
  }
  PromptScore score;
  score.actual = ScoreToken(logits, sequence.tokens[position + 1],
                            active.request.num_prompt_logprobs, &score.top);
  active.prompt_scores.push_back(std::move(score));
  ++sequence.num_scored;
}

void StepLoop::SampleRow(ActiveRequest& active, const Sequence& sequence,
                         std::span<const float> logits) {
  const GenerationRequest& request = active.request;
  const std::span<const std::int32_t> tokens = sequence.tokens;
  const TokenHistory history{.prompt = tokens.first(sequence.prompt_length),
                             .output = tokens.subspan(sequence.prompt_length)};
  std::span<const std::int32_t> masked;
  if (NumGenerated(sequence) < request.min_new_tokens) masked = request.stop_token_ids;

  const Result<std::int32_t> token =
      SampleToken(logits, request.sampling, history, masked, sequence.length());
  if (!token.ok()) {
    active.failure = token.error();
    return;
  }
  EngineEvent& event = active.sampled.emplace();
  event.id = sequence.id;
  event.token = *token;
  if (request.num_logprobs >= 0)
    event.logprob = ScoreToken(logits, *token, request.num_logprobs, &event.top);
}

void StepLoop::Commit(const StepPlan& plan) {
  trace_step_ = {.step_index = counters_.num_steps++, .preempted = plan.preempted};
  counters_.num_preemptions += static_cast<std::int64_t>(plan.preempted.size());
  for (const PlannedSegment& segment : plan.segments) CommitSegment(segment);
}

void StepLoop::CommitSegment(const PlannedSegment& segment) {
  ActiveRequest& active = requests_.at(segment.id);
  Sequence& sequence = state_.sequences.at(segment.id);
  if (active.first_row_nanos < 0) active.first_row_nanos = step_start_nanos_;
  trace_step_.segments.push_back(
      {segment.id, segment.first_position, segment.num_rows, segment.num_cached});
  if (segment.first_admission && sequence.uses_prefix_cache) {
    counters_.prefix_query_tokens += sequence.prompt_length;
    counters_.prefix_hit_tokens += segment.num_cached;
  }
  if (active.failure) {
    Finish(segment.id, FinishReason::kError, std::move(active.failure));
    return;
  }
  sequence.num_computed += segment.num_rows;
  if (sequence.uses_prefix_cache) {
    state_.cache.Publish(sequence.table, sequence.tokens, sequence.num_computed,
                         sequence.cache_salt);
  }
  if (sequence.num_remaining() > 0) return;  // in prefill still
  DeliverPromptScores(active, sequence);
  if (sequence.generates) {
    CommitToken(active, sequence);
  } else {
    Finish(segment.id, FinishReason::kLength);
  }
}

// Once: a preempted request gets here again with the scores delivered.
void StepLoop::DeliverPromptScores(ActiveRequest& active, const Sequence& sequence) {
  if (!sequence.scores_prompt || active.prompt_scores_delivered) return;
  ISOBIT_CHECK(sequence.num_scored == sequence.prompt_length - 1);
  active.prompt_scores_delivered = true;
  EngineEvent event;
  event.id = sequence.id;
  event.has_prompt_scores = true;
  event.prompt_scores = std::exchange(active.prompt_scores, {});
  Send(active, std::move(event));
}

void StepLoop::CommitToken(ActiveRequest& active, Sequence& sequence) {
  ISOBIT_CHECK(active.sampled.has_value());
  const std::int32_t token = *active.sampled->token;
  sequence.tokens.push_back(token);
  trace_step_.tokens.emplace_back(sequence.id, token);
  ++counters_.generated_tokens;
  Send(active, *std::exchange(active.sampled, std::nullopt));

  // Before min_new_tokens the stop ids are masked, so no test of it is needed here.
  if (std::ranges::binary_search(active.request.stop_token_ids, token)) {
    Finish(sequence.id, FinishReason::kStop, {}, token);
  } else if (NumGenerated(sequence) == active.request.max_new_tokens) {
    Finish(sequence.id, FinishReason::kLength);
  }
}

void StepLoop::Finish(RequestId id, FinishReason reason, std::optional<Error> error,
                      std::int32_t stop_token_id) {
  switch (reason) {
    case FinishReason::kStop:
      ++counters_.finished_stop;
      break;
    case FinishReason::kLength:
      ++counters_.finished_length;
      break;
    case FinishReason::kCancelled:
      ++counters_.finished_cancelled;
      break;
    case FinishReason::kError:
      ++counters_.finished_error;
      break;
  }
  EngineEvent event;
  event.id = id;
  event.finish = reason;
  event.error = std::move(error);
  event.stop_token_id = stop_token_id;
  event.cached_tokens = state_.sequences.at(id).num_cached;
  event.first_row_nanos = requests_.at(id).first_row_nanos;
  Send(requests_.at(id), std::move(event));
  Remove(id);
}

void StepLoop::Remove(RequestId id) {
  state_.cache.Release(state_.sequences.at(id).table);
  state_.sequences.erase(id);
  requests_.erase(id);
}

void StepLoop::Send(const ActiveRequest& active, EngineEvent event) {
  const RequestId id = event.id;
  outbox_.push_back({id, active.sink, std::move(event)});
}

// Last, when the books are closed: whoever hears of a finish finds its blocks given back. A sink
// must not throw; if it does, nobody listens there any more, and the request is cancelled without
// another word.
void StepLoop::Deliver() {
  for (Delivery& delivery : outbox_) {
    if (!*delivery.sink) continue;
    try {
      (*delivery.sink)(std::move(delivery.event));
    } catch (...) {
      *delivery.sink = nullptr;
      if (requests_.contains(delivery.id)) {
        ++counters_.finished_cancelled;
        Remove(delivery.id);
        CloseBooks();
      }
    }
  }
  outbox_.clear();
}

void StepLoop::CancelAll() {
  Drain();
  while (!requests_.empty()) Finish(requests_.begin()->first, FinishReason::kCancelled);
  CloseBooks();
  Deliver();
}

void StepLoop::CloseBooks() {
  EngineStats stats = counters_;
  stats.num_running = state_.num_running();
  stats.num_waiting = static_cast<std::int64_t>(state_.sequences.size()) - stats.num_running;
  stats.num_blocks = state_.cache.pool().num_blocks();
  stats.num_free_blocks = state_.cache.pool().num_free();
  stats.num_cached_blocks = state_.cache.pool().num_kept();
  stats.block_size = state_.cache.block_size();
  inbox_.SetWaitingInEngine(stats.num_waiting);
  const std::lock_guard lock(stats_mutex_);
  stats_ = stats;
}

EngineStats StepLoop::Stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

}  // namespace isobit
