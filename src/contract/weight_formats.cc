#include "contract/weight_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "contract/float_bits.h"

namespace isobit::contract {
namespace {

template <class T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

std::int64_t GroupSize(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1: return 32;
    default: return 128;
  }
}

QuantizedRow UnpackRow(DType dtype, std::span<const std::byte> row, std::int64_t k) {
  ISOBIT_CHECK(IsQuantized(dtype));
  ISOBIT_CHECK(static_cast<std::int64_t>(row.size()) == RowBytes(dtype, k));
  const DTypeInfo& info = Info(dtype);
  QuantizedRow out;
  out.group = GroupSize(dtype);
  out.has_minimum = dtype == DType::kQ4_1;
  out.q.resize(k);
  const std::int64_t num_blocks = (k + info.block_values - 1) / info.block_values;
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    const std::byte* block = row.data() + b * info.block_bytes;
    const std::int64_t first = b * info.block_values;
    const std::int64_t count = std::min<std::int64_t>(info.block_values, k - first);
    std::int8_t* q = out.q.data() + first;
    switch (dtype) {
      case DType::kQ8_0:
        out.scale.push_back(F32FromF16(Load<std::uint16_t>(block)));
        std::memcpy(q, block + 2, count);
        break;
      case DType::kI8G128:
        out.scale.push_back(Load<float>(block));
        std::memcpy(q, block + 4, count);
        break;
      case DType::kQ4_0:
      case DType::kQ4_1: {
        const int offset = dtype == DType::kQ4_0 ? 8 : 0;
        const std::byte* nibbles = block + (dtype == DType::kQ4_0 ? 2 : 4);
        out.scale.push_back(F32FromF16(Load<std::uint16_t>(block)));
        if (dtype == DType::kQ4_1) out.minimum.push_back(F32FromF16(Load<std::uint16_t>(block + 2)));
        for (int j = 0; j < 16; ++j) {
          const int both = std::to_integer<int>(nibbles[j]);
          q[j] = static_cast<std::int8_t>((both & 15) - offset);
          q[j + 16] = static_cast<std::int8_t>((both >> 4) - offset);
        }
        break;
      }
      default: ISOBIT_CHECK(false, "no integers in {}", info.name);
    }
  }
  return out;
}

std::vector<float> DecodeRow(DType dtype, std::span<const std::byte> row, std::int64_t k) {
  ISOBIT_CHECK(static_cast<std::int64_t>(row.size()) == RowBytes(dtype, k));
  std::vector<float> values(k);
  switch (dtype) {
    case DType::kF32: std::memcpy(values.data(), row.data(), k * 4); return values;
    case DType::kF16:
      for (std::int64_t i = 0; i < k; ++i) values[i] = F32FromF16(Load<std::uint16_t>(row.data() + 2 * i));
      return values;
    case DType::kBF16:
      for (std::int64_t i = 0; i < k; ++i) values[i] = F32FromBf16(Load<std::uint16_t>(row.data() + 2 * i));
      return values;
    default: break;
  }
  const QuantizedRow unpacked = UnpackRow(dtype, row, k);
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t g = i / unpacked.group;
    const auto q = static_cast<float>(unpacked.q[i]);
    values[i] = unpacked.has_minimum ? std::fma(unpacked.scale[g], q, unpacked.minimum[g]) : unpacked.scale[g] * q;
  }
  return values;
}

QuantizedGroup QuantizeGroup(std::span<const float> x, std::int8_t* q) {
  std::uint32_t amax_bits = 0;
  for (const float value : x) amax_bits = std::max(amax_bits, BitsOf(value) & 0x7fffffffu);
  const float amax = FloatOf(amax_bits);
  if (amax_bits >= 0x7f800000u || amax < 0x1p-100f) {
    std::fill_n(q, x.size(), std::int8_t{0});
    return {amax_bits >= 0x7f800000u ? FloatOf(0x7fc00000u) : 0.0f, 0};
  }
  const float inverse = 127.0f / amax;
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    // |x * inverse| <= 127.00002, so adding 1.5 * 2^23 rounds to the nearest integer, ties to even.
    const float rounded = (x[i] * inverse + 0x1.8p23f) - 0x1.8p23f;
    const float clamped = std::min(std::max(rounded, -127.0f), 127.0f);
    q[i] = static_cast<std::int8_t>(clamped);
    sum += q[i];
  }
  return {amax / 127.0f, sum};
}

std::vector<std::byte> QuantizeRowI8G128(std::span<const float> row) {
  const auto k = static_cast<std::int64_t>(row.size());
  const std::int64_t block_bytes = Info(DType::kI8G128).block_bytes;
  std::vector<std::byte> out(RowBytes(DType::kI8G128, k));
  for (std::int64_t first = 0; first < k; first += 128) {
    std::int8_t q[128] = {};
    const QuantizedGroup group = QuantizeGroup(row.subspan(first, std::min<std::int64_t>(128, k - first)), q);
    std::byte* block = out.data() + first / 128 * block_bytes;
    std::memcpy(block, &group.scale, 4);
    std::memcpy(block + 4, q, 128);
  }
  return out;
}

}  // namespace isobit::contract
