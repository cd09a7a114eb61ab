#include "kvcache/kv_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace isobit {
namespace {

std::vector<std::int32_t> Ascending(std::int64_t count, std::int32_t first = 0) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// A sequence that computed all its tokens in one step.
BlockTable Compute(KvCache& cache, const std::vector<std::int32_t>& tokens,
                   std::string_view salt = "") {
  BlockTable table;
  cache.Grow(table, static_cast<std::int64_t>(tokens.size()));
  cache.Publish(table, tokens, static_cast<std::int64_t>(tokens.size()), salt);
  return table;
}

TEST(KvCache, GrowsByWholeBlocks) {
  KvCache cache({.num_blocks = 4, .block_size = 8});
  BlockTable table;
  cache.Grow(table, 1);
  EXPECT_EQ(table.blocks, std::vector<BlockId>({0}));
  cache.Grow(table, 8);
  EXPECT_EQ(table.num_blocks(), 1);
  cache.Grow(table, 9);
  EXPECT_EQ(table.blocks, std::vector<BlockId>({0, 1}));
  EXPECT_TRUE(cache.CanGrow(table, 32));
  EXPECT_FALSE(cache.CanGrow(table, 33));
  cache.Release(table);
  EXPECT_TRUE(table.blocks.empty());
  EXPECT_EQ(cache.num_available(), 4);
}

TEST(KvCache, MatchesWholeBlocksWithinTheBound) {
  KvCache cache({.num_blocks = 8, .block_size = 8});
  BlockTable table = Compute(cache, Ascending(20));
  EXPECT_EQ(table.num_published, 2);  // the third is not full
  cache.Release(table);
  const auto tokens = Ascending(40);
  EXPECT_EQ(cache.Match(tokens, 40, "").blocks, std::vector<BlockId>({0, 1}));
  EXPECT_EQ(cache.Match(tokens, 40, "").num_kept, 2);
  EXPECT_EQ(cache.Match(tokens, 16, "").blocks.size(), 2u);
  EXPECT_EQ(cache.Match(tokens, 15, "").blocks.size(), 1u);
  EXPECT_EQ(cache.Match(tokens, 7, "").blocks.size(), 0u);
  EXPECT_EQ(cache.Match(tokens, 40, "salt").blocks.size(), 0u);
  EXPECT_EQ(cache.Match(Ascending(40, 1), 40, "").blocks.size(), 0u);
}

TEST(KvCache, SharesOneBlockWithoutCopies) {
  KvCache cache({.num_blocks = 4, .block_size = 8});
  BlockTable first = Compute(cache, Ascending(8));
  BlockTable second;
  const PrefixMatch match = cache.Match(Ascending(8), 8, "");
  EXPECT_EQ(match.num_kept, 0);  // owned by the first
  cache.Attach(match, second);
  EXPECT_EQ(cache.pool().num_owners(0), 2);
  cache.Release(first);
  EXPECT_EQ(cache.pool().num_owners(0), 1);
  cache.Release(second);
  EXPECT_TRUE(cache.pool().IsKept(0));
}

TEST(KvCache, TwoThatComputedTheSameKeepTheFirst) {
  KvCache cache({.num_blocks = 4, .block_size = 8});
  BlockTable first, second;
  cache.Grow(first, 9);
  cache.Grow(second, 9);
  cache.Publish(first, Ascending(9), 9, "");
  cache.Publish(second, Ascending(9), 9, "");
  EXPECT_EQ(first.blocks, std::vector<BlockId>({0, 1}));
  EXPECT_EQ(second.blocks, std::vector<BlockId>({0, 3}));
  EXPECT_TRUE(cache.pool().IsFree(2));
}

TEST(KvCache, UnsettledBlocksAreNotFound) {
  KvCache cache({.num_blocks = 4, .block_size = 8});
  BlockTable table;
  cache.Grow(table, 16);
  cache.Publish(table, Ascending(16), 15, "");
  EXPECT_EQ(table.num_published, 1);
  EXPECT_EQ(cache.Match(Ascending(16), 16, "").blocks.size(), 1u);
}

TEST(KvCache, EvictsTheTailOfTheOldestPrefixFirst) {
  KvCache cache({.num_blocks = 4, .block_size = 8});
  BlockTable old = Compute(cache, Ascending(16));
  cache.Release(old);
  BlockTable young = Compute(cache, Ascending(16, 100));
  cache.Release(young);
  EXPECT_EQ(cache.pool().num_kept(), 4);
  BlockTable table;
  cache.Grow(table, 8);
  EXPECT_EQ(table.blocks, std::vector<BlockId>({1}));
  EXPECT_EQ(cache.Match(Ascending(16), 16, "").blocks, std::vector<BlockId>({0}));
  cache.Grow(table, 16);
  EXPECT_EQ(cache.Match(Ascending(16), 16, "").blocks.size(), 0u);
  EXPECT_EQ(cache.Match(Ascending(16, 100), 16, "").blocks.size(), 2u);
}

TEST(KvCache, ClearForgetsPrefixesAndNothingElse) {
  KvCache cache({.num_blocks = 4, .block_size = 8});
  BlockTable kept = Compute(cache, Ascending(8, 100));
  cache.Release(kept);
  BlockTable table = Compute(cache, Ascending(8));
  cache.ClearPrefixes();
  EXPECT_EQ(cache.pool().num_kept(), 0);
  EXPECT_EQ(cache.pool().num_owners(table.blocks[0]), 1);
  EXPECT_EQ(cache.Match(Ascending(8), 8, "").blocks.size(), 0u);
  // A chain that lost its head can't be continued, and does not come back by itself.
  cache.Grow(table, 16);
  cache.Publish(table, Ascending(16), 16, "");
  EXPECT_EQ(cache.Match(Ascending(16), 16, "").blocks.size(), 0u);
  cache.Release(table);
  EXPECT_EQ(cache.pool().num_free(), 4);
}

TEST(KvCache, SwitchedOffNothingIsShared) {
  KvCache cache({.num_blocks = 4, .block_size = 8, .share_prefixes = false});
  BlockTable table = Compute(cache, Ascending(8));
  cache.Release(table);
  EXPECT_EQ(cache.pool().num_free(), 4);
  EXPECT_EQ(cache.Match(Ascending(8), 8, "").blocks.size(), 0u);
}

}  // namespace
}  // namespace isobit
