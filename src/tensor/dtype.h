// DType: how a tensor's elements are stored. Block formats keep `block_values` consecutive elements of a row in `block_bytes` bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace isobit {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kI8,
  kI32,
  kI64,
  kQ8_0,  // GGUF: f16 d; 32 x int8. value = d * q
  kQ4_0,  // GGUF: f16 d; 16 bytes, low nibbles are elements 0..15. value = d * (q - 8)
  kQ4_1,  // GGUF: f16 d, f16 m; 16 bytes, nibble order as Q4_0. value = d * q + m
  kI8G128,  // isobit's own: f32 d; 128 x int8. value = d * q (contract/weight_formats.h)
};

struct DTypeInfo {
  const char* name;            // "f32", "q4_1", ...
  std::int32_t block_values;   // elements per block; 1 for plain types
  std::int32_t block_bytes;    // bytes per block
};

const DTypeInfo& Info(DType dtype);
inline const char* Name(DType dtype) { return Info(dtype).name; }
inline bool IsQuantized(DType dtype) { return Info(dtype).block_values > 1; }

// Bytes of one row of num_values elements, a multiple of block_values except for I8G128, whose last block may be part padding.
std::int64_t RowBytes(DType dtype, std::int64_t num_values);

}  // namespace isobit
