// LinearTile: what the three profiles' tiles of kRows x kPanels outputs share: joining the sums of ranges, and writing out.
#pragma once

#include <cstdint>

#include "backend_cpu/kernels.h"

namespace isobit::cpu {
namespace {

// ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)); an absent sum joins as the other. sums: [8] vectors at `stride` floats.
template <class V>
typename V::F JoinTree(const LinearTask& task, const float* sums, std::int64_t stride) {
  typename V::F level[kMaxRanges];
  bool present[kMaxRanges];
  for (int i = 0; i < kMaxRanges; ++i) {
    level[i] = V::Load(sums + i * stride);
    present[i] = task.cuts[i] != task.cuts[i + 1];
  }
  for (int width = kMaxRanges / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) {
      const bool left = present[2 * i], right = present[2 * i + 1];
      level[i] = left && right ? V::Add(level[2 * i], level[2 * i + 1]) : left ? level[2 * i] : level[2 * i + 1];
      present[i] = left || right;
    }
  }
  return level[0];
}

// Rows and panels of one tile. A tile at the edge reads its last row or panel again instead of what lies behind, and does not write it.
template <int kRows, int kPanels>
struct TilePlace {
  std::int64_t row, panel, row_end, panel_end;

  std::int64_t RowAt(int r) const { return row + r < row_end ? row + r : row_end - 1; }
  std::int64_t PanelAt(int p) const { return panel + p < panel_end ? panel + p : panel_end - 1; }
};

// Collects the sums of the ranges of a tile, ascending, and writes the joined outputs.
template <class V, int kRows, int kPanels>
class RangeJoiner {
 public:
  explicit RangeJoiner(const LinearTask& task) : task_(task) {}

  void Put(int range, const typename V::F (&sums)[kRows][kPanels]) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) {
        float* at = sums_[task_.tree ? range : 0][r][p];
        V::Store(at, task_.tree || range == 0 ? sums[r][p] : V::Add(V::Load(at), sums[r][p]));
      }
    }
  }

  void Write(const TilePlace<kRows, kPanels>& place) {
    for (int r = 0; r < kRows && place.row + r < place.row_end; ++r) {
      for (int p = 0; p < kPanels && place.panel + p < place.panel_end; ++p) {
        const std::int64_t first = (place.panel + p) * kVectorLanes;
        typename V::F y = task_.tree ? JoinTree<V>(task_, sums_[0][r][p], kRows * kPanels * kVectorLanes) : V::Load(sums_[0][r][p]);
        if (task_.bias != nullptr) y = V::Add(y, V::Load(task_.bias + first));
        float* out = task_.out + (place.row + r) * task_.n + first;
        if (task_.n - first >= kVectorLanes) V::Store(out, y);
        else V::StorePartial(out, y, task_.n - first);
      }
    }
  }

 private:
  const LinearTask& task_;
  alignas(64) float sums_[kMaxRanges][kRows][kPanels][kVectorLanes];
};

// Calls tile.template Run<rows, panels>(place) until rows x panels [begin, end) are covered. Panels are taken in blocks that stay in
// the second-level cache while all rows pass over them.
template <class V, int kBigRows, int kBigPanels, int kFewRowsPanels, class Tile>
void CoverTiles(std::int64_t rows, std::int64_t begin, std::int64_t end, const Tile& tile) {
  constexpr std::int64_t kBlock = 8;
  for (std::int64_t block = begin; block < end; block += kBlock) {
    const std::int64_t block_end = block + kBlock < end ? block + kBlock : end;
    std::int64_t row = 0;
    while (row < rows) {
      const std::int64_t left = rows - row;
      if (kBigRows > 4 && (left == 3 || left == 4)) {
        constexpr int kRows = kBigRows > 4 ? 4 : kBigRows;
        for (std::int64_t panel = block; panel < block_end; panel += kBigPanels) {
          tile.template Run<kRows, kBigPanels>({row, panel, rows, block_end});
        }
        row += kRows;
      } else if (left > 2) {
        for (std::int64_t panel = block; panel < block_end; panel += kBigPanels) {
          tile.template Run<kBigRows, kBigPanels>({row, panel, rows, block_end});
        }
        row += kBigRows;
      } else if (left == 2) {
        constexpr int kPanels = (kFewRowsPanels + 1) / 2;
        for (std::int64_t panel = block; panel < block_end; panel += kPanels) {
          tile.template Run<2, kPanels>({row, panel, rows, block_end});
        }
        row += 2;
      } else {
        for (std::int64_t panel = block; panel < block_end; panel += kFewRowsPanels) {
          tile.template Run<1, kFewRowsPanels>({row, panel, rows, block_end});
        }
        row += 1;
      }
    }
  }
}

}  // namespace
}  // namespace isobit::cpu
