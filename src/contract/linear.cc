#include "contract/linear.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "contract/float_bits.h"
#include "contract/tensor_core.h"
#include "contract/weight_formats.h"

namespace isobit::contract {
namespace {

// An activation row, rounded once to the operand type of its profile.
struct Operand {
  std::span<const float> f32;
  std::vector<std::uint16_t> bf16;
  std::vector<std::int8_t> q;
  std::vector<float> scale;         // [groups]
  std::vector<std::int32_t> q_sum;  // [groups]
};

Operand MakeOperand(Profile profile, std::int64_t group, std::span<const float> x) {
  Operand operand{.f32 = x};
  if (profile == Profile::kBf16Tc) {
    for (const float value : x) operand.bf16.push_back(Bf16FromF32(value));
  } else if (profile == Profile::kInt8Dot) {
    operand.q.resize(x.size());
    for (std::size_t first = 0; first < x.size(); first += group) {
      const std::size_t count = std::min<std::size_t>(group, x.size() - first);
      const QuantizedGroup quantized = QuantizeGroup(x.subspan(first, count), operand.q.data() + first);
      operand.scale.push_back(quantized.scale);
      operand.q_sum.push_back(quantized.sum);
    }
  }
  return operand;
}

float ChunkF32Fma(std::span<const float> w, const Operand& x, KRange range) {
  float acc = 0.0f;
  for (std::int64_t k = range.begin; k < range.end; ++k) acc = std::fma(w[k], x.f32[k], acc);
  return acc;
}

float ChunkBf16Tc(std::span<const float> w, const Operand& x, KRange range) {
  std::vector<std::uint16_t> rounded;
  for (std::int64_t k = range.begin; k < range.end; ++k) rounded.push_back(Bf16FromF32(w[k]));
  return TensorCoreChain(0.0f, rounded, std::span(x.bf16).subspan(range.begin, range.end - range.begin));
}

float ChunkInt8Dot(const QuantizedRow& w, const Operand& x, KRange range) {
  float acc = 0.0f;
  for (std::int64_t begin = range.begin; begin < range.end; begin += w.group) {
    ISOBIT_CHECK(begin % w.group == 0);  // ranges are cut on granules and chunks on multiples of every group
    const std::int64_t end = std::min(begin + w.group, range.end), g = begin / w.group;
    std::int32_t isum = 0;
    for (std::int64_t k = begin; k < end; ++k) isum += std::int32_t{w.q[k]} * x.q[k];
    const float scale = w.scale[g] * x.scale[g];
    acc = begin == range.begin ? static_cast<float>(isum) * scale : std::fma(static_cast<float>(isum), scale, acc);
    if (w.has_minimum) acc = std::fma(static_cast<float>(x.q_sum[g]), w.minimum[g] * x.scale[g], acc);
  }
  return acc;
}

float Element(Profile profile, Topology topology, DType dtype, std::span<const std::byte> row, const Operand& x) {
  const auto k = static_cast<std::int64_t>(x.f32.size());
  const std::vector<KRange> ranges = CutK(topology, k, profile == Profile::kInt8Dot ? GroupSize(dtype) : 1);
  std::vector<float> sums(ranges.size(), 0.0f);
  if (profile == Profile::kInt8Dot) {
    std::vector<std::byte> requantized;
    if (!IsQuantized(dtype)) {
      requantized = QuantizeRowI8G128(DecodeRow(dtype, row, k));
      row = requantized;
      dtype = DType::kI8G128;
    }
    const QuantizedRow w = UnpackRow(dtype, row, k);
    for (std::size_t i = 0; i < ranges.size(); ++i) sums[i] = ChunkInt8Dot(w, x, ranges[i]);
  } else {
    const std::vector<float> w = DecodeRow(dtype, row, k);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      sums[i] = profile == Profile::kF32Fma ? ChunkF32Fma(w, x, ranges[i]) : ChunkBf16Tc(w, x, ranges[i]);
    }
  }
  return JoinChunks(topology, ranges, sums);
}

}  // namespace

const char* Name(Topology topology) { return topology == Topology::kFold ? "fold" : "tree"; }

std::vector<KRange> CutK(Topology topology, std::int64_t k, std::int64_t group) {
  ISOBIT_CHECK(k > 0 && group > 0 && kChunk % group == 0);
  std::vector<KRange> ranges;
  if (topology == Topology::kFold) {
    for (std::int64_t begin = 0; begin < k; begin += kChunk) ranges.push_back({begin, std::min(begin + kChunk, k)});
    return ranges;
  }
  const std::int64_t granule = std::lcm(kStepK, group), num_granules = (k + granule - 1) / granule;
  for (int i = 0; i < kSegments; ++i) {
    ranges.push_back({std::min(i * num_granules / kSegments * granule, k),
                      std::min((i + 1) * num_granules / kSegments * granule, k)});
  }
  return ranges;
}

float JoinChunks(Topology topology, std::span<const KRange> ranges, std::span<const float> sums) {
  ISOBIT_CHECK(ranges.size() == sums.size() && !sums.empty());
  if (topology == Topology::kFold) {
    float acc = sums[0];
    for (std::size_t i = 1; i < sums.size(); ++i) acc = acc + sums[i];
    return acc;
  }
  struct Partial {
    float sum;
    bool present;
  };
  Partial level[kSegments];
  for (int i = 0; i < kSegments; ++i) level[i] = {sums[i], !ranges[i].empty()};
  for (int width = kSegments / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) {
      const Partial a = level[2 * i], b = level[2 * i + 1];
      level[i] = !b.present ? a : !a.present ? b : Partial{a.sum + b.sum, true};
    }
  }
  return level[0].sum;
}

float LinearElement(Profile profile, Topology topology, DType dtype, std::span<const std::byte> row, std::span<const float> x) {
  return Element(profile, topology, dtype, row, MakeOperand(profile, GroupSize(dtype), x));
}

std::vector<float> Linear(Profile profile, Topology topology, DType dtype, std::span<const std::byte> weight, std::int64_t n,
                          std::span<const float> x, std::span<const float> bias) {
  const std::int64_t row_bytes = RowBytes(dtype, static_cast<std::int64_t>(x.size()));
  ISOBIT_CHECK(static_cast<std::int64_t>(weight.size()) == n * row_bytes);
  ISOBIT_CHECK(bias.empty() || static_cast<std::int64_t>(bias.size()) == n);
  const Operand operand = MakeOperand(profile, GroupSize(dtype), x);
  std::vector<float> y(n);
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = Element(profile, topology, dtype, weight.subspan(i * row_bytes, row_bytes), operand);
    if (!bias.empty()) y[i] = y[i] + bias[i];
  }
  return y;
}

}  // namespace isobit::contract
