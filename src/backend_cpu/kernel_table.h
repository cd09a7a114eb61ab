// The kernel table of one vector type: the only place where the templates are instantiated.
#pragma once

#include "backend_cpu/attention_kernels.h"
#include "backend_cpu/elementwise_kernels.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/linear_bf16_kernels.h"
#include "backend_cpu/linear_f32_kernels.h"
#include "backend_cpu/linear_int8_kernels.h"

namespace isobit::cpu {
namespace {

template <class V>
void LinearInt8(const LinearTask& task, std::int64_t begin, std::int64_t end) {
  constexpr int kRows = V::kManyPanels > 1 ? 6 : 2;
  const auto cover = [&](const auto& tile) { CoverTiles<V, kRows, V::kManyPanels, V::kFewPanels>(task.x.rows, begin, end, tile); };
  switch (task.layout) {
    case PanelLayout::kQ4_1: return cover(Int8Tile<V, Q41Format>{task});
    case PanelLayout::kQ4_0: return cover(Int8Tile<V, Q40Format>{task});
    case PanelLayout::kQ8_0: return cover(Int8Tile<V, Q80Format>{task});
    case PanelLayout::kI8G128: return cover(Int8Tile<V, I8G128Format>{task});
    default: return;
  }
}

template <class V>
void LinearFloat(const LinearTask& task, std::int64_t begin, std::int64_t end) {
  constexpr int kRows = V::kManyPanels > 1 ? 8 : 4;
  const auto cover = [&](const auto& tile) { CoverTiles<V, kRows, V::kManyPanels, V::kFewPanels>(task.x.rows, begin, end, tile); };
  switch (task.layout) {
    case PanelLayout::kF32: return cover(F32Tile<V, F32Weights<V>>{task});
    case PanelLayout::kF16: return cover(F32Tile<V, F16Weights<V>>{task});
    case PanelLayout::kBf16: return cover(F32Tile<V, Bf16Weights<V>>{task});
    case PanelLayout::kBf16Pairs: return CoverTiles<V, 8, 1, 1>(task.x.rows, begin, end, Bf16Tile<V>{task});
    default: return;
  }
}

inline bool IsInt8(PanelLayout layout) {
  return layout == PanelLayout::kQ4_1 || layout == PanelLayout::kQ4_0 || layout == PanelLayout::kQ8_0 || layout == PanelLayout::kI8G128;
}

template <class V>
void LinearAny(const LinearTask& task, std::int64_t begin, std::int64_t end) {
  if (IsInt8(task.layout)) LinearInt8<V>(task, begin, end);
  else LinearFloat<V>(task, begin, end);
}

template <class V>
constexpr Kernels MakeKernels(const char* isa) {
  return {.isa = isa,
          .linear = LinearAny<V>,
          .quantize_row = QuantizeRow<V>,
          .round_row = RoundRow<V>,
          .rms_norm = RmsNormRow<V>,
          .rope = RopeHead<V>,
          .silu_mul = SiluMulRow<V>,
          .add = AddRow<V>,
          .exp = ExpRow<V>,
          .attention = Attention<V>};
}

}  // namespace
}  // namespace isobit::cpu
