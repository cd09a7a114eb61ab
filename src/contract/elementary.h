// Elementary functions of the law: fixed polynomials over fma, the same on every backend. No libm.
//
// Exp(x): x clamped into [kExpMin, kExpMax]; t = fma(x, kLog2E, kMagic); n = t - kMagic (so n = x * log2 e rounded to an integer);
//   r = fma(n, -kLn2Hi, x); r = fma(n, -kLn2Lo, r);
//   p = Horner of kExpPoly by fma from the last coefficient down to the first; p = fma(p, r, 1); p = fma(p, r, 1);
//   (that is 1 + r + r^2 q(r)); result = (p * 2^h) * 2^(n - h), h = floor(n / 2): two multiplications, so a subnormal is
//   rounded once. Above kExpMax: +infinity. Below kExpMin: +0. NaN stays NaN (0x7fc00000).
// Log(x): x subnormal: x * 2^23 first. i = bits(x) - kLogBias as int32; e = i >> 23 (arithmetic); m = float(bits(x) - (e << 23)), in
//   [2/3, 4/3); f = m - 1; q = Horner of kLogPoly by fma; y = fma(q, f * f, f); e as f32 (less 23 if it was subnormal);
//   y = fma(e, kLn2Lo, y); result = fma(e, kLn2Hi, y). Log(+-0) = -infinity, Log(+infinity) = +infinity, negative or NaN: NaN.
// Sigmoid(x) = 1 / (1 + Exp(-x)). SiluMul(g, u) = (g * Sigmoid(g)) * u, each operation rounded once, division IEEE.
#pragma once

#include <cstdint>

namespace isobit::contract {

inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2Hi = 0x1.62e430p-1f;
inline constexpr float kLn2Lo = -0x1.05c610p-29f;
inline constexpr float kMagic = 0x1.8p+23f;          // adding it rounds to an integer, ties to even
inline constexpr float kExpMax = 0x1.62e42ep+6f;     // 88.72283: the largest f32 whose exponential is finite
inline constexpr float kExpMin = -0x1.9fe368p+6f;    // -103.97208: below it the exponential rounds to 0
// q(r) of e^r = 1 + r + r^2 q(r), |r| <= ln2 / 2; relative error before rounding 0.12 * 2^-24.
inline constexpr float kExpPoly[5] = {0x1.000000p-1f, 0x1.5554b6p-3f, 0x1.5554f2p-5f, 0x1.1223fap-7f, 0x1.6d4118p-10f};
inline constexpr std::int32_t kLogBias = 0x3f2aaaab;  // bits of 2/3
// q(f) of log(1 + f) = f + f^2 q(f), -1/3 <= f < 1/3; relative error before rounding 0.08 * 2^-24.
inline constexpr float kLogPoly[9] = {-0x1.000000p-1f, 0x1.555506p-2f,  -0x1.ffff10p-3f, 0x1.99d03ep-3f, -0x1.5598cap-3f,
                                      0x1.1ed70ap-3f,  -0x1.f390f0p-4f, 0x1.1e636ep-3f,  -0x1.07019ep-3f};

float Exp(float x);
float Log(float x);
float Sigmoid(float x);
float SiluMul(float gate, float up);

}  // namespace isobit::contract
