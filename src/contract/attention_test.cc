#include "contract/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "base/sha256.h"
#include "contract/elementary.h"
#include "contract/float_bits.h"
#include "contract/norm.h"

namespace isobit::contract {
namespace {

std::vector<float> Values(std::uint32_t seed, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(Philox4x32({static_cast<std::uint32_t>(i), 2, 0, 0}, {seed, 0})[0] >> 8) * 0x1p-23f - 1.0f;
  }
  return values;
}

struct Sequence {
  std::vector<std::vector<float>> keys, values;
};

Sequence MakeSequence(KvType type, std::int64_t length, std::int64_t head_dim) {
  Sequence sequence;
  for (std::int64_t j = 0; j < length; ++j) {
    sequence.keys.push_back(StoreAndLoad(type, Values(100 + j, head_dim)));
    sequence.values.push_back(StoreAndLoad(type, Values(9000 + j, head_dim)));
  }
  return sequence;
}

std::vector<double> Exact(std::span<const float> query, const Sequence& sequence, std::int64_t first, std::int64_t last) {
  std::vector<double> scores, output(query.size());
  double max = -1e300, sum = 0;
  for (std::int64_t j = first; j <= last; ++j) {
    double score = 0;
    for (std::size_t d = 0; d < query.size(); ++d) score += static_cast<double>(query[d]) * sequence.keys[j][d];
    scores.push_back(score / std::sqrt(static_cast<double>(query.size())));
    max = std::max(max, scores.back());
  }
  for (double& score : scores) sum += score = std::exp(score - max);
  for (std::int64_t j = first; j <= last; ++j) {
    for (std::size_t d = 0; d < query.size(); ++d) output[d] += scores[j - first] / sum * sequence.values[j][d];
  }
  return output;
}

TEST(Attention, IsCloseToFloat64AtTileEdges) {
  const std::int64_t head_dim = 32;
  const auto query = Values(1, head_dim);
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBf16, KvType::kInt8}) {
    const Sequence sequence = MakeSequence(type, 300, head_dim);
    for (const std::int64_t position : {0, 1, 15, 16, 126, 127, 128, 129, 255, 256, 299}) {
      for (const std::int64_t window : {0, 1, 100, 130}) {
        const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, position - window + 1);
        const auto exact = Exact(query, sequence, first, position);
        const auto f32 = AttentionHead(Profile::kF32Fma, query, sequence.keys, sequence.values, position, window);
        const auto bf16 = AttentionHead(Profile::kBf16Tc, query, sequence.keys, sequence.values, position, window);
        for (std::int64_t d = 0; d < head_dim; ++d) {
          EXPECT_NEAR(f32[d], exact[d], 2e-6) << position << " " << window;
          EXPECT_NEAR(bf16[d], exact[d], 2e-2) << position << " " << window;
        }
      }
    }
  }
}

TEST(Attention, OnePositionReturnsItsValue) {
  const Sequence sequence = MakeSequence(KvType::kF32, 1, 16);
  EXPECT_EQ(AttentionHead(Profile::kF32Fma, Values(2, 16), sequence.keys, sequence.values, 0), sequence.values[0]);
}

TEST(Attention, EarlierTilesAreNotRegroupedByTheQuery) {
  // The fold over tiles by hand, for two tiles.
  const std::int64_t head_dim = 16;
  const auto query = Values(3, head_dim);
  const Sequence sequence = MakeSequence(KvType::kBf16, 200, head_dim);
  float max[2], sum[2];
  std::vector<float> out[2];
  for (int tile = 0; tile < 2; ++tile) {
    const std::int64_t begin = tile * 128, end = tile == 0 ? 128 : 200;
    float p[128] = {};
    for (std::int64_t j = begin; j < end; ++j) {
      float acc = 0;
      for (std::int64_t d = 0; d < head_dim; ++d) acc = std::fma(sequence.keys[j][d], query[d], acc);
      p[j - begin] = acc * AttentionScale(head_dim);
      max[tile] = j == begin ? p[0] : std::max(max[tile], p[j - begin]);
    }
    out[tile].assign(head_dim, 0.0f);
    for (std::int64_t j = begin; j < end; ++j) {
      p[j - begin] = Exp(p[j - begin] - max[tile]);
      for (std::int64_t d = 0; d < head_dim; ++d) out[tile][d] = std::fma(p[j - begin], sequence.values[j][d], out[tile][d]);
    }
    for (int h = 64; h >= 1; h /= 2) {
      for (int i = 0; i < h; ++i) p[i] += p[i + h];
    }
    sum[tile] = p[0];
  }
  const float m = std::max(max[0], max[1]), a = Exp(max[0] - m), b = Exp(max[1] - m);
  const auto result = AttentionHead(Profile::kF32Fma, query, sequence.keys, sequence.values, 199);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    const float expected = std::fma(out[0][d], a, out[1][d] * b) / std::fma(sum[0], a, sum[1] * b);
    EXPECT_EQ(BitsOf(result[d]), BitsOf(expected));
  }
}

TEST(Attention, Int8KvIsOneScalePerHead) {
  const auto head = Values(4, 32);
  const auto stored = StoreAndLoad(KvType::kInt8, head);
  for (std::size_t i = 0; i < head.size(); ++i) EXPECT_NEAR(stored[i], head[i], 1.0 / 127 / 2 + 1e-6);
}

TEST(Attention, GoldenDigest) {
  Sha256 hash;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBf16, KvType::kInt8}) {
    const Sequence sequence = MakeSequence(type, 270, 32);
    for (const Profile profile : {Profile::kF32Fma, Profile::kBf16Tc}) {
      for (const float value : AttentionHead(profile, Values(5, 32), sequence.keys, sequence.values, 269)) {
        hash.UpdateU64(BitsOf(value));
      }
    }
  }
  EXPECT_EQ(HexString(hash.Finish()), "4800f2a1c70ad7f8ee3c0503ddaf768137f3b8b3090579e47724c54fbb4ef3b3");
}

TEST(Norm, RmsNormUsesStridedLanes) {
  const auto x = Values(6, 700), w = Values(7, 700);
  const auto y = RmsNorm(x, w, 1e-5f);
  float lanes[256] = {};
  for (int k = 0; k < 700; ++k) lanes[k % 256] = std::fma(x[k], x[k], lanes[k % 256]);
  for (int h = 128; h >= 1; h /= 2) {
    for (int i = 0; i < h; ++i) lanes[i] = lanes[i] + lanes[i + h];
  }
  const float r = 1.0f / std::sqrt(lanes[0] / 700.0f + 1e-5f);
  for (int k = 0; k < 700; ++k) EXPECT_EQ(BitsOf(y[k]), BitsOf((x[k] * r) * w[k]));
}

TEST(Norm, LogSumExpIsCloseToFloat64) {
  for (const std::size_t size : {1u, 5u, 8u, 511u, 49152u}) {
    auto logits = Values(8, size);
    for (float& value : logits) value *= 20;
    const LogSumExp result = ComputeLogSumExp(logits);
    double sum = 0;
    for (const float value : logits) sum += std::exp(static_cast<double>(value));
    EXPECT_NEAR(result.max + result.log_sum, std::log(sum), 1e-5) << size;
    double total = 0;
    for (const float value : logits) total += std::exp(static_cast<double>(result.LogProb(value)));
    EXPECT_NEAR(total, 1.0, 1e-5);
  }
}

}  // namespace
}  // namespace isobit::contract
