// Element and row kernels: Exp, SiluMul, RMSNorm, RoPE, residual addition, and the roundings of activations. Bound: memory.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend_cpu/kernels.h"
#include "contract/elementary.h"

namespace isobit::cpu {
namespace {

// contract::Exp of sixteen lanes.
template <class V>
typename V::F Exp(typename V::F x) {
  using F = typename V::F;
  using I = typename V::I;
  const F kMax = V::Set(contract::kExpMax), kMin = V::Set(contract::kExpMin);
  // Min and Max give their second operand for NaN: a finite stand-in, replaced below.
  const F inside = V::Max(V::Min(x, kMax), kMin);
  const F n = V::Sub(V::Fma(inside, V::Set(contract::kLog2E), V::Set(contract::kMagic)), V::Set(contract::kMagic));
  F r = V::Fma(n, V::Set(-contract::kLn2Hi), inside);
  r = V::Fma(n, V::Set(-contract::kLn2Lo), r);
  F p = V::Set(contract::kExpPoly[4]);
#pragma GCC unroll 4
  for (int i = 3; i >= 0; --i) p = V::Fma(p, r, V::Set(contract::kExpPoly[i]));
  p = V::Fma(p, r, V::Set(1.0f));
  p = V::Fma(p, r, V::Set(1.0f));
  const I exponent = V::Truncate(n), half = V::template Sra<1>(exponent), bias = V::SetI(127);
  const F scale1 = V::Float(V::template Shl<23>(V::AddI(half, bias)));
  const F scale2 = V::Float(V::template Shl<23>(V::AddI(V::SubI(exponent, half), bias)));
  F y = V::Mul(V::Mul(p, scale1), scale2);
  y = V::SelectGreater(x, kMax, V::Float(V::SetI(0x7f800000)), y);
  y = V::SelectGreater(kMin, x, V::Set(0.0f), y);
  return V::SelectNan(x, V::Float(V::SetI(0x7fc00000)), y);
}

// function(vector of a, vector of b) to out, elementwise; the tail goes through zero-padded copies.
template <class V, class Function>
inline void Map2(const float* a, const float* b, std::int64_t count, float* out, const Function& function) {
  std::int64_t i = 0;
  for (; i + kVectorLanes <= count; i += kVectorLanes) V::Store(out + i, function(V::Load(a + i), V::Load(b + i)));
  if (i < count) {
    float ta[kVectorLanes] = {}, tb[kVectorLanes] = {};
    std::memcpy(ta, a + i, (count - i) * sizeof(float));
    std::memcpy(tb, b + i, (count - i) * sizeof(float));
    V::StorePartial(out + i, function(V::Load(ta), V::Load(tb)), count - i);
  }
}

template <class V>
void ExpRow(const float* x, std::int64_t count, float* out) {
  Map2<V>(x, x, count, out, [](typename V::F a, typename V::F) { return Exp<V>(a); });
}

template <class V>
void SiluMulRow(const float* gate, const float* up, std::int64_t count, float* out) {
  using F = typename V::F;
  Map2<V>(gate, up, count, out, [](F g, F u) {
    const F negated = V::Float(V::Xor(V::Bits(g), V::SetI(INT32_MIN)));
    const F sigmoid = V::Div(V::Set(1.0f), V::Add(V::Set(1.0f), Exp<V>(negated)));
    return V::Mul(V::Mul(g, sigmoid), u);
  });
}

template <class V>
void AddRow(float* x, const float* y, std::int64_t count) {
  Map2<V>(x, y, count, x, [](typename V::F a, typename V::F b) { return V::Add(a, b); });
}

// The 256 lanes of the law are sixteen vectors.
template <class V>
void RmsNormRow(const float* x, const float* weight, std::int64_t k, float eps, float* out) {
  using F = typename V::F;
  constexpr int kVectors = 256 / kVectorLanes;
  F lanes[kVectors];
  for (F& lane : lanes) lane = V::Set(0.0f);
  std::int64_t i = 0;
  for (; i + 256 <= k; i += 256) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const F value = V::Load(x + i + v * kVectorLanes);
      lanes[v] = V::Fma(value, value, lanes[v]);
    }
  }
  for (int v = 0; i < k; ++v, i += kVectorLanes) {
    float tail[kVectorLanes] = {};  // a lane is +0 or more, so adding 0 * 0 keeps it
    const std::int64_t count = k - i < kVectorLanes ? k - i : kVectorLanes;
    std::memcpy(tail, x + i, count * sizeof(float));
    const F value = V::Load(tail);
    lanes[v] = V::Fma(value, value, lanes[v]);
  }
  for (int h = kVectors / 2; h >= 1; h /= 2) {
    for (int v = 0; v < h; ++v) lanes[v] = V::Add(lanes[v], lanes[v + h]);
  }
  float last[kVectorLanes];
  V::Store(last, lanes[0]);
  for (int h = kVectorLanes / 2; h >= 1; h /= 2) {
    for (int l = 0; l < h; ++l) last[l] = last[l] + last[l + h];
  }
  const float r = 1.0f / __builtin_sqrtf(last[0] / static_cast<float>(k) + eps);
  Map2<V>(x, weight, k, out, [r](F a, F w) { return V::Mul(V::Mul(a, V::Set(r)), w); });
}

