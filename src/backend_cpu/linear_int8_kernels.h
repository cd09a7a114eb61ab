// int8-dot linear tiles: per group an exact int32 sum of unsigned weights times signed activations, started at -offset * (sum of the
// activations), then one f32 fma (a second for a minimum); lanes across outputs. Bound: byte-dot throughput for many rows, memory for
// one.
#pragma once

#include "backend_cpu/linear_tile.h"

namespace isobit::cpu {
namespace {

struct Q41Format {
  static constexpr std::int64_t kGroup = 32, kScaleBytes = 2;
  static constexpr bool kNibbles = true, kMinimum = true;
  static constexpr std::int32_t kOffset = 0;
};
struct Q40Format {
  static constexpr std::int64_t kGroup = 32, kScaleBytes = 2;
  static constexpr bool kNibbles = true, kMinimum = false;
  static constexpr std::int32_t kOffset = kNibbleOffset;
};
struct Q80Format {
  static constexpr std::int64_t kGroup = 32, kScaleBytes = 2;
  static constexpr bool kNibbles = false, kMinimum = false;
  static constexpr std::int32_t kOffset = kByteOffset;
};
struct I8G128Format {
  static constexpr std::int64_t kGroup = 128, kScaleBytes = 4;
  static constexpr bool kNibbles = false, kMinimum = false;
  static constexpr std::int32_t kOffset = kByteOffset;
};

// sum += the products of 32 consecutive k.
template <class V, bool kNibbles, int kRows, int kPanels>
inline void Dot32(const std::uint8_t* const (&w)[kPanels], const std::int8_t* const (&x)[kRows],
                  typename V::I (&sum)[kRows][kPanels]) {
  using B = typename V::B;
  if constexpr (V::kHasDot4) {
#pragma GCC unroll 8
    for (int j = 0; j < (kNibbles ? 4 : 8); ++j) {
      B low[kPanels], high[kPanels];
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) {
        const B bytes = V::LoadB(w[p] + 64 * j);
        low[p] = kNibbles ? V::LowNibbles(bytes) : bytes;
        if constexpr (kNibbles) high[p] = V::HighNibbles(bytes);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const B first = V::Repeat4(x[r] + 4 * j);
#pragma GCC unroll 8
        for (int p = 0; p < kPanels; ++p) sum[r][p] = V::Dot4(sum[r][p], low[p], first);
        if constexpr (kNibbles) {
          const B second = V::Repeat4(x[r] + 4 * (j + 4));
#pragma GCC unroll 8
          for (int p = 0; p < kPanels; ++p) sum[r][p] = V::Dot4(sum[r][p], high[p], second);
        }
      }
    }
  } else {
    // 16-bit sums of nibble products: 8 quads x 2 x 15 x 127 = 30480 at most. A byte weight is a low and a high nibble.
    using S = typename V::S;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) {
        S low = V::ZeroS(), high = V::ZeroS();
#pragma GCC unroll 8
        for (int j = 0; j < (kNibbles ? 4 : 8); ++j) {
          const B bytes = V::LoadB(w[p] + 64 * j);
          if constexpr (kNibbles) {
            low = V::DotPairs(low, V::LowNibbles(bytes), V::Repeat4(x[r] + 4 * j));
            low = V::DotPairs(low, V::HighNibbles(bytes), V::Repeat4(x[r] + 4 * (j + 4)));
          } else {
            const B value = V::Repeat4(x[r] + 4 * j);
            low = V::DotPairs(low, V::LowNibbles(bytes), value);
            high = V::DotPairs(high, V::HighNibbles(bytes), value);
          }
        }
        sum[r][p] = V::AddI(sum[r][p], V::SumPairs(low));
        if constexpr (!kNibbles) sum[r][p] = V::AddI(sum[r][p], V::template Shl<4>(V::SumPairs(high)));
      }
    }
  }
}

template <class V, class Format>
struct Int8Tile {
  const LinearTask& task;

  template <int kRows, int kPanels>
  void Run(const TilePlace<kRows, kPanels>& place) const {
    using F = typename V::F;
    using I = typename V::I;
    constexpr std::int64_t kGroupBytes = Format::kGroup * kVectorLanes / (Format::kNibbles ? 2 : 1);
    constexpr std::int64_t kUnitBytes = 32 * kVectorLanes / (Format::kNibbles ? 2 : 1);
    const std::int64_t groups = task.x.groups;
    const std::int8_t* x[kRows];
    const float* scale[kRows];
    const std::int32_t* q_sum[kRows];
    const std::uint8_t* w[kPanels];
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = place.RowAt(r);
      x[r] = task.x.q + row * task.x.q_stride;
      scale[r] = task.x.scale + row * groups;
      q_sum[r] = task.x.q_sum + row * groups;
    }
    for (int p = 0; p < kPanels; ++p) {
      w[p] = reinterpret_cast<const std::uint8_t*>(task.panels + place.PanelAt(p) * task.panel_bytes);
    }
    RangeJoiner<V, kRows, kPanels> joiner(task);
    for (int range = 0; range < task.num_ranges; ++range) {
      F acc[kRows][kPanels];
      // fma(a, b, -0) is a * b rounded once, its sign of zero included: the first group needs no case of its own.
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int p = 0; p < kPanels; ++p) acc[r][p] = V::Set(-0.0f);
      }
      const std::int64_t group_end = (task.cuts[range + 1] + Format::kGroup - 1) / Format::kGroup;
      for (std::int64_t g = task.cuts[range] / Format::kGroup; g < group_end; ++g) {
        I sum[kRows][kPanels];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const I start = V::SetI(Format::kOffset == 0 ? 0 : -Format::kOffset * q_sum[r][g]);
#pragma GCC unroll 8
          for (int p = 0; p < kPanels; ++p) sum[r][p] = start;
        }
        for (int unit = 0; unit < Format::kGroup / 32; ++unit) {
          const std::uint8_t* unit_w[kPanels];
          const std::int8_t* unit_x[kRows];
#pragma GCC unroll 8
          for (int p = 0; p < kPanels; ++p) unit_w[p] = w[p] + g * kGroupBytes + unit * kUnitBytes;
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) unit_x[r] = x[r] + g * Format::kGroup + unit * 32;
          Dot32<V, Format::kNibbles>(unit_w, unit_x, sum);
        }
#pragma GCC unroll 8
        for (int p = 0; p < kPanels; ++p) {
          const std::uint8_t* scales = w[p] + groups * kGroupBytes;
          const std::int64_t at = g * kVectorLanes;
          const F dw = Format::kScaleBytes == 4 ? V::Load(reinterpret_cast<const float*>(scales) + at)
                                                : V::LoadF16(reinterpret_cast<const std::uint16_t*>(scales) + at);
          F minimum = dw;
          if constexpr (Format::kMinimum) minimum = V::LoadF16(reinterpret_cast<const std::uint16_t*>(scales) + groups * kVectorLanes + at);
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const F dx = V::Set(scale[r][g]);
            acc[r][p] = V::Fma(V::Convert(sum[r][p]), V::Mul(dw, dx), acc[r][p]);
            if constexpr (Format::kMinimum) {
              acc[r][p] = V::Fma(V::Set(static_cast<float>(q_sum[r][g])), V::Mul(minimum, dx), acc[r][p]);
            }
          }
        }
      }
      joiner.Put(range, acc);
    }
    joiner.Write(place);
  }
};

}  // namespace
}  // namespace isobit::cpu
