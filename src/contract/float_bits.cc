#include "contract/float_bits.h"

namespace isobit::contract {

std::uint16_t F16FromF32(float value) {
  const std::uint32_t bits = BitsOf(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;  // 65520 rounds past the largest finite
  if (magnitude < 0x38800000u) {
    // Below 2^-14: a multiple of 2^-24, found by exact shifts with round to nearest even.
    const int exponent = static_cast<int>(magnitude >> 23);
    if (exponent < 102) return sign;  // below 2^-25
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const int shift = 126 - exponent;  // 14 .. 24
    const std::uint32_t kept = significand >> shift, rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
    return static_cast<std::uint16_t>(sign + kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float F32FromF16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
  if (exponent == 31) return FloatOf(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return FloatOf(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // exact
  return FloatOf(sign | BitsOf(magnitude));
}

}  // namespace isobit::contract
