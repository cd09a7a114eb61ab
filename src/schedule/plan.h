// PlanStep: which rows the next step computes. A pure function of its arguments: no clock, no
// threads, no hash order.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/sequence.h"

namespace isobit {

struct ScheduleLimits {
  std::int64_t max_sequences = 16;      // running at once
  std::int64_t max_batch_tokens = 512;  // rows of one step
  std::int64_t prefill_chunk = 512;     // rows of one sequence in one step
};

// Neighbouring rows of one sequence.
struct PlannedSegment {
  std::uint64_t id = 0;
  std::int64_t first_position = 0;
  std::int64_t num_rows = 0;
  // Tokens attached from the prefix cache, if the sequence was admitted in this step.
  std::int64_t num_cached = 0;
  bool first_admission = false;
};

struct StepPlan {
  // In row order: single rows by arrival, then chunks by arrival.
  std::vector<PlannedSegment> segments;
  std::vector<std::uint64_t> preempted;  // latest arrival first
};

// Moves the state to where the step needs it (blocks grown, sequences admitted or preempted) and
// says what to compute.
// * First the sequences with one row left (decode), then those in prefill, then new ones; each
//   group by arrival.
// * A sequence that needs a block when none is left takes those of the latest arrival behind it,
//   which then waits at the front of the queue with its tokens and recomputes later. A chunk is
//   shortened before anybody is preempted for it.
// * The first sequence in the house gets at least one row in every step, so nobody starves.
// * A new sequence needs the blocks of its first chunk and leaves one to each running one, lest the
//   next step undo its admission.
// Needs: every sequence fits the pool alone. Ends with a segment if there is a sequence.
StepPlan PlanStep(ScheduleState& state, const ScheduleLimits& limits);

}  // namespace isobit
