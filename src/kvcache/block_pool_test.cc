#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

namespace isobit {
namespace {

TEST(BlockPool, HandsOutTheLowestFreeBlock) {
  BlockPool pool(4);
  EXPECT_EQ(pool.Allocate(), 0);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_EQ(pool.Allocate(), 2);
  pool.Release(1, /*keep_content=*/false);
  pool.Release(0, /*keep_content=*/false);
  EXPECT_EQ(pool.Allocate(), 0);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_EQ(pool.Allocate(), 3);
  EXPECT_FALSE(pool.CanAllocate());
}

TEST(BlockPool, ASharedBlockOutlivesItsFirstOwner) {
  BlockPool pool(2);
  const BlockId block = pool.Allocate();
  pool.Acquire(block);
  EXPECT_EQ(pool.num_owners(block), 2);
  pool.Release(block, /*keep_content=*/false);
  EXPECT_EQ(pool.num_owners(block), 1);
  EXPECT_EQ(pool.num_free(), 1);
  pool.Release(block, /*keep_content=*/false);
  EXPECT_TRUE(pool.IsFree(block));
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(BlockPool, EvictsInTheOrderOfRelease) {
  BlockPool pool(3);
  for (int i = 0; i < 3; ++i) pool.Allocate();
  pool.Release(2, /*keep_content=*/true);
  pool.Release(0, /*keep_content=*/true);
  pool.Release(1, /*keep_content=*/true);
  EXPECT_FALSE(pool.CanAllocate());
  EXPECT_EQ(pool.num_kept(), 3);
  // Used again and released again: now it is the newest.
  pool.Acquire(2);
  EXPECT_FALSE(pool.IsKept(2));
  pool.Release(2, /*keep_content=*/true);
  EXPECT_EQ(pool.EvictOldest(), 0);
  EXPECT_EQ(pool.EvictOldest(), 1);
  EXPECT_EQ(pool.EvictOldest(), 2);
  EXPECT_FALSE(pool.CanEvict());
  EXPECT_EQ(pool.num_free(), 3);
}

TEST(BlockPoolDeathTest, BrokenBookkeepingAborts) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.Release(0, false), "block 0 has no owner");
  EXPECT_DEATH(pool.Acquire(0), "block 0 is free");
  pool.Allocate();
  EXPECT_DEATH(pool.Allocate(), "no free block");
  EXPECT_DEATH(pool.EvictOldest(), "no kept block");
}

}  // namespace
}  // namespace isobit
