#include "contract/tensor_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/file.h"
#include "contract/float_bits.h"

namespace isobit::contract {
namespace {

std::string Load(const std::string& name) {
  return std::move(ReadFile(std::string(ISOBIT_SOURCE_DIR) + "/tests/golden/h200_mma_bf16/" + name)).value();
}

struct Reader {
  std::string bytes;
  std::size_t at = 0;

  template <class T>
  std::vector<T> Take(std::size_t count) {
    std::vector<T> values(count);
    EXPECT_LE(at + count * sizeof(T), bytes.size());
    std::memcpy(values.data(), bytes.data() + at, count * sizeof(T));
    at += count * sizeof(T);
    return values;
  }
};

constexpr int kRows = 128;

// Mismatches of the law's chain over [0, depth) against recorded D.
int CountMismatches(const std::vector<std::uint16_t>& w, const std::vector<std::uint16_t>& x, int k, int depth,
                    const std::vector<std::uint32_t>& recorded) {
  int mismatches = 0;
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kRows; ++j) {
      const float y = TensorCoreChain(0.0f, std::span(w).subspan(i * k, depth), std::span(x).subspan(j * k, depth));
      mismatches += BitsOf(y) != recorded[i * kRows + j];
    }
  }
  return mismatches;
}

TEST(TensorCore, ReproducesRecordedChains) {
  for (const int k : {16, 32, 256}) {
    Reader file{Load("bits_k" + std::to_string(k) + ".bin")};
    const auto w = file.Take<std::uint16_t>(kRows * k), x = file.Take<std::uint16_t>(kRows * k);
    const auto mma = file.Take<std::uint32_t>(kRows * kRows), wgmma = file.Take<std::uint32_t>(kRows * kRows);
    const auto k8 = file.Take<std::uint32_t>(kRows * kRows);
    EXPECT_EQ(file.at, file.bytes.size());
    EXPECT_EQ(CountMismatches(w, x, k, k, mma), 0) << "K = " << k;
    EXPECT_EQ(mma, wgmma) << "K = " << k;
    // The control: another instruction shape is another function, and the comparison sees it.
    EXPECT_GT(CountMismatches(w, x, k, k, k8), 0) << "K = " << k;
  }
}

TEST(TensorCore, ReproducesRecordedEdges) {
  for (int distribution = 0; distribution < 8; ++distribution) {
    Reader file{Load("edge_d" + std::to_string(distribution) + ".bin")};
    const auto w = file.Take<std::uint16_t>(kRows * 64), x = file.Take<std::uint16_t>(kRows * 64);
    const auto first16 = file.Take<std::uint32_t>(kRows * kRows), all64 = file.Take<std::uint32_t>(kRows * kRows);
    EXPECT_EQ(file.at, file.bytes.size());
    EXPECT_EQ(CountMismatches(w, x, 64, 16, first16), 0) << "distribution " << distribution;
    EXPECT_EQ(CountMismatches(w, x, 64, 64, all64), 0) << "distribution " << distribution;
  }
}

TEST(TensorCore, ReproducesRecordedNonFinite) {
  constexpr int kTiles = 256;
  Reader file{Load("nonfinite.bin")};
  const auto a = file.Take<std::uint16_t>(kTiles * 256), b = file.Take<std::uint16_t>(kTiles * 128);
  const auto c = file.Take<std::uint32_t>(kTiles * 128), d = file.Take<std::uint32_t>(kTiles * 128);
  EXPECT_EQ(file.at, file.bytes.size());
  int mismatches = 0, nans = 0, infinities = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        const int at = tile * 128 + i * 8 + j;
        const float y = TensorCoreStep(FloatOf(c[at]), std::span(a).subspan(tile * 256 + i * 16, 16),
                                       std::span(b).subspan(tile * 128 + j * 16, 16));
        mismatches += BitsOf(y) != d[at];
        nans += d[at] == kStepNan;
        infinities += (d[at] & 0x7fffffffu) == 0x7f800000u;
      }
    }
  }
  EXPECT_EQ(mismatches, 0);
  EXPECT_GT(nans, 1000);
  EXPECT_GT(infinities, 1000);
}

TEST(TensorCore, OrderInsideAStepIsFreeAndZerosAreAbsent) {
  Reader file{Load("edge_d3.bin")};
  const auto w = file.Take<std::uint16_t>(kRows * 64), x = file.Take<std::uint16_t>(kRows * 64);
  for (int i = 0; i < kRows; ++i) {
    std::vector<std::uint16_t> a(w.begin() + i * 64, w.begin() + i * 64 + 16), b(x.begin() + i * 64, x.begin() + i * 64 + 16);
    const float y = TensorCoreStep(1.5f, a, b);
    std::reverse(a.begin(), a.end());
    std::reverse(b.begin(), b.end());
    EXPECT_EQ(BitsOf(TensorCoreStep(1.5f, a, b)), BitsOf(y));
    a[3] = 0;
    const float with_zero = TensorCoreStep(-0.25f, a, b);
    a.erase(a.begin() + 3);
    b.erase(b.begin() + 3);
    EXPECT_EQ(BitsOf(TensorCoreStep(-0.25f, a, b)), BitsOf(with_zero));
  }
}

TEST(TensorCore, SmallCases) {
  const std::uint16_t one = 0x3f80, tiny = 0x0001;
  EXPECT_EQ(TensorCoreStep(2.0f, std::array{one}, std::array{one}), 3.0f);
  EXPECT_EQ(BitsOf(TensorCoreStep(-1.0f, std::array{one}, std::array{one})), 0u);   // +0
  EXPECT_EQ(BitsOf(TensorCoreStep(-0.0f, std::array{tiny}, std::array{tiny})), 0u);  // the product underflows to +0
  // 1 + 2^-24 is truncated, where round to nearest would have to decide a tie.
  EXPECT_EQ(TensorCoreStep(1.0f, std::array{std::uint16_t{0x3380}}, std::array{one}), 1.0f);
  EXPECT_EQ(TensorCoreStep(-1.0f, std::array{std::uint16_t{0x3380}}, std::array{one}), -0x1.fffffep-1f);
}

}  // namespace
}  // namespace isobit::contract
