// GGUF's numbers and our limits on them, shared by the reader and the builder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace isobit {

enum class GgufValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// A tensor type of ggml: its number in the file, its name, and the DType if isobit reads it.
struct GgmlType {
  std::uint32_t number;
  const char* name;
  std::optional<DType> dtype;
};

// nullptr for a number that ggml has never given out.
const GgmlType* FindGgmlType(std::uint32_t number);
// nullptr for a DType without a ggml number.
const GgmlType* FindGgmlType(DType dtype);

// Limits. The format states the first two; the others are ours, far above any model known, and
// bound the memory that a hostile header of n bytes can make us allocate to about 16 n (an array of
// bytes becomes one Json value each), 256 MB at most.
inline constexpr std::uint64_t kMaxGgufKeyBytes = 65535;
inline constexpr std::uint64_t kMaxGgufTensorNameBytes = 64;
inline constexpr std::uint64_t kMaxGgufKeys = 4096;      // real files have under 100
inline constexpr std::uint64_t kMaxGgufTensors = 65536;  // the largest model known has about 1,100
inline constexpr std::uint64_t kMaxGgufStringBytes = 16 << 20;  // chat templates are under 100 KB
inline constexpr std::uint64_t kMaxGgufArrayElements =
    16 << 20;  // all arrays of a file together; vocabularies are under 300,000
inline constexpr int kMaxGgufArrayDepth = 4;
inline constexpr std::uint64_t kDefaultGgufAlignment = 32;
inline constexpr std::uint64_t kMaxGgufAlignment = 1 << 20;

}  // namespace isobit
