// VectorScalar: the sixteen-lane vector as plain loops; what the others must equal, and what runs where nothing better does.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace isobit::cpu {
namespace {

struct VectorScalar {
  static constexpr const char* kName = "scalar";
  static constexpr bool kHasDot4 = true, kHasTensorCoreStep = false;
  static constexpr int kFewPanels = 1, kManyPanels = 1;  // panels per tile of few and of many rows

  struct F {
    float v[16];
  };
  struct I {
    std::int32_t v[16];
  };
  struct B {
    std::uint8_t v[64];
  };
  using S = I;  // unused: Dot4 is there

  template <class Function>
  static F MapF(const Function& function) {
    F out;
    for (int i = 0; i < 16; ++i) out.v[i] = function(i);
    return out;
  }
  template <class Function>
  static I MapI(const Function& function) {
    I out;
    for (int i = 0; i < 16; ++i) out.v[i] = static_cast<std::int32_t>(function(i));
    return out;
  }
  static std::uint32_t U(std::int32_t value) { return static_cast<std::uint32_t>(value); }

  static F Set(float x) { return MapF([&](int) { return x; }); }
  static F Load(const float* p) { return MapF([&](int i) { return p[i]; }); }
  static F LoadF16(const std::uint16_t* p) {
    return MapF([&](int i) {
      const std::uint32_t sign = std::uint32_t{p[i] & 0x8000u} << 16, exponent = (p[i] >> 10) & 31u, fraction = p[i] & 0x3ffu;
      if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
      if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
    });
  }
  static F LoadBf16(const std::uint16_t* p) {
    return MapF([&](int i) { return std::bit_cast<float>(std::uint32_t{p[i]} << 16); });
  }
  static F LoadI8(const std::int8_t* p) { return MapF([&](int i) { return static_cast<float>(p[i]); }); }
  static void Store(float* p, F a) { std::memcpy(p, a.v, 64); }
  static void StorePartial(float* p, F a, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) p[i] = a.v[i];
  }
  static F Add(F a, F b) { return MapF([&](int i) { return a.v[i] + b.v[i]; }); }
  static F Sub(F a, F b) { return MapF([&](int i) { return a.v[i] - b.v[i]; }); }
  static F Mul(F a, F b) { return MapF([&](int i) { return a.v[i] * b.v[i]; }); }
  static F Div(F a, F b) { return MapF([&](int i) { return a.v[i] / b.v[i]; }); }
  static F Fma(F a, F b, F c) { return MapF([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); }); }
  static F Max(F a, F b) { return MapF([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
  static F Min(F a, F b) { return MapF([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; }); }
  // a > b ? yes : no, per lane; false for NaN.
  static F SelectGreater(F a, F b, F yes, F no) { return MapF([&](int i) { return a.v[i] > b.v[i] ? yes.v[i] : no.v[i]; }); }
  static F SelectNan(F a, F yes, F no) { return MapF([&](int i) { return a.v[i] != a.v[i] ? yes.v[i] : no.v[i]; }); }

  static I SetI(std::int32_t x) { return MapI([&](int) { return x; }); }
  static I LoadI(const void* p) {
    I out;
    std::memcpy(out.v, p, 64);
    return out;
  }
  static void StoreI(void* p, I a) { std::memcpy(p, a.v, 64); }
  static void StoreI8(std::int8_t* p, I a) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(a.v[i]);
  }
  static I AddI(I a, I b) { return MapI([&](int i) { return U(a.v[i]) + U(b.v[i]); }); }
  static I SubI(I a, I b) { return MapI([&](int i) { return U(a.v[i]) - U(b.v[i]); }); }
  static I And(I a, I b) { return MapI([&](int i) { return a.v[i] & b.v[i]; }); }
  static I Or(I a, I b) { return MapI([&](int i) { return a.v[i] | b.v[i]; }); }
  static I Xor(I a, I b) { return MapI([&](int i) { return a.v[i] ^ b.v[i]; }); }
  template <int kBits>
  static I Shl(I a) { return MapI([&](int i) { return U(a.v[i]) << kBits; }); }
  template <int kBits>
  static I Shr(I a) { return MapI([&](int i) { return U(a.v[i]) >> kBits; }); }
  template <int kBits>
  static I Sra(I a) { return MapI([&](int i) { return a.v[i] >> kBits; }); }
  static I MaxI(I a, I b) { return MapI([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
  static I MaxU16(I a, I b) {  // of each half of a lane
    return MapI([&](int i) {
      const std::uint32_t x = U(a.v[i]), y = U(b.v[i]);
      const std::uint32_t low = (x & 0xffffu) > (y & 0xffffu) ? x & 0xffffu : y & 0xffffu;
      return low | ((x >> 16) > (y >> 16) ? x >> 16 : y >> 16) << 16;
    });
  }
  static F Float(I a) { return std::bit_cast<F>(a); }
  static I Bits(F a) { return std::bit_cast<I>(a); }
  static F Convert(I a) { return MapF([&](int i) { return static_cast<float>(a.v[i]); }); }
  // Toward zero; |a| < 2^31.
  static I Truncate(F a) { return MapI([&](int i) { return a.v[i]; }); }

  static B LoadB(const std::uint8_t* p) {
    B out;
    std::memcpy(out.v, p, 64);
    return out;
  }
  // Sixteen copies of four bytes.
  static B Repeat4(const std::int8_t* p) {
    B out;
    for (int i = 0; i < 64; ++i) out.v[i] = static_cast<std::uint8_t>(p[i & 3]);
    return out;
  }
  static B LowNibbles(B a) {
    for (std::uint8_t& byte : a.v) byte &= 15;
    return a;
  }
  static B HighNibbles(B a) {
    for (std::uint8_t& byte : a.v) byte >>= 4;
    return a;
  }
  // acc + the four products of unsigned w and signed x of each lane.
  static I Dot4(I acc, B w, B x) {
    for (int i = 0; i < 64; ++i) acc.v[i / 4] += std::int32_t{w.v[i]} * static_cast<std::int8_t>(x.v[i]);
    return acc;
  }
};

}  // namespace
}  // namespace isobit::cpu
