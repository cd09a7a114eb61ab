// BpeMerges: the merge rules of a byte-pair vocabulary and the algorithm that applies them: always
// the rule of lowest rank, at equal ranks the leftmost pair, until no rule fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isobit {

struct MergeRule {
  std::int32_t left = 0;  // token ids
  std::int32_t right = 0;
  std::int32_t merged = 0;
};

class BpeMerges {
 public:
  BpeMerges() = default;
  // rules: best first; the rank of a rule is its index. Of two rules for one pair the better one
  // counts.
  explicit BpeMerges(std::span<const MergeRule> rules);

  // Working memory of Apply, so that many pieces share one allocation.
  struct Scratch {
    std::vector<std::uint64_t> heap;  // rank << 32 | position
    std::vector<std::uint32_t> rank;  // of the pair that begins at a position; kNoRank for none
    std::vector<std::uint32_t> next;  // position of the following live symbol
    std::vector<std::uint32_t> previous;
    std::vector<std::int32_t> merged;  // what the pair at a position becomes
  };

  // Replaces symbols (token ids, fewer than 2^32 - 1) by what the rules make of them. O(n log n)
  // for any input.
  void Apply(std::vector<std::int32_t>& symbols, Scratch& scratch) const;

 private:
  struct Slot {
    std::uint64_t pair = kEmpty;  // left << 32 | right
    std::uint32_t rank = 0;
    std::int32_t merged = 0;
  };
  static constexpr std::uint64_t kEmpty =
      ~std::uint64_t{0};  // ids are below 2^31, so no pair looks like it

  const Slot* Find(std::int32_t left, std::int32_t right) const;

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  int shift_ = 64;           // 64 - log2(slots)
};

}  // namespace isobit
