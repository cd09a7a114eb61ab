#include "engine/batch.h"

#include "base/check.h"

namespace isobit {

void BuildBatch(const StepPlan& plan, const ScheduleState& state, StepBatch* batch) {
  BatchInputs& inputs = batch->inputs;
  inputs.token_ids.clear();
  inputs.positions.clear();
  inputs.sequence_index.clear();
  inputs.output_rows.clear();
  inputs.block_tables.resize(plan.segments.size());
  batch->outputs.clear();

  for (std::size_t index = 0; index < plan.segments.size(); ++index) {
    const PlannedSegment& segment = plan.segments[index];
    const Sequence& sequence = state.sequences.at(segment.id);
    // A row reads the KV of every position before it, so the rows go on exactly where the computed
    // ones end.
    ISOBIT_CHECK(segment.first_position == sequence.num_computed && segment.num_rows > 0);
    inputs.block_tables[index] = sequence.table.blocks;
    for (std::int64_t i = 0; i < segment.num_rows; ++i) {
      const std::int64_t position = segment.first_position + i;
      if (sequence.WantsLogits(position)) {
        inputs.output_rows.push_back(static_cast<std::int32_t>(inputs.num_tokens()));
        batch->outputs.push_back({segment.id, position});
      }
      inputs.token_ids.push_back(sequence.tokens[position]);
      inputs.positions.push_back(static_cast<std::int32_t>(position));
      inputs.sequence_index.push_back(static_cast<std::int32_t>(index));
    }
  }
}

}  // namespace isobit
