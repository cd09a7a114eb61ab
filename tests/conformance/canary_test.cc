// Canaries: wrong orders of addition that the comparer must report. If one passes, the suite proves nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "comparer.h"
#include "contract/float_bits.h"
#include "contract/linear.h"
#include "contract/tensor_core.h"
#include "contract/weight_formats.h"
#include "inputs.h"

namespace isobit::conformance {
namespace {

constexpr std::int64_t kN = 24, kK = 2048;

struct Problem {
  TensorView weight = Weight(DType::kF32, kN, kK, Data::kNormal, 900);
  std::vector<float> x = Floats(Data::kNormal, kK, 901);

  std::vector<float> Row(std::int64_t n) const {
    return contract::DecodeRow(DType::kF32, weight.data.subspan(n * kK * 4, kK * 4), kK);
  }
  std::vector<float> Law() const {
    return contract::Linear(contract::Profile::kF32Fma, contract::Topology::kFold, DType::kF32, weight.data, kN, x, {});
  }
  float Chunk(const std::vector<float>& w, std::int64_t begin, std::int64_t end) const {
    float acc = 0.0f;
    for (std::int64_t k = begin; k < end; ++k) acc = std::fma(w[k], x[k], acc);
    return acc;
  }
};

TEST(CanaryTest, TheRightFoldPasses) {
  const Problem problem;
  std::vector<float> y;
  for (std::int64_t n = 0; n < kN; ++n) {
    const std::vector<float> w = problem.Row(n);
    float acc = problem.Chunk(w, 0, 512);
    for (std::int64_t k = 512; k < kK; k += 512) acc = acc + problem.Chunk(w, k, k + 512);
    y.push_back(acc);
  }
  EXPECT_EQ(Compare(problem.Law(), y, kN), "");
}

TEST(CanaryTest, AReversedFoldIsReported) {
  const Problem problem;
  std::vector<float> y;
  for (std::int64_t n = 0; n < kN; ++n) {
    const std::vector<float> w = problem.Row(n);
    float acc = problem.Chunk(w, kK - 512, kK);
    for (std::int64_t k = kK - 1024; k >= 0; k -= 512) acc = acc + problem.Chunk(w, k, k + 512);
    y.push_back(acc);
  }
  EXPECT_NE(Compare(problem.Law(), y, kN).find("of 24 differ, first at [0, "), std::string::npos);
}

TEST(CanaryTest, AnotherChunkIsReported) {
  const Problem problem;
  std::vector<float> y;
  for (std::int64_t n = 0; n < kN; ++n) {
    const std::vector<float> w = problem.Row(n);
    float acc = problem.Chunk(w, 0, 256);
    for (std::int64_t k = 256; k < kK; k += 256) acc = acc + problem.Chunk(w, k, k + 256);
    y.push_back(acc);
  }
  EXPECT_NE(Compare(problem.Law(), y, kN), "");
}

TEST(CanaryTest, ContractionToTwoRoundingsIsReported) {
  const Problem problem;
  std::vector<float> y;
  for (std::int64_t n = 0; n < kN; ++n) {
    const std::vector<float> w = problem.Row(n);
    float total = 0.0f;
    for (std::int64_t k = 0; k < kK; k += 512) {
      float acc = 0.0f;
      for (std::int64_t i = k; i < k + 512; ++i) acc = acc + w[i] * problem.x[i];
      total = k == 0 ? acc : total + acc;
    }
    y.push_back(total);
  }
  EXPECT_NE(Compare(problem.Law(), y, kN), "");
}

// Steps of 8 products are another function than steps of 16.
TEST(CanaryTest, ShorterTensorCoreStepsAreReported) {
  const std::vector<float> a = Floats(Data::kWide, 64 * 32, 910), b = Floats(Data::kWide, 64 * 32, 911);
  std::vector<float> law, wrong;
  for (std::int64_t row = 0; row < 64; ++row) {
    std::vector<std::uint16_t> x, y;
    for (std::int64_t k = 0; k < 32; ++k) {
      x.push_back(contract::Bf16FromF32(a[row * 32 + k]));
      y.push_back(contract::Bf16FromF32(b[row * 32 + k]));
    }
    law.push_back(contract::TensorCoreChain(0.0f, x, y));
    float acc = 0.0f;
    for (std::size_t k = 0; k < 32; k += 8) acc = contract::TensorCoreStep(acc, std::span(x).subspan(k, 8), std::span(y).subspan(k, 8));
    wrong.push_back(acc);
  }
  EXPECT_NE(Compare(law, wrong, 1), "");
}

TEST(ComparerTest, ReportsCountPlaceBitsAndDistance) {
  const std::vector<float> law = {1.0f, 2.0f, 3.0f, -0.0f};
  std::vector<float> other = law;
  EXPECT_EQ(Compare(law, other, 2), "");
  other[2] = std::nextafter(3.0f, 4.0f);
  other[3] = 0.0f;
  EXPECT_EQ(Compare(law, other, 2),
            "2 of 4 differ, first at [1, 0]: law 40400000 (3), backend 40400001 (3), 1 ulp apart");
  EXPECT_EQ(Compare(std::vector<float>{-0.0f}, std::vector<float>{0.0f}, 1),
            "1 of 1 differ, first at [0, 0]: law 80000000 (-0), backend 00000000 (0), 1 ulp apart");
  const float nan1 = contract::FloatOf(0x7fc00000), nan2 = contract::FloatOf(0xffffffff);
  EXPECT_EQ(Compare(std::vector<float>{nan1}, std::vector<float>{nan2}, 1), "");
  EXPECT_NE(Compare(std::vector<float>{nan1}, std::vector<float>{1.0f}, 1), "");
  EXPECT_EQ(Compare(std::vector<float>{1.0f}, std::vector<float>{}, 1), "0 values where 1 belong");
}

}  // namespace
}  // namespace isobit::conformance
