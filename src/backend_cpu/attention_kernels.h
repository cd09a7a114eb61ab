// Attention of one item: neighbouring rows of a sequence and the query heads of one kv head, tile by tile of 128 positions
// (contract/attention.h). A tile is gathered once through the block table into panels whose lanes are positions (keys) or dimensions
// (values), then every query of the item passes over it. Bound: gathering for one row, products for many.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend_cpu/elementwise_kernels.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/linear_bf16_kernels.h"

namespace isobit::cpu {
namespace {

inline constexpr std::int64_t kTile = 128;
inline constexpr int kTilePanels = kTile / kVectorLanes;

// Where an item's scratch lies. Queries are [row][head of the group]. Sizes in floats; a word of bf16 pairs or exponents is one float.
struct AttentionScratchLayout {
  std::int64_t queries, padded_dim;
  std::int64_t keys, values;             // f32: [8][head_dim][16], [128][padded_dim]; pairs: [8][padded_dim / 2][16], [dims / 16][64][16]
  std::int64_t q, q_exponents;           // bf16-tc only: [queries][padded_dim], [queries][padded_dim / 2]
  std::int64_t p, p_exponents;           // [queries][128], [queries][64]
  std::int64_t output, max, sum, q_max;  // [queries][padded_dim], [queries] each
  std::int64_t total;
};

inline AttentionScratchLayout LayOutScratch(std::int64_t queries, std::int64_t head_dim) {
  AttentionScratchLayout s{};
  s.queries = queries;
  s.padded_dim = (head_dim + kVectorLanes - 1) / kVectorLanes * kVectorLanes;
  std::int64_t at = 0;
  const auto take = [&at](std::int64_t count) {
    const std::int64_t place = at;
    at += (count + kVectorLanes - 1) / kVectorLanes * kVectorLanes;
    return place;
  };
  s.keys = take(kTile * s.padded_dim);
  s.values = take(kTile * s.padded_dim);
  s.q = take(queries * s.padded_dim);
  s.q_exponents = take(queries * s.padded_dim / 2);
  s.p = take(queries * kTile);
  s.p_exponents = take(queries * kTile / 2);
  s.output = take(queries * s.padded_dim);
  s.max = take(queries);
  s.sum = take(queries);
  s.q_max = take(queries);
  s.total = at;
  return s;
}

struct LiveRange {
  std::int64_t begin, end;  // absolute positions
  bool operator==(const LiveRange&) const = default;
};

template <class V>
class AttentionKernel {
 public:
  using F = typename V::F;
  using I = typename V::I;

  AttentionKernel(const AttentionTask& task, const AttentionItem& item, float* scratch)
      : task_(task), cache_(task.cache), item_(item), heads_(task.num_heads / task.cache.num_kv_heads), head_dim_(task.cache.head_dim),
        s_(LayOutScratch(item.num_rows * heads_, head_dim_)), scratch_(scratch) {}

  void Run() {
    PrepareQueries();
    std::int64_t first = LiveOf(0).begin, end = 0;
    for (std::int64_t row = 0; row < item_.num_rows; ++row) {
      first = LiveOf(row).begin < first ? LiveOf(row).begin : first;
      end = LiveOf(row).end > end ? LiveOf(row).end : end;
      for (std::int64_t h = 0; h < heads_; ++h) scratch_[s_.sum + row * heads_ + h] = 0.0f;  // 0: no tile yet; a tile's sum is 1 or more
    }
    for (std::int64_t tile = first / kTile * kTile; tile < end; tile += kTile) AttendTile(tile);
    for (std::int64_t row = 0; row < item_.num_rows; ++row) WriteRow(row);
  }

 private:
  // Positions that a row sees: all up to its own, or the window's.
  LiveRange LiveOf(std::int64_t row) const {
    const std::int64_t position = task_.positions[item_.first_row + row], begin = position - task_.window + 1;
    return {task_.window == 0 || begin < 0 ? 0 : begin, position + 1};
  }
  LiveRange LiveIn(std::int64_t row, std::int64_t tile) const {
    const LiveRange live = LiveOf(row);
    return {live.begin > tile ? live.begin : tile, live.end < tile + kTile ? live.end : tile + kTile};
  }

  const float* Query(std::int64_t query) const {
    if (task_.tensor_core) return scratch_ + s_.q + query * s_.padded_dim;
    const std::int64_t row = item_.first_row + query / heads_, head = item_.kv_head * heads_ + query % heads_;
    return task_.q + (row * task_.num_heads + head) * head_dim_;
  }

