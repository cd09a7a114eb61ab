#include "contract/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "contract/elementary.h"
#include "contract/float_bits.h"
#include "contract/tensor_core.h"
#include "contract/weight_formats.h"

namespace isobit::contract {
namespace {

// One chain: sum over i of a[i] * b[i] by the profile, from +0.
float Chain(Profile profile, std::span<const float> a, std::span<const float> b) {
  if (profile == Profile::kF32Fma) {
    float acc = 0.0f;
    for (std::size_t i = 0; i < a.size(); ++i) acc = std::fma(a[i], b[i], acc);
    return acc;
  }
  std::vector<std::uint16_t> a16, b16;
  for (const float value : a) a16.push_back(Bf16FromF32(value));
  for (const float value : b) b16.push_back(Bf16FromF32(value));
  return TensorCoreChain(0.0f, a16, b16);
}

struct TileResult {
  float max, sum;
  std::vector<float> output;  // [head_dim]
};

TileResult AttendTile(Profile profile, std::span<const float> query, std::span<const std::vector<float>> keys,
                      std::span<const std::vector<float>> values, std::int64_t tile_begin, std::int64_t live_begin,
                      std::int64_t live_end) {
  const float scale = AttentionScale(static_cast<std::int64_t>(query.size()));
  std::array<float, kKvTile> p{};
  float max = 0.0f;
  for (std::int64_t j = live_begin; j < live_end; ++j) {
    const float score = Chain(profile, keys[j], query) * scale;
    p[j - tile_begin] = score;
    max = j == live_begin ? score : std::max(max, score);
  }
  for (std::int64_t j = live_begin; j < live_end; ++j) {
    const float weight = Exp(p[j - tile_begin] - max);
    p[j - tile_begin] = profile == Profile::kBf16Tc ? RoundToBf16(weight) : weight;
  }

  TileResult result{.max = max, .output = std::vector<float>(query.size())};
  // bf16-tc: k16 blocks are cut from the tile's start, so absent positions before live_begin stay in as zeros.
  const std::int64_t chain_begin = profile == Profile::kBf16Tc ? tile_begin : live_begin;
  const std::span<const float> live_p(p.data() + (chain_begin - tile_begin), live_end - chain_begin);
  std::vector<float> column(live_end - chain_begin);
  for (std::size_t d = 0; d < query.size(); ++d) {
    for (std::int64_t j = chain_begin; j < live_end; ++j) column[j - chain_begin] = j < live_begin ? 0.0f : values[j][d];
    result.output[d] = Chain(profile, live_p, column);
  }

  for (int h = kKvTile / 2; h >= 1; h /= 2) {
    for (int i = 0; i < h; ++i) p[i] = p[i] + p[i + h];
  }
  result.sum = p[0];
  return result;
}

}  // namespace

float AttentionScale(std::int64_t head_dim) { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

std::vector<float> StoreAndLoad(KvType type, std::span<const float> head) {
  std::vector<float> loaded(head.begin(), head.end());
  switch (type) {
    case KvType::kF32: break;
    case KvType::kF16:
      for (float& value : loaded) value = F32FromF16(F16FromF32(value));
      break;
    case KvType::kBf16:
      for (float& value : loaded) value = RoundToBf16(value);
      break;
    case KvType::kInt8: {
      std::vector<std::int8_t> q(head.size());
      const QuantizedGroup group = QuantizeGroup(head, q.data());
      for (std::size_t i = 0; i < q.size(); ++i) loaded[i] = static_cast<float>(q[i]) * group.scale;
      break;
    }
  }
  return loaded;
}

std::vector<float> AttentionHead(Profile profile, std::span<const float> query, std::span<const std::vector<float>> keys,
                                 std::span<const std::vector<float>> values, std::int64_t position, std::int64_t window) {
  ISOBIT_CHECK(profile == Profile::kF32Fma || profile == Profile::kBf16Tc);
  ISOBIT_CHECK(static_cast<std::int64_t>(keys.size()) > position && values.size() == keys.size());
  const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, position - window + 1), end = position + 1;
  TileResult total;
  bool any = false;
  for (std::int64_t tile = first / kKvTile * kKvTile; tile < end; tile += kKvTile) {
    TileResult part = AttendTile(profile, query, keys, values, tile, std::max(tile, first), std::min(tile + kKvTile, end));
    if (!any) {
      total = std::move(part);
      any = true;
      continue;
    }
    const float max = std::max(total.max, part.max);
    const float a = Exp(total.max - max), b = Exp(part.max - max);
    total.sum = std::fma(total.sum, a, part.sum * b);
    for (std::size_t d = 0; d < query.size(); ++d) total.output[d] = std::fma(total.output[d], a, part.output[d] * b);
    total.max = max;
  }
  for (float& value : total.output) value = value / total.sum;
  return total.output;
}

}  // namespace isobit::contract
