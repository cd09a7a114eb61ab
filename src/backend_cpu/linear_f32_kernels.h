// f32-fma linear tiles: acc = fma(w, x, acc) from +0, k ascending inside a range, lanes across outputs. Weights stay as stored and are
// widened on the fly. Bound: FMA throughput for many rows, memory for one.
#pragma once

#include "backend_cpu/linear_tile.h"

namespace isobit::cpu {
namespace {

template <class V>
struct F32Weights {
  static constexpr std::int64_t kBytes = 4;
  static typename V::F Load(const std::byte* p) { return V::Load(reinterpret_cast<const float*>(p)); }
};
template <class V>
struct F16Weights {
  static constexpr std::int64_t kBytes = 2;
  static typename V::F Load(const std::byte* p) { return V::LoadF16(reinterpret_cast<const std::uint16_t*>(p)); }
};
template <class V>
struct Bf16Weights {
  static constexpr std::int64_t kBytes = 2;
  static typename V::F Load(const std::byte* p) { return V::LoadBf16(reinterpret_cast<const std::uint16_t*>(p)); }
};

template <class V, class Weights>
struct F32Tile {
  const LinearTask& task;

  template <int kRows, int kPanels>
  void Run(const TilePlace<kRows, kPanels>& place) const {
    using F = typename V::F;
    const float* x[kRows];
    const std::byte* w[kPanels];
    for (int r = 0; r < kRows; ++r) x[r] = task.x.values + place.RowAt(r) * task.x.value_stride;
    for (int p = 0; p < kPanels; ++p) w[p] = task.panels + place.PanelAt(p) * task.panel_bytes;
    RangeJoiner<V, kRows, kPanels> joiner(task);
    for (int range = 0; range < task.num_ranges; ++range) {
      F acc[kRows][kPanels];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int p = 0; p < kPanels; ++p) acc[r][p] = V::Set(0.0f);
      }
      const std::int64_t k_end = task.cuts[range + 1];
      for (std::int64_t k = task.cuts[range]; k < k_end; ++k) {
        F wide[kPanels];
#pragma GCC unroll 8
        for (int p = 0; p < kPanels; ++p) wide[p] = Weights::Load(w[p] + k * (kVectorLanes * Weights::kBytes));
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const F value = V::Set(x[r][k]);
#pragma GCC unroll 8
          for (int p = 0; p < kPanels; ++p) acc[r][p] = V::Fma(wide[p], value, acc[r][p]);
        }
      }
      joiner.Put(range, acc);
    }
    joiner.Write(place);
  }
};

}  // namespace
}  // namespace isobit::cpu
