// bf16-tc chains: the tensor-core step of Hopper (contract/tensor_core.h) for sixteen outputs at a time. Bound: about six vector
// instructions per product.
//
// The fast step rests on these facts. The product of two bf16 is exact in binary32 and scaling it by 2^(25 - emax) is exact, so
// truncating the scaled product to int32 is the law's truncation, in units of 2^(emax - 25). A product is below 2^(emax + 2), so a term
// is below 2^27; eight terms and the accumulator's fit int32, and whether the two halves' sum wraps is tested. Its conversion toward
// zero and one exact scaling give the result. Exponents are summed in their own fields: a pair of bf16 holds e << 7 in each 16 bits,
// and e1 + e2 (biased by 254) below 512 fits. A zero or subnormal operand has field 0, so its products' fields read at most the other
// operand's field: where emax is above every such field (`low`), the largest is a true one. Lanes whose terms are all zero need no
// emax. Steps outside these bounds, and all with values that are not finite, go to the law itself.
#pragma once

#include "backend_cpu/linear_tile.h"

namespace isobit::cpu {
namespace {

// Sixteen outputs' operand of one chain and kRows other operands.
template <int kRows>
struct ChainRows {
  const float* values[kRows];
  const std::uint32_t* exponents[kRows];
  std::int32_t max_exponent[kRows];
};

// emax fields (biased by 254) of the fast step: scale factors 2^(25 - emax) and 2^(emax - 25) stay normal and nothing overflows or
// underflows in between. A chain's operands keep every product's field at or below kHighField - 32; its accumulator, a sum of at most
// 2^30 products below 2^(emax + 2), then stays at or below kHighField.
inline constexpr std::int32_t kLowField = 154, kHighField = 354;
inline constexpr std::int32_t kNonFiniteField = 255;

// Lowest emax field of the fast step for operands whose largest fields are given; 0: none.
inline std::int32_t LowestField(std::int32_t a, std::int32_t b) {
  if (a >= kNonFiniteField || b >= kNonFiniteField || a + b > kHighField - 32) return 0;
  const std::int32_t fake = (a > b ? a : b) + 2;  // + 1: a subnormal's exponent is that of field 1
  return fake > kLowField ? fake : kLowField;
}

// Lanes in which the step adds nothing to nothing: every product and the accumulator are zero. All operands are finite.
template <class V>
std::uint32_t ZeroLanes(const typename V::F (&w)[16], const float* x, typename V::F acc) {
  typename V::I bits = V::Bits(acc);
  for (int k = 0; k < 16; ++k) {
    if (x[k] != 0.0f) bits = V::Or(bits, V::Bits(w[k]));
  }
  return ~V::Signs(V::SubI(V::SetI(0), V::And(bits, V::SetI(0x7fffffff))));
}

// acc[r] = the chain of steps [first, end) from acc[r]. pairs: the panel's first step's [8][16] words. live: lanes whose result is used.
template <class V, int kRows>
__attribute__((noinline)) void Bf16Chain(const std::uint32_t* pairs, std::int32_t pairs_max, const ChainRows<kRows>& x,
                                         std::int64_t first, std::int64_t end, std::uint32_t live, float (&acc_out)[kRows][kVectorLanes]) {
  if constexpr (V::kHasTensorCoreStep) {
    using F = typename V::F;
    using I = typename V::I;
    const I kField = V::SetI(0x7f800000), kOdd = V::SetI(static_cast<std::int32_t>(0xffff0000u)), kFields = V::SetI(0x7f807f80);
    std::int32_t low[kRows];
    F acc[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      low[r] = LowestField(pairs_max, x.max_exponent[r]);
      acc[r] = V::Load(acc_out[r]);
    }
    for (std::int64_t step = first; step < end; ++step) {
      F w[16];
      I w_fields[8];
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const I pair = V::LoadI(pairs + step * 128 + j * 16);
        w[2 * j] = V::Float(V::template Shl<16>(pair));
        w[2 * j + 1] = V::Float(V::And(pair, kOdd));
        w_fields[j] = V::And(pair, kFields);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float* xv = x.values[r] + step * 16;
        const std::uint32_t* xe = x.exponents[r] + step * 8;
        I field = V::AddI(w_fields[0], V::SetI(static_cast<std::int32_t>(xe[0])));
#pragma GCC unroll 8
        for (int j = 1; j < 8; ++j) field = V::MaxU16(field, V::AddI(w_fields[j], V::SetI(static_cast<std::int32_t>(xe[j]))));
        // emax << 23, biased by 254, as unsigned.
        I emax = V::And(V::MaxU16(field, V::template Shl<16>(field)), kOdd);
        emax = V::MaxU32(emax, V::AddI(V::And(V::Bits(acc[r]), kField), V::SetI(127 << 23)));
        // emax fields lie within 256 of `low`, so the difference's sign says which is larger.
        const I low_field = V::SetI(static_cast<std::int32_t>(static_cast<std::uint32_t>(low[r]) << 23)), below = V::SubI(emax, low_field);
        emax = V::MaxU32(emax, low_field);
        const F scale = V::Float(V::SubI(V::SetI(static_cast<std::int32_t>(406u << 23)), emax));  // 2^(25 - emax)
        const F unit = V::Float(V::SubI(emax, V::SetI(152 << 23)));                               // 2^(emax - 25)
        I sum1 = V::Truncate(V::Mul(acc[r], scale)), sum2 = V::SetI(0);
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          sum1 = V::AddI(sum1, V::Truncate(V::Mul(V::Mul(w[j], V::Set(xv[j])), scale)));
          sum2 = V::AddI(sum2, V::Truncate(V::Mul(V::Mul(w[j + 8], V::Set(xv[j + 8])), scale)));
        }
        const I sum = V::AddI(sum1, sum2);
        const std::uint32_t outside = V::SignsOrWrapped(below, sum1, sum2, sum) & live;
        if (low[r] == 0 || (outside != 0 && (outside & ~ZeroLanes<V>(w, xv, acc[r])) != 0)) [[unlikely]] {
          V::Store(acc_out[r], acc[r]);
          TensorCoreStepByLaw(pairs + step * 128, xv, acc_out[r]);
          acc[r] = V::Load(acc_out[r]);
        } else {
          acc[r] = V::Mul(V::ConvertTowardZero(sum), unit);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) V::Store(acc_out[r], acc[r]);
  } else {
    (void)pairs_max, (void)live;
    for (std::int64_t step = first; step < end; ++step) {
      for (int r = 0; r < kRows; ++r) TensorCoreStepByLaw(pairs + step * 128, x.values[r] + step * 16, acc_out[r]);
    }
  }
}

inline std::uint32_t LiveLanes(std::int64_t count) { return count >= kVectorLanes ? 0xffffu : (1u << count) - 1; }

template <class V>
struct Bf16Tile {
  const LinearTask& task;

