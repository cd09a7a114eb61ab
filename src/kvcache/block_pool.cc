#include "kvcache/block_pool.h"

#include "base/check.h"

namespace isobit {

BlockPool::BlockPool(std::int64_t num_blocks) {
  ISOBIT_CHECK(num_blocks > 0, "num_blocks = {}", num_blocks);
  blocks_.resize(static_cast<std::size_t>(num_blocks));
  for (std::int64_t id = 0; id < num_blocks; ++id) {
    free_.insert(free_.end(), static_cast<BlockId>(id));
  }
}

BlockId BlockPool::Allocate() {
  ISOBIT_CHECK(CanAllocate(), "no free block; ask CanAllocate first");
  const BlockId block = *free_.begin();
  free_.erase(free_.begin());
  blocks_[block].num_owners = 1;
  return block;
}

void BlockPool::Acquire(BlockId block) {
  Block& state = blocks_.at(block);
  if (state.num_owners == 0) {
    // A free block has no content to acquire: only Allocate hands those out.
    ISOBIT_CHECK(kept_.erase({state.released_tick, block}) == 1, "block {} is free", block);
    state.released_tick = 0;
  }
  ++state.num_owners;
}

void BlockPool::Release(BlockId block, bool keep_content) {
  Block& state = blocks_.at(block);
  ISOBIT_CHECK(state.num_owners > 0, "block {} has no owner", block);
  if (--state.num_owners > 0) return;
  if (keep_content) {
    state.released_tick = ++tick_;
    kept_.insert({state.released_tick, block});
  } else {
    free_.insert(block);
  }
}

BlockId BlockPool::EvictOldest() {
  ISOBIT_CHECK(CanEvict(), "no kept block; ask CanEvict first");
  const BlockId block = kept_.begin()->second;
  Evict(block);
  return block;
}

void BlockPool::Evict(BlockId block) {
  Block& state = blocks_.at(block);
  ISOBIT_CHECK(kept_.erase({state.released_tick, block}) == 1, "block {} is not kept", block);
  state.released_tick = 0;
  free_.insert(block);
}

std::int64_t BlockPool::num_owners(BlockId block) const { return blocks_.at(block).num_owners; }

bool BlockPool::IsKept(BlockId block) const {
  return kept_.contains({blocks_.at(block).released_tick, block});
}

}  // namespace isobit
