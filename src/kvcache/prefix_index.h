// PrefixIndex: finds the block that holds the KV of given tokens after a given prefix. A trie whose
// nodes are blocks, reached by hash.
//
// The hash only narrows the search: a hit also compares the parent block, the salt and every token.
// Since a parent can't leave before its children (KvCache's order of release sees to it), a
// parent's id stands for its whole prefix, so a hit is exact, not probable.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvcache/block_pool.h"

namespace isobit {

// hash(parent hash, salt, tokens of one block). Must not fail on collisions; tests pass a hasher
// that collides always.
using BlockHasher = std::uint64_t (*)(std::uint64_t parent_hash, std::string_view salt,
                                      std::span<const std::int32_t> tokens);

// The usual one: every field as 64-bit words, strings and token lists preceded by their length (so
// that no two field lists are one word list), folded by h = Mix(h + word), Mix being the finaliser
// of splitmix64.
std::uint64_t HashBlock(std::uint64_t parent_hash, std::string_view salt,
                        std::span<const std::int32_t> tokens);

class PrefixIndex {
 public:
  PrefixIndex(std::int64_t num_blocks, BlockHasher hasher = &HashBlock);

  // The block holding `tokens` (exactly one block's worth) behind `parent` (kNoBlock: at position
  // 0); kNoBlock if there is none.
  BlockId Find(BlockId parent, std::string_view salt, std::span<const std::int32_t> tokens) const;

  // Makes `block` findable. The parent must be in the index, the same content must not.
  void Insert(BlockId block, BlockId parent, std::string_view salt,
              std::span<const std::int32_t> tokens);
  // Forgets `block`, which must have no children.
  void Remove(BlockId block);
  // Forgets everything.
  void Clear();

  bool Contains(BlockId block) const { return nodes_.at(block).present; }
  std::int64_t num_nodes() const { return static_cast<std::int64_t>(by_hash_.size()); }

 private:
  struct Node {
    bool present = false;
    BlockId parent = kNoBlock;
    std::int64_t num_children = 0;
    std::uint64_t hash = 0;
    std::string salt;
    std::vector<std::int32_t> tokens;
  };

  std::uint64_t HashBehind(BlockId parent, std::string_view salt,
                           std::span<const std::int32_t> tokens) const;

  BlockHasher hasher_;
  std::vector<Node> nodes_;  // by block id
  // Equal hashes are different nodes, told apart by comparison.
  std::multimap<std::uint64_t, BlockId> by_hash_;
};

}  // namespace isobit