  void PrepareQueries() {
    if (!task_.tensor_core) return;
    for (std::int64_t query = 0; query < s_.queries; ++query) {
      const std::int64_t row = item_.first_row + query / heads_, head = item_.kv_head * heads_ + query % heads_;
      const std::int32_t largest = RoundRow<V>(task_.q + (row * task_.num_heads + head) * head_dim_, head_dim_,
                                               scratch_ + s_.q + query * s_.padded_dim, Words(s_.q_exponents) + query * s_.padded_dim / 2);
      std::memcpy(scratch_ + s_.q_max + query, &largest, 4);
    }
  }

  std::uint32_t* Words(std::int64_t place) { return reinterpret_cast<std::uint32_t*>(scratch_ + place); }

  // --- Gathering ---------------------------------------------------------------------------------------------------------------
  static constexpr std::int64_t ElementBytes(KvElement element) {
    return element == KvElement::kF32 ? 4 : element == KvElement::kInt8 ? 1 : 2;
  }
  template <KvElement kElement>
  static F LoadWide(const std::byte* p) {
    if constexpr (kElement == KvElement::kF32) return V::Load(reinterpret_cast<const float*>(p));
    if constexpr (kElement == KvElement::kF16) return V::LoadF16(reinterpret_cast<const std::uint16_t*>(p));
    if constexpr (kElement == KvElement::kBf16) return V::LoadBf16(reinterpret_cast<const std::uint16_t*>(p));
    if constexpr (kElement == KvElement::kInt8) return V::LoadI8(reinterpret_cast<const std::int8_t*>(p));
  }

  // Two vectors as a word of bf16 each: even in the low half.
  static I Pair(F even, F odd) {
    return V::Or(V::template Shr<16>(V::Bits(RoundToBf16<V>(even))), V::Bits(RoundToBf16<V>(odd)));
  }
  static I Fields(I pair) { return V::And(pair, V::SetI(0x7f807f80)); }
  static std::int32_t LargestField(I fields) {
    std::uint32_t lanes[kVectorLanes], largest = 0;
    V::StoreI(lanes, fields);
    for (const std::uint32_t lane : lanes) {
      const std::uint32_t low = lane & 0xffffu, high = lane >> 16, larger = low > high ? low : high;
      largest = larger > largest ? larger : largest;
    }
    return static_cast<std::int32_t>(largest >> 7);
  }
  static I MaxFields(I a, I b) {  // per 16 bits; fields are below 2^15, so halves compare as signed numbers
    const I mask = V::SetI(0xffff);
    return V::Or(V::MaxI(V::And(a, mask), V::And(b, mask)), V::template Shl<16>(V::MaxI(V::template Shr<16>(a), V::template Shr<16>(b))));
  }

  // Keys of the panel's sixteen positions from `position`; those outside `live` are zero. Returns the fields seen (bf16-tc).
  template <KvElement kElement>
  I GatherKeyPanel(std::int64_t position, int panel, LiveRange live) {
    constexpr std::int64_t kBytes = ElementBytes(kElement);
    alignas(64) std::byte merged[kMaxHeadDim * kVectorLanes * kBytes];
    alignas(64) float scales[kVectorLanes] = {};
    const std::byte* source = merged;
    if (cache_.run == kVectorLanes) {
      const std::int64_t block = item_.block_table[position / cache_.block_size], inside = position % cache_.block_size;
      source = KeyHead(block) + inside * head_dim_ * kBytes;
      if constexpr (kElement == KvElement::kInt8) std::memcpy(scales, KeyScales(block) + inside, sizeof scales);
    } else {
      // Blocks of 8: two runs side by side.
      std::memset(merged, 0, head_dim_ * kVectorLanes * kBytes);
      for (std::int64_t half = 0; half < kVectorLanes; half += cache_.run) {
        if (position + half + cache_.run <= live.begin || position + half >= live.end) continue;
        const std::int64_t block = item_.block_table[(position + half) / cache_.block_size];
        for (std::int64_t d = 0; d < head_dim_; ++d) {
          std::memcpy(merged + (d * kVectorLanes + half) * kBytes, KeyHead(block) + d * cache_.run * kBytes, cache_.run * kBytes);
        }
        if constexpr (kElement == KvElement::kInt8) std::memcpy(scales + half, KeyScales(block), cache_.run * sizeof(float));
      }
    }
    std::int32_t mask_lanes[kVectorLanes];
    for (int lane = 0; lane < kVectorLanes; ++lane) mask_lanes[lane] = position + lane >= live.begin && position + lane < live.end ? -1 : 0;
    const I mask = V::LoadI(mask_lanes);
    const auto load = [&](std::int64_t d) {
      F value = LoadWide<kElement>(source + d * (kVectorLanes * kBytes));
      if constexpr (kElement == KvElement::kInt8) value = V::Mul(value, V::Load(scales));
      return V::Float(V::And(V::Bits(value), mask));
    };
    I fields = V::SetI(0);
    if (!task_.tensor_core) {
      float* out = scratch_ + s_.keys + panel * head_dim_ * kVectorLanes;
      for (std::int64_t d = 0; d < head_dim_; ++d) V::Store(out + d * kVectorLanes, load(d));
    } else {
      std::uint32_t* out = Words(s_.keys) + panel * s_.padded_dim / 2 * kVectorLanes;
      for (std::int64_t d = 0; d < s_.padded_dim; d += 2) {
        const I pair = d < head_dim_ ? Pair(load(d), d + 1 < head_dim_ ? load(d + 1) : V::Set(0.0f)) : V::SetI(0);
        V::StoreI(out + d / 2 * kVectorLanes, pair);
        fields = MaxFields(fields, Fields(pair));
      }
    }
    return fields;
  }

