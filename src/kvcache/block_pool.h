// BlockPool: who owns each block of KV memory. Counts owners; knows neither tokens nor floats.
//
// A block is free (nobody needs what is in it), owned (by one sequence or more) or kept (no owner,
// but its content may be wanted again). Order is written down: the lowest free id is taken first;
// kept blocks are evicted in the order of their last release, by a logical tick, never by a clock.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace isobit {

using BlockId = std::int32_t;
inline constexpr BlockId kNoBlock = -1;

class BlockPool {
 public:
  explicit BlockPool(std::int64_t num_blocks);

  bool CanAllocate() const { return !free_.empty(); }
  // The lowest free block, with one owner.
  BlockId Allocate();

  // One owner more, of an owned or a kept block.
  void Acquire(BlockId block);
  // One owner less. The last owner leaves the block kept if keep_content, else free.
  void Release(BlockId block, bool keep_content);

  bool CanEvict() const { return !kept_.empty(); }
  // Frees the kept block that was released first, and says which.
  BlockId EvictOldest();
  // Frees this kept block.
  void Evict(BlockId block);

  std::int64_t num_blocks() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t num_kept() const { return static_cast<std::int64_t>(kept_.size()); }
  std::int64_t num_owners(BlockId block) const;
  bool IsFree(BlockId block) const { return free_.contains(block); }
  bool IsKept(BlockId block) const;

 private:
  struct Block {
    std::int64_t num_owners = 0;
    std::uint64_t released_tick = 0;  // when it became kept; 0 if it is not
  };

  std::vector<Block> blocks_;  // by id
  std::set<BlockId> free_;     // lowest first
  // (released_tick, id): oldest first, ties by id.
  std::set<std::pair<std::uint64_t, BlockId>> kept_;
  std::uint64_t tick_ = 0;
};

}  // namespace isobit
