// What a stored weight row means: its float values, and its integers per group. One fma per value; nothing is requantised except
// float weights under the tensor-core-int8 preset, by QuantizeRowI8G128.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace isobit::contract {

// The float values of a row of k elements: plain types widened exactly; Q8_0, I8G128: d * q; Q4_0: d * (q - 8); Q4_1: fma(d, q, m),
// where d and m are the block's f16 widened to f32. Every value is one f32 rounding.
std::vector<float> DecodeRow(DType dtype, std::span<const std::byte> row, std::int64_t k);

// The integers of a row under int8-dot. Group g covers k in [g * group, min((g + 1) * group, K)).
struct QuantizedRow {
  std::int64_t group = 32;       // 32 (GGUF formats) or 128 (I8G128)
  bool has_minimum = false;      // Q4_1
  std::vector<std::int8_t> q;    // [k]; Q4_0 has its offset of 8 taken off
  std::vector<float> scale;      // [groups] d
  std::vector<float> minimum;    // [groups] m, if has_minimum
};
QuantizedRow UnpackRow(DType dtype, std::span<const std::byte> row, std::int64_t k);

// The quantiser of the law, for activations (one group of one token) and for float weights alike:
// amax = largest |x| (compared as integers); a non-finite amax gives scale NaN; amax below 2^-100 gives scale +0 and q = 0;
// scale = amax / 127, inverse = 127 / amax (IEEE divisions), q = x * inverse (one rounding) rounded to the nearest integer, ties to
// even, clamped to [-127, 127].
struct QuantizedGroup {
  float scale;
  std::int32_t sum;  // of q: what a format with minima multiplies
};
QuantizedGroup QuantizeGroup(std::span<const float> x, std::int8_t* q);

// A float row as isobit's own int8 group-128 format: blocks of {f32 d; int8 q[128]}, the last padded with zeros.
std::vector<std::byte> QuantizeRowI8G128(std::span<const float> row);

// Elements per group under int8-dot: 32 for GGUF's block formats, 128 for float and I8G128 weights.
std::int64_t GroupSize(DType dtype);

}  // namespace isobit::contract
