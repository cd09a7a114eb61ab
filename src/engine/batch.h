// StepBatch: a StepPlan laid out as the model's rows, and whose logits come back in which order.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/batch.h"
#include "engine/request.h"
#include "schedule/plan.h"

namespace isobit {

// A row whose logits are wanted.
struct OutputRow {
  RequestId id = 0;
  std::int64_t position = 0;  // of the row; its logits are about position + 1
};

struct StepBatch {
  BatchInputs inputs;
  std::vector<OutputRow> outputs;  // as inputs.output_rows
};

// Overwrites *batch, whose memory is reused from step to step.
void BuildBatch(const StepPlan& plan, const ScheduleState& state, StepBatch* batch);

}  // namespace isobit
