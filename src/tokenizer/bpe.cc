#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/check.h"

namespace isobit {
namespace {

constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

std::uint64_t PairKey(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

// Fibonacci hashing of the two ids folded together: the high bits of the product choose the slot.
std::size_t SlotOf(std::uint64_t pair, int shift) {
  const std::uint64_t folded = pair ^ (pair >> 29);
  return static_cast<std::size_t>((folded * 0x9E3779B97F4A7C15u) >> shift);
}

}  // namespace

BpeMerges::BpeMerges(std::span<const MergeRule> rules) {
  ISOBIT_CHECK(rules.size() < kNoRank);
  const std::size_t num_slots = std::bit_ceil(std::max<std::size_t>(2, rules.size() * 2));
  slots_.resize(num_slots);
  shift_ = 64 - std::countr_zero(num_slots);
  for (std::size_t rank = 0; rank < rules.size(); ++rank) {
    const MergeRule& rule = rules[rank];
    ISOBIT_CHECK(rule.left >= 0 && rule.right >= 0 && rule.merged >= 0);
    const std::uint64_t pair = PairKey(rule.left, rule.right);
    std::size_t i = SlotOf(pair, shift_);
    while (slots_[i].pair != kEmpty && slots_[i].pair != pair) i = (i + 1) & (num_slots - 1);
    if (slots_[i].pair == kEmpty) slots_[i] = {pair, static_cast<std::uint32_t>(rank), rule.merged};
  }
}

const BpeMerges::Slot* BpeMerges::Find(std::int32_t left, std::int32_t right) const {
  if (slots_.empty()) return nullptr;
  const std::uint64_t pair = PairKey(left, right);
  for (std::size_t i = SlotOf(pair, shift_);; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].pair == pair) return &slots_[i];
    if (slots_[i].pair == kEmpty) return nullptr;
  }
}

void BpeMerges::Apply(std::vector<std::int32_t>& symbols, Scratch& scratch) const {
  const std::size_t num_symbols = symbols.size();
  if (num_symbols < 2) return;
  ISOBIT_CHECK(num_symbols < kNone);
  auto& [heap, rank, next, previous, merged] = scratch;
  heap.clear();
  rank.assign(num_symbols, kNoRank);
  next.resize(num_symbols);
  previous.resize(num_symbols);
  merged.resize(num_symbols);

  // Notes the rule for the pair that begins at `left`, if there is one. rank[left] tells later
  // whether a heap entry is still true.
  const auto note_pair = [&](std::uint32_t left) {
    const Slot* slot = next[left] == kNone ? nullptr : Find(symbols[left], symbols[next[left]]);
    rank[left] = slot == nullptr ? kNoRank : slot->rank;
    if (slot == nullptr) return false;
    merged[left] = slot->merged;
    heap.push_back(static_cast<std::uint64_t>(slot->rank) << 32 | left);
    return true;
  };

  for (std::uint32_t i = 0; i < num_symbols; ++i) {
    next[i] = i + 1 < num_symbols ? i + 1 : kNone;
    previous[i] = i == 0 ? kNone : i - 1;
  }
  for (std::uint32_t i = 0; i + 1 < num_symbols; ++i) note_pair(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint32_t left = static_cast<std::uint32_t>(heap.back());
    const std::uint32_t entry_rank = static_cast<std::uint32_t>(heap.back() >> 32);
    heap.pop_back();
    if (rank[left] != entry_rank) continue;  // one of the two has merged since

    const std::uint32_t right = next[left];
    symbols[left] = merged[left];
    rank[right] = kNoRank;
    next[left] = next[right];
    if (next[left] != kNone) previous[next[left]] = left;
    if (note_pair(left)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    if (previous[left] != kNone && note_pair(previous[left]))
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }

  std::size_t num_left = 0;
  for (std::uint32_t i = 0; i != kNone; i = next[i]) symbols[num_left++] = symbols[i];
  symbols.resize(num_left);
}

}  // namespace isobit
