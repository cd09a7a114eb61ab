#include "hash_model.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace isobit::sim {
namespace {

constexpr std::uint64_t kPoison = 0xDEADDEADDEADDEA0;
constexpr std::uint64_t kNanBit =
    1;  // the lowest bit of an entry says that its history is not numeric

// The finaliser of splitmix64.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

void HistoryHash::Read(std::uint64_t entry) {
  digest_ = Mix(digest_ ^ entry);
  numeric_ = numeric_ && (entry & kNanBit) == 0;
}

std::uint64_t HistoryHash::EntryOf(std::int32_t token) const {
  const bool numeric = numeric_ && token != kNanToken;
  return (Mix(digest_ + static_cast<std::uint64_t>(token)) & ~kNanBit) | (numeric ? 0 : kNanBit);
}

std::uint64_t HistoryHash::Append(std::int32_t token) {
  const std::uint64_t entry = EntryOf(token);
  Read(entry);
  return entry;
}

void FillLogits(std::uint64_t entry, float* logits) {
  for (std::int64_t id = 0; id < kVocabSize; ++id) {
    const std::uint64_t bits = Mix(entry + static_cast<std::uint64_t>(id) * 0x632BE59BD9B4E019);
    logits[id] = static_cast<float>(bits >> 57) / 16.0f;  // 0 ... 127/16
  }
  logits[kNanToken] = -50.0f;  // only prompts bring it in
  if (entry & kNanBit) logits[entry >> 32 & 31] = std::numeric_limits<float>::quiet_NaN();
}

HashModel::HashModel(const ModelLimits& limits) : limits_(limits) {
  slots_.resize(static_cast<std::size_t>(limits.num_blocks * limits.block_size));
  for (BlockId block = 0; block < limits.num_blocks; ++block) PoisonBlock(block);
  logits_.resize(static_cast<std::size_t>(limits.max_logit_rows * kVocabSize));
}

void HashModel::PoisonBlock(BlockId block) {
  for (std::int64_t i = 0; i < limits_.block_size; ++i) {
    slots_[block * limits_.block_size + i] = {.entry = kPoison};
  }
}

HashModel::Slot& HashModel::SlotAt(const std::vector<std::int32_t>& block_table,
                                   std::int64_t position) {
  const std::int64_t block = block_table.at(position / limits_.block_size);
  return slots_.at(block * limits_.block_size + position % limits_.block_size);
}

// On a parallel machine nobody knows whether a neighbour's row of the same Forward is written
// already.
std::uint64_t HashModel::ReadEntry(const Slot& slot, std::int32_t sequence_index) const {
  const bool unsettled =
      slot.forward_index == forward_index_ && slot.sequence_index != sequence_index;
  return unsettled ? kPoison : slot.entry;
}

// What every model may rely on.
void HashModel::CheckBatch(const BatchInputs& batch) const {
  const std::int64_t num_tokens = batch.num_tokens();
  ISOBIT_CHECK(num_tokens > 0 && num_tokens <= limits_.max_batch_tokens);
  ISOBIT_CHECK(static_cast<std::int64_t>(batch.positions.size()) == num_tokens);
  ISOBIT_CHECK(static_cast<std::int64_t>(batch.sequence_index.size()) == num_tokens);
  ISOBIT_CHECK(static_cast<std::int64_t>(batch.block_tables.size()) <= limits_.max_sequences);
  for (std::int64_t row = 1; row < num_tokens; ++row) {
    const std::int32_t step = batch.sequence_index[row] - batch.sequence_index[row - 1];
    ISOBIT_CHECK(step == 0 || step == 1);
    ISOBIT_CHECK(step == 1 || batch.positions[row] == batch.positions[row - 1] + 1);
  }
  ISOBIT_CHECK(batch.sequence_index.front() == 0);
  ISOBIT_CHECK(batch.sequence_index.back() + 1 ==
               static_cast<std::int32_t>(batch.block_tables.size()));
  for (std::size_t i = 0; i < batch.output_rows.size(); ++i) {
    ISOBIT_CHECK(batch.output_rows[i] < num_tokens &&
                 (i == 0 || batch.output_rows[i] > batch.output_rows[i - 1]));
  }
}

void HashModel::Forward(const BatchInputs& batch) {
  CheckBatch(batch);
  ++forward_index_;
  output_entries_.clear();
  std::size_t next_output = 0;
  HistoryHash history;
  for (std::int64_t row = 0; row < batch.num_tokens(); ++row) {
    const std::int32_t sequence = batch.sequence_index[row];
    const std::vector<std::int32_t>& block_table = batch.block_tables[sequence];
    const std::int64_t position = batch.positions[row];
    const bool first_row = row == 0 || batch.sequence_index[row - 1] != sequence;
    if (first_row) {
      history = {};
      for (std::int64_t i = 0; i < position; ++i)
        history.Read(ReadEntry(SlotAt(block_table, i), sequence));
    }
    Slot& slot = SlotAt(block_table, position);
    ISOBIT_CHECK(slot.forward_index != forward_index_, "two rows write one slot");
    const std::uint64_t entry = history.Append(batch.token_ids[row]);
    slot = {.entry = entry, .forward_index = forward_index_, .sequence_index = sequence};
    if (next_output < batch.output_rows.size() && batch.output_rows[next_output] == row) {
      output_entries_.push_back(entry);
      ++next_output;
    }
  }
}

std::span<const float> HashModel::Logits(std::int64_t first, std::int64_t count) {
  ISOBIT_CHECK(count > 0 && count <= limits_.max_logit_rows);
  for (std::int64_t i = 0; i < count; ++i)
    FillLogits(output_entries_.at(first + i), &logits_[i * kVocabSize]);
  return std::span(logits_).first(count * kVocabSize);
}

}  // namespace isobit::sim
