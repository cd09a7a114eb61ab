#include "inputs.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/random.h"
#include "contract/float_bits.h"

namespace isobit::conformance {
namespace {

using contract::FloatOf;

struct Words {
  std::uint32_t w[4];
};
Words WordsOf(std::uint64_t seed, std::int64_t index) {
  const auto i = static_cast<std::uint64_t>(index);
  const auto words = Philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 7, 0},
                                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return {{words[0], words[1], words[2], words[3]}};
}

// About N(0, 1): the sum of four uniforms, centred and scaled.
float NormalFloat(const Words& r) {
  double sum = 0;
  for (const std::uint32_t word : r.w) sum += word * 0x1p-32;
  return static_cast<float>((sum - 2.0) * 1.7320508);
}

float WithExponent(const Words& r, int lowest, int highest) {
  const int exponent = lowest + static_cast<int>(r.w[0] % static_cast<std::uint32_t>(highest - lowest + 1));
  return FloatOf((r.w[1] & 0x80000000u) | static_cast<std::uint32_t>(exponent + 127) << 23 | (r.w[2] & 0x7fffffu));
}

float Value(Data data, std::int64_t i, std::uint64_t seed) {
  const Words r = WordsOf(seed, i);
  switch (data) {
    case Data::kNormal: return NormalFloat(r) * (r.w[3] % 97 == 0 ? 50.0f : 1.0f);
    case Data::kWide: return WithExponent(r, -40, 40);
    case Data::kExtreme: return WithExponent(r, -126, 127);
    case Data::kSubnormal:
      if (r.w[0] % 4 == 0) return FloatOf(r.w[1] & 0x80000000u);
      if (r.w[0] % 4 == 1) return WithExponent(r, -126, -60);
      return FloatOf(r.w[1] & 0x807fffffu);
    case Data::kCancelling: {
      // Neighbours are a and -a, off by a little in every fourth pair.
      const Words pair = WordsOf(seed, i / 2);
      const float a = NormalFloat(pair) * 8.0f;
      return i % 2 == 0 ? a : (i % 8 == 1 ? -a * 1.0078125f : -a);
    }
    case Data::kSaturated: return FloatOf(0x3f800000u | 0x7f0000u | (r.w[0] & 0x7fffu));
    case Data::kSparse: return r.w[0] % 5 != 0 ? FloatOf(r.w[1] & 0x80000000u) : NormalFloat(r);
    case Data::kNonFinite:
      if (r.w[3] % 61 == 0) return FloatOf(0x7fc00000u);
      if (r.w[3] % 61 == 1) return FloatOf(0x7f800000u | (r.w[2] & 0x80000000u));
      return NormalFloat(r);
  }
  ISOBIT_CHECK(false);
}

void Append(std::vector<std::byte>& out, const void* from, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(from);
  out.insert(out.end(), bytes, bytes + size);
}

TensorView Own(DType dtype, Shape shape, std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {.name = std::string("test.") + Name(dtype), .dtype = dtype, .shape = std::move(shape), .data = *owner, .keep_alive = owner};
}

}  // namespace

const char* Name(Data data) {
  switch (data) {
    case Data::kNormal: return "normal";
    case Data::kWide: return "wide";
    case Data::kExtreme: return "extreme";
    case Data::kSubnormal: return "subnormal";
    case Data::kCancelling: return "cancelling";
    case Data::kSaturated: return "saturated";
    case Data::kSparse: return "sparse";
    case Data::kNonFinite: return "nonfinite";
  }
  return "?";
}

std::vector<float> Floats(Data data, std::int64_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[i] = Value(data, i, seed);
  return values;
}

TensorView FloatTensor(DType dtype, Shape shape, const std::vector<float>& values) {
  std::vector<std::byte> bytes;
  for (const float value : values) {
    const std::uint16_t half = dtype == DType::kF16 ? contract::F16FromF32(value) : contract::Bf16FromF32(value);
    if (dtype == DType::kF32) Append(bytes, &value, 4);
    else Append(bytes, &half, 2);
  }
  return Own(dtype, std::move(shape), std::move(bytes));
}

TensorView Weight(DType dtype, std::int64_t n, std::int64_t k, Data data, std::uint64_t seed) {
  if (!IsQuantized(dtype)) {
    std::vector<float> values = Floats(data, n * k, seed);
    // Weights are smaller than activations; only ordinary data is scaled, the edges of the others are the point.
    if (data == Data::kNormal) {
      for (float& value : values) value *= 0.05f;
    }
    return FloatTensor(dtype, {n, k}, values);
  }
  const DTypeInfo& info = Info(dtype);
  const std::int64_t blocks = (k + info.block_values - 1) / info.block_values;
  std::vector<std::byte> bytes;
  for (std::int64_t block = 0; block < n * blocks; ++block) {
    const Words r = WordsOf(seed ^ 0x5eed, block);
    const float d = NormalFloat(r) * 0.01f, m = -8.0f * d;
    const std::uint16_t d16 = contract::F16FromF32(d), m16 = contract::F16FromF32(m);
    if (dtype == DType::kI8G128) Append(bytes, &d, 4);
    else Append(bytes, &d16, 2);
    if (dtype == DType::kQ4_1) Append(bytes, &m16, 2);
    const std::int64_t left = info.block_bytes - (dtype == DType::kI8G128 || dtype == DType::kQ4_1 ? 4 : 2);
    for (std::int64_t i = 0; i < left; i += 4) {
      const Words q = WordsOf(seed ^ 0x9a17, block * 64 + i);
      std::uint32_t word = q.w[0];
      if (q.w[1] % 16 == 0) word = 0x80808080u;  // the lowest int8, which only stored weights can hold
      if (q.w[1] % 16 == 1) word = 0xffffffffu;
      Append(bytes, &word, static_cast<std::size_t>(std::min<std::int64_t>(4, left - i)));
    }
    // I8G128's last block may be part padding: zeros by its format.
    if (dtype == DType::kI8G128 && block % blocks == blocks - 1) {
      const std::int64_t padding = blocks * 128 - k;
      std::memset(bytes.data() + bytes.size() - padding, 0, padding);
    }
  }
  return Own(dtype, {n, k}, std::move(bytes));
}

}  // namespace isobit::conformance
