// VectorAvx2: sixteen lanes in two registers (AVX2, FMA, F16C).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace isobit::cpu {
namespace {

struct VectorAvx2 {
  static constexpr const char* kName = "avx2";
  static constexpr bool kHasDot4 = false, kHasTensorCoreStep = true;
  static constexpr int kFewPanels = 4, kManyPanels = 1;

  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };
  using B = I;
  using S = I;

  static __m256i LoadHalf(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static __m128i LoadQuarter(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

  static F Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static F Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static F LoadF16(const std::uint16_t* p) { return {_mm256_cvtph_ps(LoadQuarter(p)), _mm256_cvtph_ps(LoadQuarter(p + 8))}; }
  static F LoadBf16(const std::uint16_t* p) {
    return Float({_mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadQuarter(p)), 16),
                  _mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadQuarter(p + 8)), 16)});
  }
  static F LoadI8(const std::int8_t* p) {
    const __m128i bytes = LoadQuarter(p);
    return Convert({_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))});
  }
  static void Store(float* p, F x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  static void StorePartial(float* p, F x, std::int64_t count) {
    float lanes[16];
    Store(lanes, x);
    std::memcpy(p, lanes, count * sizeof(float));
  }
  static F Add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static F Sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static F Mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static F Div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static F Fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  static F Max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static F Min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static F SelectGreater(F x, F y, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ))};
  }
  static F SelectNan(F x, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))};
  }

  static I SetI(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static I LoadI(const void* p) { return {LoadHalf(p), LoadHalf(static_cast<const char*>(p) + 32)}; }
  static void StoreI(void* p, I x) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), x.a);
    _mm256_storeu_si256(static_cast<__m256i*>(p) + 1, x.b);
  }
  // Lanes within int8.
  static void StoreI8(std::int8_t* p, I x) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  static I AddI(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  static I SubI(I x, I y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
  static I And(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
  static I Or(I x, I y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
  static I Xor(I x, I y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
  template <int kBits>
  static I Shl(I x) { return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)}; }
  template <int kBits>
  static I Shr(I x) { return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)}; }
  template <int kBits>
  static I Sra(I x) { return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)}; }
  static I MaxI(I x, I y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
  static F Float(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
  static I Bits(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
  static F Convert(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  static I Truncate(F x) { return {_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)}; }

  // For the tensor-core step (linear_bf16_kernels.h).
  static I MaxU16(I x, I y) { return {_mm256_max_epu16(x.a, y.a), _mm256_max_epu16(x.b, y.b)}; }
  static I MaxU32(I x, I y) { return {_mm256_max_epu32(x.a, y.a), _mm256_max_epu32(x.b, y.b)}; }
  // Rounds to nearest, then steps back one unit in the last place where that went up. Lanes above -2^31.
  static F ConvertTowardZero(I x) {
    const I magnitude = {_mm256_abs_epi32(x.a), _mm256_abs_epi32(x.b)};
    const F nearest = Convert(magnitude);
    const I went_up = Sra<31>(SubI(magnitude, Truncate(nearest)));  // -1 or 0; 2^31 wraps, and the difference with it
    return Float(Or(AddI(Bits(nearest), went_up), And(x, SetI(INT32_MIN))));
  }
  static std::uint32_t Signs(I x) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(x.a))) |
           static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(x.b))) << 8;
  }
  // Lanes where x is negative or sum = y + z wrapped.
  static std::uint32_t SignsOrWrapped(I x, I y, I z, I sum) { return Signs(Or(x, And(Xor(y, sum), Xor(z, sum)))); }

  static B LoadB(const std::uint8_t* p) { return LoadI(p); }
  static B Repeat4(const std::int8_t* p) {
    std::int32_t bytes;
    std::memcpy(&bytes, p, 4);
    return SetI(bytes);
  }
  static B LowNibbles(B x) { return And(x, {_mm256_set1_epi8(15), _mm256_set1_epi8(15)}); }
  static B HighNibbles(B x) { return LowNibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)}); }
  static S ZeroS() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static S DotPairs(S acc, B w, B x) {
    return {_mm256_add_epi16(acc.a, _mm256_maddubs_epi16(w.a, x.a)), _mm256_add_epi16(acc.b, _mm256_maddubs_epi16(w.b, x.b))};
  }
  static I SumPairs(S x) {
    return {_mm256_madd_epi16(x.a, _mm256_set1_epi16(1)), _mm256_madd_epi16(x.b, _mm256_set1_epi16(1))};
  }
};

}  // namespace
}  // namespace isobit::cpu
