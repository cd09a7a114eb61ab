// BlockTable: the blocks of one sequence, from absolute position 0. Plain data; KvCache changes it.
#pragma once

#include <cstdint>
#include <vector>

#include "kvcache/block_pool.h"

namespace isobit {

struct BlockTable {
  std::vector<BlockId> blocks;     // block i holds positions [i * block_size, (i + 1) * block_size)
  std::int64_t num_published = 0;  // leading blocks that are in the prefix index
  // The index was cleared under a published block: nothing more can follow it there.
  bool chain_broken = false;

  std::int64_t num_blocks() const { return static_cast<std::int64_t>(blocks.size()); }
};

inline std::int64_t NumBlocksFor(std::int64_t num_positions, std::int64_t block_size) {
  return (num_positions + block_size - 1) / block_size;
}

}  // namespace isobit
