#include "kvcache/prefix_index.h"

#include <algorithm>

#include "base/check.h"

namespace isobit {
namespace {

constexpr std::uint64_t kRootHash = 0x69736F6269740001;  // "isobit", version 1

// The finaliser of splitmix64: a bijection in which every input bit reaches every output bit.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t HashBlock(std::uint64_t parent_hash, std::string_view salt,
                        std::span<const std::int32_t> tokens) {
  std::uint64_t hash = Mix(parent_hash);
  hash = Mix(hash + salt.size());
  for (const char byte : salt) hash = Mix(hash + static_cast<unsigned char>(byte));
  hash = Mix(hash + tokens.size());
  for (const std::int32_t token : tokens) hash = Mix(hash + static_cast<std::uint32_t>(token));
  return hash;
}

PrefixIndex::PrefixIndex(std::int64_t num_blocks, BlockHasher hasher)
    : hasher_(hasher), nodes_(static_cast<std::size_t>(num_blocks)) {}

std::uint64_t PrefixIndex::HashBehind(BlockId parent, std::string_view salt,
                                      std::span<const std::int32_t> tokens) const {
  return hasher_(parent == kNoBlock ? kRootHash : nodes_.at(parent).hash, salt, tokens);
}

BlockId PrefixIndex::Find(BlockId parent, std::string_view salt,
                          std::span<const std::int32_t> tokens) const {
  const auto [first, last] = by_hash_.equal_range(HashBehind(parent, salt, tokens));
  for (auto it = first; it != last; ++it) {
    const Node& node = nodes_[it->second];
    if (node.parent == parent && node.salt == salt && std::ranges::equal(node.tokens, tokens)) {
      return it->second;
    }
  }
  return kNoBlock;
}

void PrefixIndex::Insert(BlockId block, BlockId parent, std::string_view salt,
                         std::span<const std::int32_t> tokens) {
  Node& node = nodes_.at(block);
  ISOBIT_CHECK(!node.present, "block {} is in the index already", block);
  ISOBIT_CHECK(parent == kNoBlock || Contains(parent), "parent {} is not in the index", parent);
  node = {.present = true,
          .parent = parent,
          .hash = HashBehind(parent, salt, tokens),
          .salt = std::string(salt)};
  node.tokens.assign(tokens.begin(), tokens.end());
  if (parent != kNoBlock) ++nodes_[parent].num_children;
  by_hash_.emplace(node.hash, block);
}

void PrefixIndex::Remove(BlockId block) {
  Node& node = nodes_.at(block);
  ISOBIT_CHECK(node.present, "block {} is not in the index", block);
  // A child names its parent by block id; were the parent reused, the child would be found behind
  // foreign tokens.
  ISOBIT_CHECK(node.num_children == 0, "block {} has {} children", block, node.num_children);
  if (node.parent != kNoBlock) --nodes_[node.parent].num_children;
  const auto [first, last] = by_hash_.equal_range(node.hash);
  by_hash_.erase(
      std::find_if(first, last, [&](const auto& entry) { return entry.second == block; }));
  node = {};
}

void PrefixIndex::Clear() {
  for (const auto& [hash, block] : by_hash_) nodes_[block] = {};
  by_hash_.clear();
}

}  // namespace isobit