  template <int kRows, int kPanels>
  void Run(const TilePlace<kRows, kPanels>& place) const {
    static_assert(kPanels == 1);
    ChainRows<kRows> x;
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = place.RowAt(r);
      x.values[r] = task.x.values + row * task.x.value_stride;
      x.exponents[r] = task.x.exponents + row * task.x.exponent_stride;
      x.max_exponent[r] = task.x.max_exponent[row];
    }
    const auto* pairs = reinterpret_cast<const std::uint32_t*>(task.panels + place.panel * task.panel_bytes);
    RangeJoiner<V, kRows, 1> joiner(task);
    for (int range = 0; range < task.num_ranges; ++range) {
      // Cuts are multiples of a step, but for the end of k, behind which both operands are zero.
      alignas(64) float acc[kRows][kVectorLanes] = {};
      Bf16Chain<V, kRows>(pairs, task.max_exponent[place.panel], x, task.cuts[range] / 16, (task.cuts[range + 1] + 15) / 16,
                          LiveLanes(task.n - place.panel * kVectorLanes), acc);
      typename V::F sums[kRows][1];
      for (int r = 0; r < kRows; ++r) sums[r][0] = V::Load(acc[r]);
      joiner.Put(range, sums);
    }
    joiner.Write(place);
  }
};

}  // namespace
}  // namespace isobit::cpu
