// Float formats of the law: bit casts and the roundings between binary32, bfloat16 and binary16. All round to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace isobit::contract {

inline std::uint32_t BitsOf(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float FloatOf(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// NaN becomes the quiet NaN 0x7fc0; a value past the largest finite becomes infinity.
inline std::uint16_t Bf16FromF32(float value) {
  const std::uint32_t bits = BitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float F32FromBf16(std::uint16_t bits) { return FloatOf(std::uint32_t{bits} << 16); }
inline float RoundToBf16(float value) { return F32FromBf16(Bf16FromF32(value)); }

// NaN becomes the quiet NaN 0x7e00; 65520 and above become infinity; subnormals are kept.
std::uint16_t F16FromF32(float value);
float F32FromF16(std::uint16_t bits);

inline bool IsFinite(float value) { return (BitsOf(value) & 0x7f800000u) != 0x7f800000u; }

}  // namespace isobit::contract
