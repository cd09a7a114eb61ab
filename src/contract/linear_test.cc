#include "contract/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "base/sha256.h"
#include "contract/float_bits.h"
#include "contract/tensor_core.h"
#include "contract/weight_formats.h"

namespace isobit::contract {
namespace {

// Seeded values of about unit size.
std::vector<float> Values(std::uint32_t seed, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto words = Philox4x32({static_cast<std::uint32_t>(i), 0, 0, 0}, {seed, 0});
    float sum = -2.0f;
    for (const std::uint32_t word : words) sum += static_cast<float>(word >> 8) * 0x1p-24f;
    values[i] = sum;
  }
  return values;
}

std::span<const std::byte> Bytes(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

// A random row of a block format: quants from the seed, scales near 1 / 64.
std::vector<std::byte> QuantRow(DType dtype, std::int64_t k, std::uint32_t seed) {
  std::vector<std::byte> row(RowBytes(dtype, k));
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<std::byte>(Philox4x32({static_cast<std::uint32_t>(i), 1, 0, 0}, {seed, 0})[0]);
  }
  const DTypeInfo& info = Info(dtype);
  for (std::size_t at = 0; at < row.size(); at += info.block_bytes) {
    const auto put = [&](std::size_t offset, std::uint16_t bits) { std::memcpy(row.data() + at + offset, &bits, 2); };
    if (dtype == DType::kI8G128) {
      const float d = 0.015625f * (1 + at % 3);
      std::memcpy(row.data() + at, &d, 4);
    } else {
      put(0, F16FromF32(0.015625f * (1.0f + static_cast<float>(at % 7) / 8)));
    }
    if (dtype == DType::kQ4_1) put(2, F16FromF32(-0.1f));
  }
  return row;
}

TEST(CutK, FoldsInChunksOf512) {
  EXPECT_EQ(CutK(Topology::kFold, 576, 1), (std::vector<KRange>{{0, 512}, {512, 576}}));
  EXPECT_EQ(CutK(Topology::kFold, 512, 32), (std::vector<KRange>{{0, 512}}));
  EXPECT_EQ(CutK(Topology::kFold, 1025, 1).size(), 3u);
}

TEST(CutK, TreeSegmentsOfSmolLm2) {
  // 36 granules of 16, cut 4 5 4 5 4 5 4 5; 18 granules of 32, cut 2 2 2 3 2 2 2 3 (models.md, contract.md).
  std::vector<std::int64_t> sizes16, sizes32;
  for (const KRange& r : CutK(Topology::kTree, 576, 1)) sizes16.push_back((r.end - r.begin) / 16);
  for (const KRange& r : CutK(Topology::kTree, 576, 32)) sizes32.push_back((r.end - r.begin) / 32);
  EXPECT_EQ(sizes16, (std::vector<std::int64_t>{4, 5, 4, 5, 4, 5, 4, 5}));
  EXPECT_EQ(sizes32, (std::vector<std::int64_t>{2, 2, 2, 3, 2, 2, 2, 3}));
}

TEST(CutK, TreeOfAShortRowHasAbsentSegments) {
  const auto ranges = CutK(Topology::kTree, 40, 1);  // 3 granules, the last of 8
  ASSERT_EQ(ranges.size(), 8u);
  std::int64_t covered = 0, present = 0;
  for (const KRange& range : ranges) {
    EXPECT_EQ(range.begin, covered);
    covered = range.end;
    present += !range.empty();
  }
  EXPECT_EQ(covered, 40);
  EXPECT_EQ(present, 3);
}

TEST(JoinChunks, OrderIsTheLaws) {
  const std::vector<KRange> all(8, KRange{0, 1});
  const float s[8] = {0x1p24f, 1.0f, 1.0f, 1.0f, -0x1p24f, 1.0f, 3.0f, 1.0f};
  EXPECT_EQ(JoinChunks(Topology::kTree, all, s), ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
  float left = s[0];
  for (int i = 1; i < 8; ++i) left = left + s[i];
  EXPECT_EQ(JoinChunks(Topology::kFold, all, s), left);
  EXPECT_NE(JoinChunks(Topology::kTree, all, s), left);  // the values can tell the orders apart
  // Absent is not zero: -0 survives.
  std::vector<KRange> one(8, KRange{0, 0});
  one[5] = {0, 1};
  const float minus_zero[8] = {9, 9, 9, 9, 9, -0.0f, 9, 9};
  EXPECT_EQ(BitsOf(JoinChunks(Topology::kTree, one, minus_zero)), 0x80000000u);
}

TEST(Linear, F32FmaIsAscendingChains) {
  const auto w = Values(1, 700), x = Values(2, 700);
  float first = 0, second = 0;
  for (int k = 0; k < 512; ++k) first = std::fma(w[k], x[k], first);
  for (int k = 512; k < 700; ++k) second = std::fma(w[k], x[k], second);
  EXPECT_EQ(BitsOf(LinearElement(Profile::kF32Fma, Topology::kFold, DType::kF32, Bytes(w), x)), BitsOf(first + second));
}

TEST(Linear, Bf16TcIsStepsOverRoundedOperands) {
  const auto w = Values(3, 530), x = Values(4, 530);
  std::vector<std::uint16_t> w16, x16;
  for (int k = 0; k < 530; ++k) {
    w16.push_back(Bf16FromF32(w[k]));
    x16.push_back(Bf16FromF32(x[k]));
  }
  const float first = TensorCoreChain(0, std::span(w16).first(512), std::span(x16).first(512));
  const float second = TensorCoreChain(0, std::span(w16).subspan(512), std::span(x16).subspan(512));
  EXPECT_EQ(BitsOf(LinearElement(Profile::kBf16Tc, Topology::kFold, DType::kF32, Bytes(w), x)), BitsOf(first + second));
}

TEST(Linear, Int8DotByHand) {
  // Two groups of Q4_1 with d = 1/2, m = -1 and d = 1/4, m = 2.
  std::vector<std::byte> row(40);
  const auto put = [&](std::size_t at, float value) {
    const std::uint16_t bits = F16FromF32(value);
    std::memcpy(row.data() + at, &bits, 2);
  };
  put(0, 0.5f), put(2, -1.0f), put(20, 0.25f), put(22, 2.0f);
  for (int j = 0; j < 16; ++j) {
    row[4 + j] = static_cast<std::byte>(j | (15 - j) << 4);
    row[24 + j] = static_cast<std::byte>(3 | 5 << 4);
  }
  const auto x = Values(5, 64);
  std::int8_t q[64];
  const QuantizedGroup a = QuantizeGroup(std::span(x).first(32), q), b = QuantizeGroup(std::span(x).subspan(32), q + 32);
  int first = 0, second = 0;
  for (int j = 0; j < 16; ++j) {
    first += j * q[j] + (15 - j) * q[16 + j];
    second += 3 * q[32 + j] + 5 * q[48 + j];
  }
  float acc = static_cast<float>(first) * (0.5f * a.scale);
  acc = std::fma(static_cast<float>(a.sum), -1.0f * a.scale, acc);
  acc = std::fma(static_cast<float>(second), 0.25f * b.scale, acc);
  acc = std::fma(static_cast<float>(b.sum), 2.0f * b.scale, acc);
  EXPECT_EQ(BitsOf(LinearElement(Profile::kInt8Dot, Topology::kFold, DType::kQ4_1, row, x)), BitsOf(acc));
}

// Every format and profile is close to the exact product of what it stores.
TEST(Linear, IsCloseToFloat64) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kI8G128}) {
    const std::int64_t k = 1536;
    const auto row = QuantRow(dtype, k, 7);
    const auto x = Values(8, k), w = DecodeRow(dtype, row, k);
    double exact = 0, norm = 0;
    for (std::int64_t i = 0; i < k; ++i) exact += static_cast<double>(w[i]) * x[i], norm += std::fabs(w[i] * x[i]);
    for (const Topology topology : {Topology::kFold, Topology::kTree}) {
      EXPECT_NEAR(LinearElement(Profile::kF32Fma, topology, dtype, row, x), exact, 1e-6 * norm) << Name(dtype);
      EXPECT_NEAR(LinearElement(Profile::kInt8Dot, topology, dtype, row, x), exact, 1e-3 * norm) << Name(dtype);
      EXPECT_NEAR(LinearElement(Profile::kBf16Tc, topology, dtype, row, x), exact, 1e-3 * norm) << Name(dtype);
    }
  }
}

