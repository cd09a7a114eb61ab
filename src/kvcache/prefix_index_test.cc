#include "kvcache/prefix_index.h"

#include <gtest/gtest.h>

#include <vector>

namespace isobit {
namespace {

using Tokens = std::vector<std::int32_t>;

std::uint64_t OneHashForAll(std::uint64_t, std::string_view, std::span<const std::int32_t>) {
  return 7;
}

TEST(HashBlock, SeparatesItsFields) {
  const std::uint64_t plain = HashBlock(1, "", Tokens{1, 2});
  EXPECT_EQ(plain, HashBlock(1, "", Tokens{1, 2}));
  EXPECT_NE(plain, HashBlock(2, "", Tokens{1, 2}));
  EXPECT_NE(plain, HashBlock(1, "a", Tokens{1, 2}));
  EXPECT_NE(plain, HashBlock(1, "", Tokens{2, 1}));
  // Without lengths, a salt could pass for tokens: one byte of value 1 and the token 1 are the same
  // word.
  EXPECT_NE(HashBlock(1, "\x01", Tokens{2}), HashBlock(1, "", Tokens{1, 2}));
  EXPECT_NE(HashBlock(1, "ab", Tokens{}), HashBlock(1, "a", Tokens{'b'}));
}

// Values from an independent program.
TEST(HashBlock, IsPinned) {
  EXPECT_EQ(HashBlock(0, "", Tokens{}), 0x238275BC38FCBE91);
  EXPECT_EQ(HashBlock(1, "ab", Tokens{5, 70000}), 0x5F4A990215C5F025);
}

// What holds for the real hash must hold if every block collides with every other.
class PrefixIndexTest : public testing::TestWithParam<BlockHasher> {};

TEST_P(PrefixIndexTest, FindsOnlyTheSameTokensSaltAndParent) {
  PrefixIndex index(8, GetParam());
  index.Insert(3, kNoBlock, "", Tokens{1, 2});
  index.Insert(5, 3, "", Tokens{3, 4});
  index.Insert(6, kNoBlock, "ab", Tokens{1, 2});
  EXPECT_EQ(index.Find(kNoBlock, "", Tokens{1, 2}), 3);
  EXPECT_EQ(index.Find(3, "", Tokens{3, 4}), 5);
  EXPECT_EQ(index.Find(kNoBlock, "ab", Tokens{1, 2}), 6);
  EXPECT_EQ(index.Find(kNoBlock, "", Tokens{2, 1}), kNoBlock);
  EXPECT_EQ(index.Find(kNoBlock, "a", Tokens{1, 2}), kNoBlock);
  EXPECT_EQ(index.Find(kNoBlock, "", Tokens{3, 4}), kNoBlock);
  EXPECT_EQ(index.Find(6, "", Tokens{3, 4}), kNoBlock);
  EXPECT_EQ(index.Find(3, "", Tokens{3}), kNoBlock);
  EXPECT_EQ(index.num_nodes(), 3);
}

TEST_P(PrefixIndexTest, ForgetsOneOrAll) {
  PrefixIndex index(8, GetParam());
  index.Insert(0, kNoBlock, "", Tokens{1});
  index.Insert(1, 0, "", Tokens{1});
  index.Insert(2, 0, "", Tokens{2});
  index.Remove(1);
  EXPECT_FALSE(index.Contains(1));
  EXPECT_EQ(index.Find(0, "", Tokens{1}), kNoBlock);
  EXPECT_EQ(index.Find(0, "", Tokens{2}), 2);
  index.Remove(2);
  index.Remove(0);
  EXPECT_EQ(index.num_nodes(), 0);
  index.Insert(0, kNoBlock, "", Tokens{1});
  index.Insert(1, 0, "", Tokens{1});
  index.Clear();
  EXPECT_EQ(index.num_nodes(), 0);
  EXPECT_EQ(index.Find(kNoBlock, "", Tokens{1}), kNoBlock);
}

INSTANTIATE_TEST_SUITE_P(Hashers, PrefixIndexTest, testing::Values(&HashBlock, &OneHashForAll),
                         [](const auto& info) { return info.index == 0 ? "Real" : "Colliding"; });

TEST(PrefixIndexDeathTest, AParentStaysAsLongAsItsChildren) {
  PrefixIndex index(2);
  index.Insert(0, kNoBlock, "", Tokens{1});
  index.Insert(1, 0, "", Tokens{1});
  EXPECT_DEATH(index.Remove(0), "block 0 has 1 children");
  EXPECT_DEATH(index.Insert(0, kNoBlock, "", Tokens{2}), "block 0 is in the index already");
}

}  // namespace
}  // namespace isobit