  // Values of all positions of the tile; those outside `live` are zero.
  template <KvElement kElement>
  I GatherValues(std::int64_t tile, LiveRange live) {
    constexpr std::int64_t kBytes = ElementBytes(kElement);
    I fields = V::SetI(0);
    for (std::int64_t j = 0; j < kTile; j += 2) {
      const std::byte* rows[2] = {nullptr, nullptr};
      F scales[2] = {V::Set(0.0f), V::Set(0.0f)};
      for (int i = 0; i < 2; ++i) {
        const std::int64_t at = tile + j + i;
        if (at < live.begin || at >= live.end) continue;
        const std::int64_t block = item_.block_table[at / cache_.block_size], inside = at % cache_.block_size;
        rows[i] = ValueHead(block) + inside * cache_.value_stride * kBytes;
        if constexpr (kElement == KvElement::kInt8) scales[i] = V::Set(ValueScales(block)[inside]);
      }
      if (!task_.tensor_core && rows[0] == nullptr && rows[1] == nullptr) continue;  // f32-fma passes over live positions only
      const auto load = [&](int i, std::int64_t d) {
        if (rows[i] == nullptr) return V::Set(0.0f);
        F value = LoadWide<kElement>(rows[i] + d * kBytes);
        if constexpr (kElement == KvElement::kInt8) value = V::Mul(value, scales[i]);
        return value;
      };
      for (std::int64_t d = 0; d < s_.padded_dim; d += kVectorLanes) {
        const F even = load(0, d), odd = load(1, d);
        if (!task_.tensor_core) {
          V::Store(scratch_ + s_.values + j * s_.padded_dim + d, even);
          V::Store(scratch_ + s_.values + (j + 1) * s_.padded_dim + d, odd);
        } else {
          const I pair = Pair(even, odd);
          V::StoreI(Words(s_.values) + (d / kVectorLanes * (kTile / 2) + j / 2) * kVectorLanes, pair);
          fields = MaxFields(fields, Fields(pair));
        }
      }
    }
    return fields;
  }

  template <KvElement kElement>
  void GatherAs(std::int64_t tile, LiveRange live) {
    I fields = V::SetI(0);
    for (int panel = 0; panel < kTilePanels; ++panel) {
      const std::int64_t position = tile + panel * kVectorLanes;
      if (position + kVectorLanes <= live.begin || position >= live.end) continue;
      fields = MaxFields(fields, GatherKeyPanel<kElement>(position, panel, live));
    }
    key_field_ = LargestField(fields);
    value_field_ = LargestField(GatherValues<kElement>(tile, live));
  }

  void Gather(std::int64_t tile, LiveRange live) {
    switch (cache_.element) {
      case KvElement::kF32: return GatherAs<KvElement::kF32>(tile, live);
      case KvElement::kF16: return GatherAs<KvElement::kF16>(tile, live);
      case KvElement::kBf16: return GatherAs<KvElement::kBf16>(tile, live);
      case KvElement::kInt8: return GatherAs<KvElement::kInt8>(tile, live);
    }
  }

