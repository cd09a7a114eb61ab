// One sequence, alone, straight through a model: every position's logits, for tests, `isobit logits` and audits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "model/language_model.h"

namespace isobit {

// Calls visit(position, logits [vocab_size]) for every position ascending. The sequence fills blocks 0, 1, ... of the cache; prompts go
// in chunks of at most `chunk` rows (0: max_batch_tokens). CHECKs that ids fit the model's limits.
void VisitLogits(LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t chunk,
                 const std::function<void(std::int64_t position, std::span<const float> logits)>& visit);

}  // namespace isobit
