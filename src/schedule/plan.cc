#include "schedule/plan.h"

#include <algorithm>

#include "base/check.h"

namespace isobit {
namespace {

class Planner {
 public:
  Planner(ScheduleState& state, const ScheduleLimits& limits)
      : state_(state),
        cache_(state.cache),
        limits_(limits),
        num_rows_left_(limits.max_batch_tokens) {
    for (auto& [id, sequence] : state_.sequences) {
      if (!sequence.running) break;
      running_.push_back(&sequence);
    }
  }

  StepPlan Run() {
    PlanDecodeRows();
    PlanPrefillChunks();
    if (plan_.preempted.empty()) AdmitNew();
    CheckProgress();
    return std::move(plan_);
  }

 private:
  static bool IsDecode(const Sequence& sequence) { return sequence.num_remaining() == 1; }

  void PlanDecodeRows() {
    // By index: MakeRoom shortens the list from its end.
    for (std::size_t i = 0; i < running_.size() && num_rows_left_ > 0; ++i) {
      Sequence& sequence = *running_[i];
      if (IsDecode(sequence) && MakeRoom(sequence)) Add(sequence, 1);
    }
  }

  void PlanPrefillChunks() {
    for (std::size_t i = 0; i < running_.size() && num_rows_left_ > 0; ++i) {
      Sequence& sequence = *running_[i];
      if (!IsDecode(sequence) && MakeRoom(sequence)) {
        Add(sequence, std::min(ChunkRows(sequence), NumRowsThatFit(sequence)));
      }
    }
  }

  void AdmitNew() {
    auto next = state_.sequences.begin();
    std::advance(next, running_.size());
    for (; next != state_.sequences.end() && num_rows_left_ > 0; ++next) {
      if (static_cast<std::int64_t>(running_.size()) == limits_.max_sequences) return;
      if (!Admit(next->second)) return;
    }
  }

  bool Admit(Sequence& sequence) {
    const PrefixMatch match =
        cache_.Match(sequence.tokens, sequence.MaxCachedTokens(), sequence.cache_salt);
    const auto num_matched = static_cast<std::int64_t>(match.blocks.size());
    const std::int64_t num_cached = num_matched * cache_.block_size();
    const std::int64_t num_rows =
        std::min({limits_.prefill_chunk, num_rows_left_, sequence.length() - num_cached});
    const std::int64_t num_new =
        NumBlocksFor(num_cached + num_rows, cache_.block_size()) - num_matched;
    const auto num_spare = static_cast<std::int64_t>(running_.size());
    if (match.num_kept + num_new + num_spare > cache_.num_available()) return false;

    cache_.Attach(match, sequence.table);
    sequence.num_computed = num_cached;
    sequence.running = true;
    running_.push_back(&sequence);
    Add(sequence, num_rows);
    PlannedSegment& segment = plan_.segments.back();
    segment.num_cached = num_cached;
    segment.first_admission = !sequence.was_admitted;
    if (segment.first_admission) sequence.num_cached = num_cached;
    sequence.was_admitted = true;
    return true;
  }

  std::int64_t ChunkRows(const Sequence& sequence) const {
    return std::min({limits_.prefill_chunk, num_rows_left_, sequence.num_remaining()});
  }

  std::int64_t NumRowsThatFit(const Sequence& sequence) const {
    return (sequence.table.num_blocks() + cache_.num_available()) * cache_.block_size() -
           sequence.num_computed;
  }

  // Room for one row more, at the cost of later arrivals. False: nobody is later, so this one skips
  // the step; it keeps its blocks until an earlier one wants them.
  bool MakeRoom(const Sequence& sequence) {
    while (!cache_.CanGrow(sequence.table, sequence.num_computed + 1)) {
      if (running_.back()->id == sequence.id) return false;
      Preempt(*running_.back());
    }
    return true;
  }

  void Add(Sequence& sequence, std::int64_t num_rows) {
    cache_.Grow(sequence.table, sequence.num_computed + num_rows);
    plan_.segments.push_back(
        {.id = sequence.id, .first_position = sequence.num_computed, .num_rows = num_rows});
    num_rows_left_ -= num_rows;
  }

  void Preempt(Sequence& sequence) {
    // It may have got a decode row of this step already; the plan drops it.
    const auto planned = std::ranges::find(plan_.segments, sequence.id, &PlannedSegment::id);
    if (planned != plan_.segments.end()) {
      num_rows_left_ += planned->num_rows;
      plan_.segments.erase(planned);
    }
    cache_.Release(sequence.table);
    sequence.num_computed = 0;
    sequence.running = false;
    running_.pop_back();
    plan_.preempted.push_back(sequence.id);
  }

  // The first arrival is served in every step. It can take anybody's blocks. And a row is left for
  // it: a sequence is admitted only into a step that has a row left when every running one has its
  // own, so there are never more of them than rows.
  void CheckProgress() const {
    if (state_.sequences.empty()) return;
    const std::uint64_t first = state_.sequences.begin()->first;
    ISOBIT_CHECK(std::ranges::count(plan_.segments, first, &PlannedSegment::id) == 1,
                 "request {} got no row; does it fit the pool?", first);
  }

  ScheduleState& state_;
  KvCache& cache_;
  const ScheduleLimits& limits_;
  std::int64_t num_rows_left_;
  std::vector<Sequence*> running_;  // by arrival
  StepPlan plan_;
};

}  // namespace

StepPlan PlanStep(ScheduleState& state, const ScheduleLimits& limits) {
  return Planner(state, limits).Run();
}

}  // namespace isobit