  const std::byte* KeyHead(std::int64_t block) const {
    return cache_.keys + (block * cache_.num_kv_heads + item_.kv_head) * cache_.key_head_bytes;
  }
  const std::byte* ValueHead(std::int64_t block) const {
    return cache_.values + (block * cache_.num_kv_heads + item_.kv_head) * cache_.value_head_bytes;
  }
  const float* KeyScales(std::int64_t block) const {
    return cache_.key_scales + (block * cache_.num_kv_heads + item_.kv_head) * cache_.block_size;
  }
  const float* ValueScales(std::int64_t block) const {
    return cache_.value_scales + (block * cache_.num_kv_heads + item_.kv_head) * cache_.block_size;
  }

  // --- One tile ----------------------------------------------------------------------------------------------------------------
  void AttendTile(std::int64_t tile) {
    LiveRange all{tile + kTile, tile};
    for (std::int64_t row = 0; row < item_.num_rows; ++row) {
      const LiveRange live = LiveIn(row, tile);
      if (live.begin >= live.end) continue;
      all = {live.begin < all.begin ? live.begin : all.begin, live.end > all.end ? live.end : all.end};
    }
    if (all.begin >= all.end) return;
    Gather(tile, all);
    // A value that is not finite must not reach a row for which its position is absent, not even times zero: gather again per row.
    const bool alone = task_.tensor_core && value_field_ >= kNonFiniteField;
    for (std::int64_t row = 0; row < item_.num_rows;) {
      const LiveRange live = LiveIn(row, tile);
      std::int64_t row_end = row + 1;
      while (row_end < item_.num_rows && LiveIn(row_end, tile) == live) ++row_end;
      if (live.begin < live.end) {
        if (alone) Gather(tile, live);
        for (std::int64_t query = row * heads_; query < row_end * heads_;) {
          const std::int64_t left = row_end * heads_ - query;
          if (left >= 4) AttendQueries<4>(tile, live, query), query += 4;
          else if (left == 3) AttendQueries<3>(tile, live, query), query += 3;
          else if (left == 2) AttendQueries<2>(tile, live, query), query += 2;
          else AttendQueries<1>(tile, live, query), query += 1;
        }
      }
      row = row_end;
    }
  }

  // kQueries queries with one live range.
  template <int kQueries>
  void AttendQueries(std::int64_t tile, LiveRange live, std::int64_t query) {
    alignas(64) float tile_output[kQueries][kMaxHeadDim];
    float tile_max[kQueries], tile_sum[kQueries];
    if (task_.tensor_core) ScoresTensorCore<kQueries>(tile, live, query);
    else ScoresF32<kQueries>(tile, live, query);
    for (int i = 0; i < kQueries; ++i) SoftMax(tile, live, query + i, tile_max[i], tile_sum[i]);
    if (task_.tensor_core) OutputsTensorCore<kQueries>(tile, live, query, tile_output);
    else OutputsF32<kQueries>(tile, live, query, tile_output);
    for (int i = 0; i < kQueries; ++i) FoldTile(query + i, tile_max[i], tile_sum[i], tile_output[i]);
  }