template <class V>
void RopeHead(float* head, std::int64_t half_dim, const float* cos, const float* sin) {
  using F = typename V::F;
  const auto rotate = [](F a, F b, F c, F s, F& first, F& second) {
    const F product = V::Mul(b, s);
    first = V::Fma(a, c, V::Float(V::Xor(V::Bits(product), V::SetI(INT32_MIN))));
    second = V::Fma(b, c, V::Mul(a, s));
  };
  F first, second;
  std::int64_t i = 0;
  for (; i + kVectorLanes <= half_dim; i += kVectorLanes) {
    rotate(V::Load(head + i), V::Load(head + half_dim + i), V::Load(cos + i), V::Load(sin + i), first, second);
    V::Store(head + i, first);
    V::Store(head + half_dim + i, second);
  }
  if (i < half_dim) {
    const std::int64_t count = half_dim - i;
    float tails[4][kVectorLanes] = {};
    const float* sources[4] = {head + i, head + half_dim + i, cos + i, sin + i};
    for (int t = 0; t < 4; ++t) std::memcpy(tails[t], sources[t], count * sizeof(float));
    rotate(V::Load(tails[0]), V::Load(tails[1]), V::Load(tails[2]), V::Load(tails[3]), first, second);
    V::StorePartial(head + i, first, count);
    V::StorePartial(head + half_dim + i, second, count);
  }
}

// contract::QuantizeGroup of a zero-padded group (padding changes neither amax nor the sum).
template <class V>
void QuantizePaddedGroup(const float* x, std::int64_t count, std::int8_t* q, float* scale, std::int32_t* sum) {
  using F = typename V::F;
  using I = typename V::I;
  I largest = V::SetI(0);
  for (std::int64_t i = 0; i < count; i += kVectorLanes) {
    largest = V::MaxI(largest, V::And(V::Bits(V::Load(x + i)), V::SetI(0x7fffffff)));
  }
  std::int32_t lanes[kVectorLanes], amax_bits = 0;
  V::StoreI(lanes, largest);
  for (const std::int32_t lane : lanes) amax_bits = lane > amax_bits ? lane : amax_bits;
  float amax;
  std::memcpy(&amax, &amax_bits, 4);
  if (amax_bits >= 0x7f800000 || amax < 0x1p-100f) {
    std::memset(q, 0, count);
    const std::uint32_t nan_bits = 0x7fc00000u;
    if (amax_bits >= 0x7f800000) std::memcpy(scale, &nan_bits, 4);
    else *scale = 0.0f;
    *sum = 0;
    return;
  }
  const F inverse = V::Set(127.0f / amax), magic = V::Set(0x1.8p23f);
  I total = V::SetI(0);
  for (std::int64_t i = 0; i < count; i += kVectorLanes) {
    const F rounded = V::Sub(V::Add(V::Mul(V::Load(x + i), inverse), magic), magic);
    const I value = V::Truncate(V::Min(V::Max(rounded, V::Set(-127.0f)), V::Set(127.0f)));
    total = V::AddI(total, value);
    V::StoreI8(q + i, value);
  }
  V::StoreI(lanes, total);
  *sum = 0;
  for (const std::int32_t lane : lanes) *sum += lane;
  *scale = amax / 127.0f;
}

template <class V>
void QuantizeRow(const float* x, std::int64_t k, std::int64_t group, std::int8_t* q, float* scale, std::int32_t* sum) {
  std::int64_t g = 0;
  for (; (g + 1) * group <= k; ++g) QuantizePaddedGroup<V>(x + g * group, group, q + g * group, scale + g, sum + g);
  if (g * group < k) {
    float tail[128] = {};
    std::memcpy(tail, x + g * group, (k - g * group) * sizeof(float));
    QuantizePaddedGroup<V>(tail, group, q + g * group, scale + g, sum + g);
  }
}

// contract::RoundToBf16 of sixteen lanes, as f32.
template <class V>
typename V::F RoundToBf16(typename V::F x) {
  using I = typename V::I;
  const I bits = V::Bits(x), odd = V::And(V::template Shr<16>(bits), V::SetI(1));
  const I rounded = V::And(V::AddI(V::AddI(bits, V::SetI(0x7fff)), odd), V::SetI(static_cast<std::int32_t>(0xffff0000u)));
  return V::SelectNan(x, V::Float(V::SetI(0x7fc00000)), V::Float(rounded));
}

template <class V>
std::int32_t RoundRow(const float* x, std::int64_t k, float* values, std::uint32_t* exponents) {
  using F = typename V::F;
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < k; i += kVectorLanes) {
    F in;
    if (i + kVectorLanes <= k) {
      in = V::Load(x + i);
    } else {
      float tail[kVectorLanes] = {};
      std::memcpy(tail, x + i, (k - i) * sizeof(float));
      in = V::Load(tail);
    }
    V::Store(values + i, RoundToBf16<V>(in));
    std::uint32_t bits[kVectorLanes];
    std::memcpy(bits, values + i, sizeof bits);
    for (int j = 0; j < kVectorLanes / 2; ++j) {
      const std::uint32_t even = bits[2 * j] >> 16 & 0x7f80u, odd = bits[2 * j + 1] >> 16 & 0x7f80u;
      exponents[i / 2 + j] = even | odd << 16;
      const auto larger = static_cast<std::int32_t>((even > odd ? even : odd) >> 7);
      largest = larger > largest ? larger : largest;
    }
  }
  return largest;
}

}  // namespace
}  // namespace isobit::cpu