TEST(Linear, BiasComesLast) {
  const auto w = Values(9, 2 * 32), x = Values(10, 32), bias = Values(11, 2);
  const auto plain = Linear(Profile::kF32Fma, Topology::kTree, DType::kF32, Bytes(w), 2, x, {});
  const auto biased = Linear(Profile::kF32Fma, Topology::kTree, DType::kF32, Bytes(w), 2, x, bias);
  for (int n = 0; n < 2; ++n) EXPECT_EQ(biased[n], plain[n] + bias[n]);
}

TEST(Quantizer, EdgesOfTheRule) {
  std::int8_t q[4];
  QuantizedGroup group = QuantizeGroup(std::vector<float>{127.0f, -63.5f, 0.5f, 1.5f}, q);
  EXPECT_EQ(group.scale, 1.0f);
  EXPECT_EQ((std::vector<int>(q, q + 4)), (std::vector<int>{127, -64, 0, 2}));  // ties to even
  EXPECT_EQ(group.sum, 65);
  group = QuantizeGroup(std::vector<float>{0x1p-101f, -0x1p-110f}, q);
  EXPECT_EQ(BitsOf(group.scale), 0u);
  EXPECT_EQ(q[0], 0);
  group = QuantizeGroup(std::vector<float>{1.0f, INFINITY}, q);
  EXPECT_NE(group.scale, group.scale);  // NaN: the request fails, not the process
  group = QuantizeGroup(std::vector<float>{-3e38f, 3e38f}, q);
  EXPECT_EQ(q[0], -127);
  EXPECT_EQ(q[1], 127);
}

TEST(WeightFormats, OwnFormatPadsItsLastBlock) {
  const auto row = Values(12, 200);
  const auto stored = QuantizeRowI8G128(row);
  ASSERT_EQ(stored.size(), 264u);
  const auto decoded = DecodeRow(DType::kI8G128, stored, 200);
  for (int i = 0; i < 200; ++i) EXPECT_NEAR(decoded[i], row[i], 2.0 / 127 / 2 + 1e-6);
  for (std::size_t i = 132 + 4 + 72; i < stored.size(); ++i) EXPECT_EQ(std::to_integer<int>(stored[i]), 0);
}

TEST(Linear, GoldenDigest) {
  Sha256 hash;
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kI8G128}) {
    for (const Topology topology : {Topology::kFold, Topology::kTree}) {
      for (const Profile profile : {Profile::kF32Fma, Profile::kInt8Dot, Profile::kBf16Tc}) {
        for (std::uint32_t n = 0; n < 8; ++n) {
          hash.UpdateU64(BitsOf(LinearElement(profile, topology, dtype, QuantRow(dtype, 576, n), Values(20 + n, 576))));
        }
      }
    }
  }
  EXPECT_EQ(HexString(hash.Finish()), "f0f9bc28b482973090b8beb735d3d9813da84e96e3575886ab7db208ab8c4121");
}

}  // namespace
}  // namespace isobit::contract
