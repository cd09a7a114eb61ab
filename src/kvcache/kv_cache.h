// KvCache: the paged bookkeeping of one engine: hands blocks to sequences, shares the prefixes that
// are already computed.
//
// Rules that make sharing invisible:
// * Only whole blocks are shared, and only after the step that wrote them has ended (Publish).
//   Nobody writes a published block.
// * A sequence owns every block of its table, so a child is never owned without its parent; tables
//   are released from the tail, so of a chain the child is always evicted first.
// * Two sequences that computed the same block at the same time end up sharing the one published
//   first.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvcache/block_pool.h"
#include "kvcache/block_table.h"
#include "kvcache/prefix_index.h"

namespace isobit {

// Leading blocks of a sequence that are in the cache.
struct PrefixMatch {
  std::vector<BlockId> blocks;
  // Of these, how many nobody owns: attaching takes them out of what is available.
  std::int64_t num_kept = 0;
};

class KvCache {
 public:
  struct Config {
    std::int64_t num_blocks = 0;
    std::int64_t block_size = 16;
    bool share_prefixes = true;
    BlockHasher hasher = &HashBlock;
  };
  explicit KvCache(const Config& config);

  // The longest cached prefix of whole blocks within tokens[0, max_tokens).
  PrefixMatch Match(std::span<const std::int32_t> tokens, std::int64_t max_tokens,
                    std::string_view salt) const;
  // Gives the matched blocks to an empty table.
  void Attach(const PrefixMatch& match, BlockTable& table);

  // Blocks that Grow could hand out.
  std::int64_t num_available() const { return pool_.num_free() + pool_.num_kept(); }
  bool CanGrow(const BlockTable& table, std::int64_t num_positions) const;
  // Adds blocks, evicting kept ones if need be, until the table covers num_positions.
  void Grow(BlockTable& table, std::int64_t num_positions);

  // Shares the table's blocks whose positions are all below num_settled (KV written, step over).
  // tokens: the sequence's.
  void Publish(BlockTable& table, std::span<const std::int32_t> tokens, std::int64_t num_settled,
               std::string_view salt);

  // Gives every block back and empties the table. Published blocks stay for later requests.
  void Release(BlockTable& table);

  // Forgets all prefixes. Sequences keep what they own.
  void ClearPrefixes();

  std::int64_t block_size() const { return config_.block_size; }
  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }

 private:
  BlockId TakeBlock();

  Config config_;
  BlockPool pool_;
  PrefixIndex index_;
};

}  // namespace isobit
