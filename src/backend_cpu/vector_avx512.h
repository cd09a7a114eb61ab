// VectorAvx512: sixteen lanes in one register (F, BW, DQ, VL).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace isobit::cpu {
namespace {

struct VectorAvx512 {
  static constexpr const char* kName = "avx512";
  static constexpr bool kHasDot4 = false, kHasTensorCoreStep = true;
  static constexpr int kFewPanels = 4, kManyPanels = 2;

  using F = __m512;
  using I = __m512i;
  using B = __m512i;  // 64 bytes
  using S = __m512i;  // 32 x int16

  static F Set(float x) { return _mm512_set1_ps(x); }
  static F Load(const float* p) { return _mm512_loadu_ps(p); }
  static F LoadF16(const std::uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F LoadBf16(const std::uint16_t* p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
  }
  static F LoadI8(const std::int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static void Store(float* p, F a) { _mm512_storeu_ps(p, a); }
  static void StorePartial(float* p, F a, std::int64_t count) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), a);
  }
  static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F Div(F a, F b) { return _mm512_div_ps(a, b); }
  static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F Max(F a, F b) { return _mm512_max_ps(a, b); }
  static F Min(F a, F b) { return _mm512_min_ps(a, b); }
  static F SelectGreater(F a, F b, F yes, F no) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes); }
  static F SelectNan(F a, F yes, F no) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), no, yes); }

  static I SetI(std::int32_t x) { return _mm512_set1_epi32(x); }
  static I LoadI(const void* p) { return _mm512_loadu_si512(p); }
  static void StoreI(void* p, I a) { _mm512_storeu_si512(p, a); }
  static void StoreI8(std::int8_t* p, I a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a)); }
  static I AddI(I a, I b) { return _mm512_add_epi32(a, b); }
  static I SubI(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I And(I a, I b) { return _mm512_and_si512(a, b); }
  static I Or(I a, I b) { return _mm512_or_si512(a, b); }
  static I Xor(I a, I b) { return _mm512_xor_si512(a, b); }
  template <int kBits>
  static I Shl(I a) { return _mm512_slli_epi32(a, kBits); }
  template <int kBits>
  static I Shr(I a) { return _mm512_srli_epi32(a, kBits); }
  template <int kBits>
  static I Sra(I a) { return _mm512_srai_epi32(a, kBits); }
  static I MaxI(I a, I b) { return _mm512_max_epi32(a, b); }
  static F Float(I a) { return _mm512_castsi512_ps(a); }
  static I Bits(F a) { return _mm512_castps_si512(a); }
  static F Convert(I a) { return _mm512_cvtepi32_ps(a); }
  static I Truncate(F a) { return _mm512_cvttps_epi32(a); }

  // For the tensor-core step (linear_bf16_kernels.h).
  static I MaxU16(I a, I b) { return _mm512_max_epu16(a, b); }
  static I MaxU32(I a, I b) { return _mm512_max_epu32(a, b); }
  static F ConvertTowardZero(I a) { return _mm512_cvt_roundepi32_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
  static std::uint32_t Signs(I x) { return _mm512_movepi32_mask(x); }
  // Lanes where x is negative or sum = a + b wrapped: the sign of (a ^ sum) & (b ^ sum).
  static std::uint32_t SignsOrWrapped(I x, I a, I b, I sum) {
    return _mm512_movepi32_mask(_mm512_or_si512(x, _mm512_ternarylogic_epi32(a, b, sum, 0x42)));
  }

  static B LoadB(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  static B Repeat4(const std::int8_t* p) {
    std::int32_t bytes;
    std::memcpy(&bytes, p, 4);
    return _mm512_set1_epi32(bytes);
  }
  static B LowNibbles(B a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
  static B HighNibbles(B a) { return _mm512_and_si512(_mm512_srli_epi16(a, 4), _mm512_set1_epi8(15)); }
  static S ZeroS() { return _mm512_setzero_si512(); }
  // acc + the sums of neighbouring products; w below 16, so nothing saturates in 8 quads.
  static S DotPairs(S acc, B w, B x) { return _mm512_add_epi16(acc, _mm512_maddubs_epi16(w, x)); }
  static I SumPairs(S a) { return _mm512_madd_epi16(a, _mm512_set1_epi16(1)); }
};

}  // namespace
}  // namespace isobit::cpu
