// StepLoop: one engine's state and its step: drain, plan, forward, sample, commit, record, deliver.
// Single-threaded; Engine puts a thread and an inbox around it, the simulator drives it bare.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/inbox.h"
#include "schedule/plan.h"

namespace isobit {

// A request from its arrival to its finish; its tokens are in the Sequence of the same id.
struct ActiveRequest {
  GenerationRequest request;  // prompt_ids moved to Sequence::tokens
  std::shared_ptr<EventSink> sink;
  std::vector<PromptScore> prompt_scores;  // of positions 1, 2, ... as their rows are computed
  bool prompt_scores_delivered = false;
  std::int64_t first_row_nanos = -1;  // for metrics only

  // What this step's logits said, until Commit.
  std::optional<EngineEvent> sampled;
  std::optional<Error> failure;
};

class StepLoop {
 public:
  // Arguments are checked (Engine::Create) and outlive the loop; recorder may be null.
  StepLoop(const EngineConfig& config, LanguageModel& model, const Clock& clock,
           TraceRecorder* recorder, Inbox& inbox);

  // False if there was nothing to do.
  bool Step();
  // Finishes every request with kCancelled, those in the inbox included.
  void CancelAll();

  EngineStats Stats() const;  // thread-safe: as of the end of the last step
  const ScheduleState& state() const { return state_; }

 private:
  struct Delivery {
    RequestId id = 0;
    std::shared_ptr<EventSink> sink;
    EngineEvent event;
  };

  bool Drain();
  void Admit(Arrival arrival);
  void ReadLogits();
  void ReadRow(const OutputRow& row, std::span<const float> logits);
  void ScorePromptRow(ActiveRequest& active, Sequence& sequence, std::int64_t position,
                      std::span<const float> logits);
  void SampleRow(ActiveRequest& active, const Sequence& sequence, std::span<const float> logits);
  void Commit(const StepPlan& plan);
  void CommitSegment(const PlannedSegment& segment);
  void DeliverPromptScores(ActiveRequest& active, const Sequence& sequence);
  void CommitToken(ActiveRequest& active, Sequence& sequence);
  void Finish(RequestId id, FinishReason reason, std::optional<Error> error = {},
              std::int32_t stop_token_id = -1);
  void Remove(RequestId id);
  void Send(const ActiveRequest& active, EngineEvent event);
  void CloseBooks();
  void Deliver();

  const ScheduleLimits limits_;
  LanguageModel& model_;
  const Clock& clock_;
  TraceRecorder* const recorder_;
  Inbox& inbox_;

  ScheduleState state_;
  std::map<RequestId, ActiveRequest> requests_;  // same keys as state_.sequences
  StepBatch batch_;
  TraceStep trace_step_;
  std::int64_t step_start_nanos_ = 0;
  std::vector<Delivery> outbox_;
  EngineStats counters_;
  mutable std::mutex stats_mutex_;
  EngineStats stats_;
};

}  // namespace isobit
