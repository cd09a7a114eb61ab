#include "contract/elementary.h"

#include <cmath>
#include <limits>

#include "contract/float_bits.h"

namespace isobit::contract {
namespace {

const float kQuietNan = FloatOf(0x7fc00000u);

// 2^n for -126 <= n <= 127.
float PowerOfTwo(std::int32_t n) { return FloatOf(static_cast<std::uint32_t>(n + 127) << 23); }

}  // namespace

float Exp(float x) {
  if (x != x) return kQuietNan;
  if (x > kExpMax) return std::numeric_limits<float>::infinity();
  if (x < kExpMin) return 0.0f;
  const float n = std::fma(x, kLog2E, kMagic) - kMagic;
  float r = std::fma(n, -kLn2Hi, x);
  r = std::fma(n, -kLn2Lo, r);
  float p = kExpPoly[4];
  for (int i = 3; i >= 0; --i) p = std::fma(p, r, kExpPoly[i]);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  const auto exponent = static_cast<std::int32_t>(n);  // -150 .. 128, exact
  const std::int32_t half = exponent >> 1;
  return p * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

float Log(float x) {
  std::uint32_t bits = BitsOf(x);
  if ((bits & 0x7fffffffu) == 0) return -std::numeric_limits<float>::infinity();
  if (bits == 0x7f800000u) return x;
  if (bits > 0x7f800000u) return kQuietNan;  // negative or NaN
  float scale = 0.0f;
  if (bits < 0x00800000u) {
    bits = BitsOf(x * 0x1p23f);
    scale = -23.0f;
  }
  const std::int32_t exponent = (static_cast<std::int32_t>(bits) - kLogBias) >> 23;
  const float f = FloatOf(bits - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0f;
  float q = kLogPoly[8];
  for (int i = 7; i >= 0; --i) q = std::fma(q, f, kLogPoly[i]);
  float y = std::fma(q, f * f, f);
  const float e = static_cast<float>(exponent) + scale;
  y = std::fma(e, kLn2Lo, y);
  return std::fma(e, kLn2Hi, y);
}

float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

float SiluMul(float gate, float up) { return (gate * Sigmoid(gate)) * up; }

}  // namespace isobit::contract
