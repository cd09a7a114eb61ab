#include "model/score.h"

#include <algorithm>

#include "base/check.h"

namespace isobit {

void VisitLogits(LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t chunk,
                 const std::function<void(std::int64_t, std::span<const float>)>& visit) {
  const ModelLimits& limits = model.limits();
  const auto length = static_cast<std::int64_t>(ids.size());
  const std::int64_t max_chunk = chunk == 0 ? limits.max_batch_tokens : std::min(chunk, limits.max_batch_tokens);
  const std::int64_t num_blocks = (length + limits.block_size - 1) / limits.block_size;
  ISOBIT_CHECK(length <= limits.max_model_len && num_blocks <= limits.num_blocks, "{} ids do not fit", length);

  BatchInputs batch;
  batch.block_tables.resize(1);
  for (std::int64_t b = 0; b < num_blocks; ++b) batch.block_tables[0].push_back(static_cast<std::int32_t>(b));
  for (std::int64_t begin = 0; begin < length; begin += max_chunk) {
    const std::int64_t count = std::min(max_chunk, length - begin);
    batch.token_ids.assign(ids.begin() + begin, ids.begin() + begin + count);
    batch.sequence_index.assign(count, 0);
    batch.positions.clear();
    batch.output_rows.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      batch.positions.push_back(static_cast<std::int32_t>(begin + i));
      batch.output_rows.push_back(static_cast<std::int32_t>(i));
    }
    model.Forward(batch);
    for (std::int64_t first = 0; first < count; first += limits.max_logit_rows) {
      const std::int64_t rows = std::min(limits.max_logit_rows, count - first);
      const std::span<const float> logits = model.Logits(first, rows);
      for (std::int64_t r = 0; r < rows; ++r) {
        visit(begin + first + r, logits.subspan(r * model.vocab_size(), model.vocab_size()));
      }
    }
  }
}

}  // namespace isobit