  template <int kQueries>
  void ScoresF32(std::int64_t tile, LiveRange live, std::int64_t query) {
    constexpr int kPanels = V::kManyPanels > 1 ? 4 : 1;
    const float* q[kQueries];
    for (int i = 0; i < kQueries; ++i) q[i] = Query(query + i);
    const F scale = V::Set(task_.scale);
    const std::int64_t panel_end = (live.end - tile + kVectorLanes - 1) / kVectorLanes;
    for (std::int64_t panel = (live.begin - tile) / kVectorLanes / kPanels * kPanels; panel < panel_end; panel += kPanels) {
      const float* keys = scratch_ + s_.keys + panel * head_dim_ * kVectorLanes;
      F acc[kQueries][kPanels];
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) acc[i][p] = V::Set(0.0f);
      }
      for (std::int64_t d = 0; d < head_dim_; ++d) {
        F key[kPanels];
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) key[p] = V::Load(keys + (p * head_dim_ + d) * kVectorLanes);
#pragma GCC unroll 4
        for (int i = 0; i < kQueries; ++i) {
          const F value = V::Set(q[i][d]);
#pragma GCC unroll 4
          for (int p = 0; p < kPanels; ++p) acc[i][p] = V::Fma(key[p], value, acc[i][p]);
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) {
          V::Store(scratch_ + s_.p + (query + i) * kTile + (panel + p) * kVectorLanes, V::Mul(acc[i][p], scale));
        }
      }
    }
  }

  template <int kQueries>
  void ScoresTensorCore(std::int64_t tile, LiveRange live, std::int64_t query) {
    ChainRows<kQueries> x;
    for (int i = 0; i < kQueries; ++i) {
      x.values[i] = scratch_ + s_.q + (query + i) * s_.padded_dim;
      x.exponents[i] = Words(s_.q_exponents) + (query + i) * s_.padded_dim / 2;
      std::memcpy(&x.max_exponent[i], scratch_ + s_.q_max + query + i, 4);
    }
    const std::int64_t panel_end = (live.end - tile + kVectorLanes - 1) / kVectorLanes;
    for (std::int64_t panel = (live.begin - tile) / kVectorLanes; panel < panel_end; ++panel) {
      alignas(64) float acc[kQueries][kVectorLanes] = {};
      const std::int64_t position = tile + panel * kVectorLanes;
      const std::uint32_t lanes = LiveLanes(live.end - position) & ~(position < live.begin ? LiveLanes(live.begin - position) : 0u);
      Bf16Chain<V, kQueries>(Words(s_.keys) + panel * s_.padded_dim / 2 * kVectorLanes, key_field_, x, 0, s_.padded_dim / 16, lanes, acc);
      for (int i = 0; i < kQueries; ++i) {
        V::Store(scratch_ + s_.p + (query + i) * kTile + panel * kVectorLanes, V::Mul(V::Load(acc[i]), V::Set(task_.scale)));
      }
    }
  }

  // Scores of the live positions to probabilities, absent ones to +0.
  void SoftMax(std::int64_t tile, LiveRange live, std::int64_t query, float& max, float& sum) {
    float* p = scratch_ + s_.p + query * kTile;
    const std::int64_t begin = live.begin - tile, end = live.end - tile;
    const auto absent = [&](float value) {
      for (std::int64_t j = 0; j < begin; ++j) p[j] = value;
      for (std::int64_t j = end; j < kTile; ++j) p[j] = value;
    };
    // Absent places repeat a live score while the largest is sought.
    absent(p[begin]);
    F largest = V::Load(p);
    for (int v = 1; v < kTilePanels; ++v) largest = V::Max(largest, V::Load(p + v * kVectorLanes));
    float lanes[kVectorLanes];
    V::Store(lanes, largest);
    max = lanes[0];
    for (const float lane : lanes) max = lane > max ? lane : max;
    for (int v = 0; v < kTilePanels; ++v) {
      F weight = Exp<V>(V::Sub(V::Load(p + v * kVectorLanes), V::Set(max)));
      if (task_.tensor_core) weight = RoundToBf16<V>(weight);
      V::Store(p + v * kVectorLanes, weight);
    }
    absent(0.0f);
    // The strided tree: 64, 32, 16 across vectors, 8 .. 1 inside the last.
    F e[kTilePanels];
#pragma GCC unroll 8
    for (int v = 0; v < kTilePanels; ++v) e[v] = V::Load(p + v * kVectorLanes);
#pragma GCC unroll 4
    for (int h = kTilePanels / 2; h >= 1; h /= 2) {
#pragma GCC unroll 4
      for (int v = 0; v < h; ++v) e[v] = V::Add(e[v], e[v + h]);
    }
    V::Store(lanes, e[0]);
    for (int h = kVectorLanes / 2; h >= 1; h /= 2) {
      for (int l = 0; l < h; ++l) lanes[l] = lanes[l] + lanes[l + h];
    }
    sum = lanes[0];
  }

  template <int kQueries>
  void OutputsF32(std::int64_t tile, LiveRange live, std::int64_t query, float (&out)[kQueries][kMaxHeadDim]) {
    constexpr int kPanels = V::kManyPanels > 1 ? 4 : 1;
    const std::int64_t panels = s_.padded_dim / kVectorLanes;
    const float* p = scratch_ + s_.p + query * kTile;
    for (std::int64_t panel = 0; panel < panels; panel += kPanels) {
      // At the edge a panel is computed twice.
      std::int64_t place[kPanels];
      for (int i = 0; i < kPanels; ++i) place[i] = (panel + i < panels ? panel + i : panels - 1) * kVectorLanes;
      F acc[kQueries][kPanels];
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
        for (int c = 0; c < kPanels; ++c) acc[i][c] = V::Set(0.0f);
      }
      for (std::int64_t j = live.begin - tile; j < live.end - tile; ++j) {
        const float* values = scratch_ + s_.values + j * s_.padded_dim;
        F value[kPanels];
#pragma GCC unroll 4
        for (int c = 0; c < kPanels; ++c) value[c] = V::Load(values + place[c]);
#pragma GCC unroll 4
        for (int i = 0; i < kQueries; ++i) {
          const F weight = V::Set(p[i * kTile + j]);
#pragma GCC unroll 4
          for (int c = 0; c < kPanels; ++c) acc[i][c] = V::Fma(weight, value[c], acc[i][c]);
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
        for (int c = 0; c < kPanels; ++c) V::Store(out[i] + place[c], acc[i][c]);
      }
    }
  }

  template <int kQueries>
  void OutputsTensorCore(std::int64_t tile, LiveRange live, std::int64_t query, float (&out)[kQueries][kMaxHeadDim]) {
    ChainRows<kQueries> x;
    for (int i = 0; i < kQueries; ++i) {
      float* p = scratch_ + s_.p + (query + i) * kTile;
      std::uint32_t* fields = Words(s_.p_exponents) + (query + i) * kTile / 2;
      x.values[i] = p;
      x.exponents[i] = fields;
      x.max_exponent[i] = RoundRow<V>(p, kTile, p, fields);  // p is bf16 already
    }
    // Steps before the first live position add zeros to +0: no-ops.
    const std::int64_t first = (live.begin - tile) / 16, end = (live.end - tile + 15) / 16;
    for (std::int64_t d = 0; d < head_dim_; d += kVectorLanes) {
      alignas(64) float acc[kQueries][kVectorLanes] = {};
      Bf16Chain<V, kQueries>(Words(s_.values) + d * (kTile / 2), value_field_, x, first, end, LiveLanes(head_dim_ - d), acc);
      for (int i = 0; i < kQueries; ++i) V::Store(out[i] + d, V::Load(acc[i]));
    }
  }

  void FoldTile(std::int64_t query, float tile_max, float tile_sum, const float* tile_output) {
    float& max = scratch_[s_.max + query];
    float& sum = scratch_[s_.sum + query];
    float* output = scratch_ + s_.output + query * s_.padded_dim;
    if (sum == 0.0f) {
      max = tile_max;
      sum = tile_sum;
      for (std::int64_t d = 0; d < s_.padded_dim; d += kVectorLanes) V::Store(output + d, V::Load(tile_output + d));
      return;
    }
    const float larger = max < tile_max ? tile_max : max;
    alignas(64) float factors[kVectorLanes] = {max - larger, tile_max - larger};
    V::Store(factors, Exp<V>(V::Load(factors)));
    const F a = V::Set(factors[0]), b = V::Set(factors[1]);
    sum = __builtin_fmaf(sum, factors[0], tile_sum * factors[1]);
    for (std::int64_t d = 0; d < s_.padded_dim; d += kVectorLanes) {
      V::Store(output + d, V::Fma(V::Load(output + d), a, V::Mul(V::Load(tile_output + d), b)));
    }
    max = larger;
  }

  void WriteRow(std::int64_t row) {
    for (std::int64_t h = 0; h < heads_; ++h) {
      const std::int64_t query = row * heads_ + h;
      const F sum = V::Set(scratch_[s_.sum + query]);
      const float* output = scratch_ + s_.output + query * s_.padded_dim;
      float* out = task_.out + ((item_.first_row + row) * task_.num_heads + item_.kv_head * heads_ + h) * head_dim_;
      for (std::int64_t d = 0; d < head_dim_; d += kVectorLanes) {
        const F y = V::Div(V::Load(output + d), sum);
        if (head_dim_ - d >= kVectorLanes) V::Store(out + d, y);
        else V::StorePartial(out + d, y, head_dim_ - d);
      }
    }
  }

  const AttentionTask& task_;
  const CacheLayer& cache_;
  const AttentionItem& item_;
  const std::int64_t heads_, head_dim_;
  const AttentionScratchLayout s_;
  float* scratch_;
  std::int32_t key_field_ = 0, value_field_ = 0;  // largest exponent fields of the gathered tile
};

template <class V>
void Attention(const AttentionTask& task, const AttentionItem& item, float* scratch) {
  AttentionKernel<V>(task, item, scratch).Run();
}

}  // namespace
}  // namespace isobit::cpu
