#include "contract/tensor_core.h"

#include <algorithm>

#include "base/check.h"
#include "contract/contract.h"
#include "contract/float_bits.h"

namespace isobit::contract {
namespace {

// value = sign * significand * 2^(exponent - fraction_bits); significand 0 means zero.
struct Unpacked {
  std::int64_t significand;
  int exponent;
  bool negative;
};

Unpacked UnpackBf16(std::uint16_t bits) {
  const int biased = (bits >> 7) & 255;
  const std::int64_t fraction = bits & 127;
  return {biased == 0 ? fraction : fraction | 128, biased == 0 ? -126 : biased - 127, (bits & 0x8000) != 0};
}

Unpacked UnpackF32(float value) {
  const std::uint32_t bits = BitsOf(value);
  const int biased = static_cast<int>((bits >> 23) & 255);
  const std::int64_t fraction = bits & 0x7fffffu;
  return {biased == 0 ? fraction : fraction | 0x800000, biased == 0 ? -126 : biased - 127, (bits >> 31) != 0};
}

bool IsFiniteBf16(std::uint16_t bits) { return (bits & 0x7f80) != 0x7f80; }
bool IsNanBf16(std::uint16_t bits) { return (bits & 0x7fff) > 0x7f80; }

// The result when a term is infinite or NaN; 0 bits when none is.
std::uint32_t NonFiniteResult(float accumulator, std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
  const std::uint32_t c = BitsOf(accumulator);
  bool nan = (c & 0x7fffffffu) > 0x7f800000u;
  bool infinite[2] = {c == 0x7f800000u, c == 0xff800000u};  // by sign
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (IsFiniteBf16(a[k]) && IsFiniteBf16(b[k])) continue;
    if (IsNanBf16(a[k]) || IsNanBf16(b[k]) || (a[k] & 0x7fff) == 0 || (b[k] & 0x7fff) == 0) nan = true;
    else infinite[(a[k] ^ b[k]) >> 15] = true;
  }
  if (nan || (infinite[0] && infinite[1])) return kStepNan;
  return infinite[0] ? 0x7f800000u : infinite[1] ? 0xff800000u : 0u;
}

// significand * 2^(exponent - fraction_bits), truncated to a multiple of 2^(emax - F), in those units.
std::int64_t Align(std::int64_t significand, int exponent, int fraction_bits, int emax) {
  if (significand == 0) return 0;  // its exponent means nothing and may be above emax
  const int shift = exponent - fraction_bits - (emax - kStepFractionBits);
  if (shift >= 0) return significand << shift;
  return shift < -62 ? 0 : significand >> -shift;
}

// |sum| * 2^unit_exponent rounded toward zero to binary32.
float RoundTowardZero(std::int64_t sum, int unit_exponent) {
  if (sum == 0) return 0.0f;
  const std::uint32_t sign = sum < 0 ? 0x80000000u : 0u;
  auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int top = 63 - __builtin_clzll(magnitude);           // position of the leading bit
  const int exponent = top + unit_exponent;                  // of the value
  if (exponent > 127) return FloatOf(sign | 0x7f800000u);
  const int lowest = std::max(exponent - 23, -149);          // exponent of the last bit kept
  const int drop = lowest - unit_exponent;
  if (drop > 63) return 0.0f;
  magnitude = drop >= 0 ? magnitude >> drop : magnitude << -drop;
  if (magnitude == 0) return 0.0f;
  if (exponent < -126) return FloatOf(sign | static_cast<std::uint32_t>(magnitude));
  return FloatOf(sign | static_cast<std::uint32_t>(exponent + 127) << 23 |
                 (static_cast<std::uint32_t>(magnitude) & 0x7fffffu));
}

}  // namespace

float TensorCoreStep(float accumulator, std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
  ISOBIT_CHECK(a.size() == b.size() && a.size() <= static_cast<std::size_t>(kStepK));
  if (const std::uint32_t result = NonFiniteResult(accumulator, a, b); result != 0) return FloatOf(result);
  Unpacked products[kStepK];
  int emax = kStepMinExponent;
  const std::size_t count = a.size();
  for (std::size_t k = 0; k < count; ++k) {
    const Unpacked x = UnpackBf16(a[k]), y = UnpackBf16(b[k]);
    products[k] = {x.significand * y.significand, x.exponent + y.exponent, x.negative != y.negative};
    if (products[k].significand != 0) emax = std::max(emax, products[k].exponent);
  }
  const Unpacked c = UnpackF32(accumulator);
  if (c.significand != 0) emax = std::max(emax, c.exponent);

  std::int64_t sum = Align(c.significand, c.exponent, 23, emax);
  if (c.negative) sum = -sum;
  for (std::size_t k = 0; k < count; ++k) {
    const std::int64_t term = Align(products[k].significand, products[k].exponent, 14, emax);
    sum += products[k].negative ? -term : term;
  }
  return RoundTowardZero(sum, emax - kStepFractionBits);
}

float TensorCoreChain(float accumulator, std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
  ISOBIT_CHECK(a.size() == b.size());
  for (std::size_t k = 0; k < a.size(); k += kStepK) {
    const std::size_t count = std::min<std::size_t>(kStepK, a.size() - k);
    accumulator = TensorCoreStep(accumulator, a.subspan(k, count), b.subspan(k, count));
  }
  return accumulator;
}

}  // namespace isobit::contract
