// HashModel: a LanguageModel without floats inside. The KV entry of a position is a hash of its
// token and of every entry before it, read through the block table; the logits are hashes of that
// entry. A wrong, stale, foreign or unsettled block is a wrong token at once, and nothing can be
// wrong by a little.
#pragma once

#include <cstdint>
#include <vector>

#include "kvcache/block_pool.h"
#include "model/language_model.h"

namespace isobit::sim {

inline constexpr std::int64_t kVocabSize = 61;
inline constexpr std::int32_t kNanToken = 60;  // rows that have it in their history give NaN logits

// The hash of a history, one token at a time: what the model computes when all is well.
class HistoryHash {
 public:
  // Adds the entry of the position before, then hashes `token` on top: this position's entry.
  std::uint64_t Append(std::int32_t token);
  // The same with an entry read from memory instead of the one computed last.
  void Read(std::uint64_t entry);
  std::uint64_t EntryOf(std::int32_t token) const;

 private:
  std::uint64_t digest_ = 0x5EED;
  bool numeric_ = true;
};

// [kVocabSize] logits of the row with this entry. Steps of 1/16, so that ties are common.
void FillLogits(std::uint64_t entry, float* logits);

class HashModel final : public LanguageModel {
 public:
  explicit HashModel(const ModelLimits& limits);

  std::int64_t vocab_size() const override { return kVocabSize; }
  const ModelLimits& limits() const override { return limits_; }
  void Forward(const BatchInputs& batch) override;
  std::span<const float> Logits(std::int64_t first, std::int64_t count) override;

  // Overwrites what nobody may read any more.
  void PoisonBlock(BlockId block);

 private:
  struct Slot {
    std::uint64_t entry = 0;
    std::int64_t forward_index = -1;   // of the Forward that wrote it
    std::int32_t sequence_index = -1;  // in that Forward
  };

  void CheckBatch(const BatchInputs& batch) const;
  Slot& SlotAt(const std::vector<std::int32_t>& block_table, std::int64_t position);
  std::uint64_t ReadEntry(const Slot& slot, std::int32_t sequence_index) const;

  ModelLimits limits_;
  std::vector<Slot> slots_;                    // [num_blocks, block_size]
  std::vector<std::uint64_t> output_entries_;  // [num_outputs]
  std::vector<float> logits_;                  // [max_logit_rows, kVocabSize]
  std::int64_t forward_index_ = 0;
};

}  // namespace isobit::sim
