#include "gate/overlap.h"

#include <gtest/gtest.h>

namespace isobit::gate {
namespace {

using Times = std::vector<std::int64_t>;

Times Every(std::int64_t begin, std::int64_t step, std::int64_t count) {
  Times times;
  for (std::int64_t i = 0; i < count; ++i) times.push_back(begin + i * step);
  return times;
}

TEST(Overlap, LockstepCountsEverybody) {
  std::vector<Times> answers;
  for (std::int64_t i = 0; i < 8; ++i) answers.push_back(Every(i, 10, 128));
  EXPECT_DOUBLE_EQ(MeanOverlap(answers), 8.0);
}

TEST(Overlap, OneAfterTheOtherIsOne) {
  std::vector<Times> answers;
  for (std::int64_t i = 0; i < 8; ++i) answers.push_back(Every(i * 10'000, 10, 128));
  EXPECT_DOUBLE_EQ(MeanOverlap(answers), 1.0);
}

TEST(Overlap, FirstTokensForAllThenOneByOneStaysBelowTheThreshold) {
  for (const std::int64_t n : {2, 4, 8, 16}) {
    std::vector<Times> answers;
    for (std::int64_t i = 0; i < n; ++i) {
      Times times = {i};
      for (const std::int64_t at : Every(1000 + i * 10'000, 10, 127)) times.push_back(at);
      answers.push_back(times);
    }
    EXPECT_LT(MeanOverlap(answers), RequiredOverlap(n)) << n;
  }
}

TEST(Overlap, HalfOverlappingPairLiesBetween) {
  const std::vector<Times> answers = {Every(0, 10, 100), Every(505, 10, 100)};
  EXPECT_NEAR(MeanOverlap(answers), 1.5, 0.15);
}

TEST(Overlap, WholeRepliesProveNothing) {
  EXPECT_DOUBLE_EQ(MeanOverlap(std::vector<Times>{{5}, {6}, {7}}), 1.0);
  EXPECT_DOUBLE_EQ(MeanOverlap(std::vector<Times>{{}, {}}), 0.0);
  EXPECT_DOUBLE_EQ(MeanOverlap(std::vector<Times>{}), 0.0);
}

TEST(Overlap, RequirementGrowsWithConcurrency) {
  EXPECT_DOUBLE_EQ(RequiredOverlap(2), 1.4);
  EXPECT_DOUBLE_EQ(RequiredOverlap(16), 7.0);
}

}  // namespace
}  // namespace isobit::gate
