#include "kvcache/kv_cache.h"

#include "base/check.h"

namespace isobit {

KvCache::KvCache(const Config& config)
    : config_(config), pool_(config.num_blocks), index_(config.num_blocks, config.hasher) {
  ISOBIT_CHECK(config.block_size > 0, "block_size = {}", config.block_size);
}

PrefixMatch KvCache::Match(std::span<const std::int32_t> tokens, std::int64_t max_tokens,
                           std::string_view salt) const {
  PrefixMatch match;
  if (!config_.share_prefixes) return match;
  ISOBIT_CHECK(max_tokens <= static_cast<std::int64_t>(tokens.size()));
  BlockId parent = kNoBlock;
  for (std::int64_t first = 0; first + config_.block_size <= max_tokens;
       first += config_.block_size) {
    const BlockId block = index_.Find(parent, salt, tokens.subspan(first, config_.block_size));
    if (block == kNoBlock) break;
    match.blocks.push_back(block);
    match.num_kept += pool_.IsKept(block);
    parent = block;
  }
  return match;
}

void KvCache::Attach(const PrefixMatch& match, BlockTable& table) {
  ISOBIT_CHECK(table.blocks.empty(), "the table holds {} blocks", table.num_blocks());
  for (const BlockId block : match.blocks) pool_.Acquire(block);
  table.blocks = match.blocks;
  table.num_published = table.num_blocks();
}

bool KvCache::CanGrow(const BlockTable& table, std::int64_t num_positions) const {
  return NumBlocksFor(num_positions, config_.block_size) - table.num_blocks() <= num_available();
}

void KvCache::Grow(BlockTable& table, std::int64_t num_positions) {
  ISOBIT_CHECK(CanGrow(table, num_positions), "ask CanGrow first");
  const std::int64_t num_blocks = NumBlocksFor(num_positions, config_.block_size);
  while (table.num_blocks() < num_blocks) table.blocks.push_back(TakeBlock());
}

BlockId KvCache::TakeBlock() {
  if (!pool_.CanAllocate()) index_.Remove(pool_.EvictOldest());
  return pool_.Allocate();
}

void KvCache::Publish(BlockTable& table, std::span<const std::int32_t> tokens,
                      std::int64_t num_settled, std::string_view salt) {
  if (!config_.share_prefixes) return;
  ISOBIT_CHECK(num_settled <= static_cast<std::int64_t>(tokens.size()));
  while (!table.chain_broken && (table.num_published + 1) * config_.block_size <= num_settled) {
    const std::int64_t block_index = table.num_published;
    const BlockId parent = block_index == 0 ? kNoBlock : table.blocks[block_index - 1];
    if (parent != kNoBlock && !index_.Contains(parent)) {
      table.chain_broken = true;
      return;
    }
    BlockId& own = table.blocks[block_index];
    const auto block_tokens = tokens.subspan(block_index * config_.block_size, config_.block_size);
    const BlockId shared = index_.Find(parent, salt, block_tokens);
    if (shared == kNoBlock) {
      index_.Insert(own, parent, salt, block_tokens);
    } else {
      // Another sequence computed the same tokens meanwhile. The law makes the two blocks equal bit
      // for bit, so one is enough.
      pool_.Acquire(shared);
      pool_.Release(own, /*keep_content=*/false);
      own = shared;
    }
    ++table.num_published;
  }
}

void KvCache::Release(BlockTable& table) {
  // From the tail: a child gets an older tick than its parent, so it is evicted before it.
  for (auto it = table.blocks.rbegin(); it != table.blocks.rend(); ++it) {
    pool_.Release(*it, /*keep_content=*/index_.Contains(*it));
  }
  table = {};
}

void KvCache::ClearPrefixes() {
  while (pool_.CanEvict()) pool_.EvictOldest();
  index_.Clear();
}

}  // namespace isobit
