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
inline constexpr std::int64_t kRowsInPlace = 2;

// Where an item's scratch lies. Queries are [row][head of the group]. Sizes in floats; a word of bf16 pairs or exponents is one float.
struct AttentionScratchLayout {
  std::int64_t queries, padded_dim;
  std::int64_t keys, values;             // f32: [8][head_dim][16], [128][padded_dim]; pairs: [8][padded_dim / 2][16], [dims / 16][64][16]
  std::int64_t q, q_exponents;           // bf16-tc only: [queries][padded_dim], [queries][padded_dim / 2]
  std::int64_t p, p_exponents;           // [queries][128], [queries][64]
  std::int64_t output, max, sum, q_max;  // [queries][padded_dim], [queries] each
  std::int64_t tile_max, tile_sum;       // [queries]
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
  s.tile_max = take(queries);
  s.tile_sum = take(queries);
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
  template <KvElement kElement>
  static I Pair(F even, F odd) {
    if constexpr (kElement != KvElement::kBf16) {
      even = RoundToBf16<V>(even);
      odd = RoundToBf16<V>(odd);
    }
    return V::Or(V::template Shr<16>(V::Bits(even)), V::Bits(odd));
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

  // Finds the tile's key panels and value rows in the cache.
  void Locate(std::int64_t tile, LiveRange live) {
    const std::int64_t bytes = ElementBytes(cache_.element);
    const bool scaled = cache_.element == KvElement::kInt8;
    for (std::int64_t j = (live.begin - tile) / kVectorLanes * kVectorLanes; j < live.end - tile; ++j) {
      const std::int64_t block = item_.block_table[(tile + j) / cache_.block_size], inside = (tile + j) % cache_.block_size;
      if (j % kVectorLanes == 0) {
        key_panels_[j / kVectorLanes] = KeyHead(block) + inside * head_dim_ * bytes;
        if (scaled) key_scales_[j / kVectorLanes] = KeyScales(block) + inside;
      }
      value_rows_[j] = ValueHead(block) + inside * cache_.value_stride * bytes;
      if (scaled) value_scales_[j] = ValueScales(block)[inside];
    }
  }

  // f32-fma and few rows: panels and rows are read where they lie; widening them for a few heads costs less than a copy.
  bool ReadsInPlace() const { return !task_.tensor_core && item_.num_rows <= kRowsInPlace && cache_.run == kVectorLanes; }

  // Blocks of 8 positions: two runs side by side, as a panel. Runs without live positions are zero.
  template <KvElement kElement>
  void MergeKeys(std::int64_t position, LiveRange live, std::byte* merged, float* scales) {
    constexpr std::int64_t kBytes = ElementBytes(kElement);
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

  // Keys of the panel's sixteen positions from `position`; those outside `live` are zero. Returns the fields seen (bf16-tc).
  template <KvElement kElement>
  I GatherKeyPanel(std::int64_t position, std::int64_t panel, LiveRange live) {
    constexpr std::int64_t kBytes = ElementBytes(kElement);
    alignas(64) std::byte merged[kMaxHeadDim * kVectorLanes * kBytes];
    alignas(64) float merged_scales[kVectorLanes] = {};
    const std::byte* source = key_panels_[panel];
    const float* scales = key_scales_[panel];
    if (cache_.run != kVectorLanes) {
      MergeKeys<kElement>(position, live, merged, merged_scales);
      source = merged;
      scales = merged_scales;
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
      key_panels_[panel] = reinterpret_cast<const std::byte*>(out);
    } else {
      std::uint32_t* out = Words(s_.keys) + panel * s_.padded_dim / 2 * kVectorLanes;
      for (std::int64_t d = 0; d < s_.padded_dim; d += 2) {
        const I pair = d < head_dim_ ? Pair<kElement>(load(d), d + 1 < head_dim_ ? load(d + 1) : V::Set(0.0f)) : V::SetI(0);
        V::StoreI(out + d / 2 * kVectorLanes, pair);
        fields = V::MaxU16(fields, Fields(pair));
      }
    }
    return fields;
  }

  template <KvElement kElement>
  F LoadValue(const std::byte* row, std::int64_t d, F scale) {
    const F value = LoadWide<kElement>(row + d * ElementBytes(kElement));
    return kElement == KvElement::kInt8 ? V::Mul(value, scale) : value;
  }

  // f32-fma: live positions only; its chains pass over no others.
  template <KvElement kElement>
  void GatherValuesF32(std::int64_t tile, LiveRange live) {
    for (std::int64_t j = live.begin - tile; j < live.end - tile; ++j) {
      float* out = scratch_ + s_.values + j * s_.padded_dim;
      const F scale = V::Set(value_scales_[j]);
      for (std::int64_t d = 0; d < s_.padded_dim; d += kVectorLanes) V::Store(out + d, LoadValue<kElement>(value_rows_[j], d, scale));
      value_rows_[j] = reinterpret_cast<const std::byte*>(out);
    }
  }

  // bf16-tc: all positions of the steps with live ones; absent ones are zero. Returns the fields seen.
  template <KvElement kElement>
  I GatherValuePairs(std::int64_t tile, LiveRange live) {
    static constexpr std::byte kZeros[kMaxHeadDim * 4] = {};
    I fields = V::SetI(0);
    for (std::int64_t j = (live.begin - tile) / 16 * 16; j < (live.end - tile + 15) / 16 * 16; j += 2) {
      const std::byte* rows[2];
      F scales[2];
      for (int i = 0; i < 2; ++i) {
        const bool is_live = tile + j + i >= live.begin && tile + j + i < live.end;
        rows[i] = is_live ? value_rows_[j + i] : kZeros;
        scales[i] = V::Set(is_live ? value_scales_[j + i] : 0.0f);
      }
      for (std::int64_t d = 0; d < s_.padded_dim; d += kVectorLanes) {
        const I pair = Pair<kElement>(LoadValue<kElement>(rows[0], d, scales[0]), LoadValue<kElement>(rows[1], d, scales[1]));
        V::StoreI(Words(s_.values) + (d / kVectorLanes * (kTile / 2) + j / 2) * kVectorLanes, pair);
        fields = V::MaxU16(fields, Fields(pair));
      }
    }
    return fields;
  }

  template <KvElement kElement>
  void GatherAs(std::int64_t tile, LiveRange live) {
    I fields = V::SetI(0);
    for (std::int64_t panel = (live.begin - tile) / kVectorLanes; panel * kVectorLanes < live.end - tile; ++panel) {
      fields = V::MaxU16(fields, GatherKeyPanel<kElement>(tile + panel * kVectorLanes, panel, live));
    }
    key_field_ = LargestField(fields);
    if (task_.tensor_core) value_field_ = LargestField(GatherValuePairs<kElement>(tile, live));
    else GatherValuesF32<kElement>(tile, live);
  }

  void Gather(std::int64_t tile, LiveRange live) {
    Locate(tile, live);
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
    if (ReadsInPlace()) Locate(tile, all);
    else Gather(tile, all);
    // A value that is not finite must not reach a row for which its position is absent, not even times zero: gather again per row.
    const bool alone = task_.tensor_core && value_field_ >= kNonFiniteField;
    for (std::int64_t row = 0; row < item_.num_rows;) {
      const LiveRange live = LiveIn(row, tile);
      std::int64_t row_end = row + 1;
      while (row_end < item_.num_rows && LiveIn(row_end, tile) == live) ++row_end;
      if (live.begin < live.end) {
        if (alone) Gather(tile, live);
        // Three passes over the queries rather than one: keys, then values, stay in the first-level cache.
        const std::int64_t begin = row * heads_, end = row_end * heads_;
        InFours(begin, end, [&]<int kQueries>(std::int64_t query) { Scores<kQueries>(tile, live, query); });
        for (std::int64_t query = begin; query < end; ++query) SoftMax(tile, live, query, TileMax()[query], TileSum()[query]);
        InFours(begin, end, [&]<int kQueries>(std::int64_t query) { OutputsAndFold<kQueries>(tile, live, query); });
      }
      row = row_end;
    }
  }

  float* TileMax() { return scratch_ + s_.tile_max; }
  float* TileSum() { return scratch_ + s_.tile_sum; }

  // function.operator()<count>(first) over [begin, end) in fours, then the rest.
  template <class Function>
  static void InFours(std::int64_t begin, std::int64_t end, const Function& function) {
    for (; begin + 4 <= end; begin += 4) function.template operator()<4>(begin);
    if (end - begin == 3) function.template operator()<3>(begin);
    if (end - begin == 2) function.template operator()<2>(begin);
    if (end - begin == 1) function.template operator()<1>(begin);
  }

  // How the tile's keys and values lie: gathered as f32, or as the cache stores them.
  KvElement ReadElement() const { return ReadsInPlace() ? cache_.element : KvElement::kF32; }

  template <int kQueries>
  void Scores(std::int64_t tile, LiveRange live, std::int64_t query) {
    if (task_.tensor_core) return ScoresTensorCore<kQueries>(tile, live, query);
    switch (ReadElement()) {
      case KvElement::kF32: return ScoresF32<kQueries, KvElement::kF32>(tile, live, query);
      case KvElement::kF16: return ScoresF32<kQueries, KvElement::kF16>(tile, live, query);
      case KvElement::kBf16: return ScoresF32<kQueries, KvElement::kBf16>(tile, live, query);
      case KvElement::kInt8: return ScoresF32<kQueries, KvElement::kInt8>(tile, live, query);
    }
  }

  template <int kQueries>
  void Outputs(std::int64_t tile, LiveRange live, std::int64_t query, float (&out)[kQueries][kMaxHeadDim]) {
    if (task_.tensor_core) return OutputsTensorCore<kQueries>(tile, live, query, out);
    switch (ReadElement()) {
      case KvElement::kF32: return OutputsF32<kQueries, KvElement::kF32>(tile, live, query, out);
      case KvElement::kF16: return OutputsF32<kQueries, KvElement::kF16>(tile, live, query, out);
      case KvElement::kBf16: return OutputsF32<kQueries, KvElement::kBf16>(tile, live, query, out);
      case KvElement::kInt8: return OutputsF32<kQueries, KvElement::kInt8>(tile, live, query, out);
    }
  }

  template <int kQueries>
  void OutputsAndFold(std::int64_t tile, LiveRange live, std::int64_t query) {
    alignas(64) float tile_output[kQueries][kMaxHeadDim];
    Outputs<kQueries>(tile, live, query, tile_output);
    for (int i = 0; i < kQueries; ++i) FoldTile(query + i, TileMax()[query + i], TileSum()[query + i], tile_output[i]);
  }

  template <int kQueries, KvElement kElement>
  void ScoresF32(std::int64_t tile, LiveRange live, std::int64_t query) {
    constexpr int kPanels = V::kManyPanels > 1 ? 4 : 1;
    constexpr std::int64_t kStride = kVectorLanes * ElementBytes(kElement);
    const float* q[kQueries];
    for (int i = 0; i < kQueries; ++i) q[i] = Query(query + i);
    const F scale = V::Set(task_.scale);
    const std::int64_t panel_begin = (live.begin - tile) / kVectorLanes, panel_end = (live.end - tile + kVectorLanes - 1) / kVectorLanes;
    for (std::int64_t panel = panel_begin; panel < panel_end; panel += kPanels) {
      // At the edge the last panel is computed again.
      std::int64_t place[kPanels];
      const std::byte* keys[kPanels];
      F scales[kPanels];
      for (int p = 0; p < kPanels; ++p) {
        place[p] = panel + p < panel_end ? panel + p : panel_end - 1;
        keys[p] = key_panels_[place[p]];
        if constexpr (kElement == KvElement::kInt8) scales[p] = V::Load(key_scales_[place[p]]);
      }
      F acc[kQueries][kPanels];
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) acc[i][p] = V::Set(0.0f);
      }
      for (std::int64_t d = 0; d < head_dim_; ++d) {
        F key[kPanels];
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) {
          key[p] = LoadWide<kElement>(keys[p] + d * kStride);
          if constexpr (kElement == KvElement::kInt8) key[p] = V::Mul(key[p], scales[p]);
        }
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
          V::Store(scratch_ + s_.p + (query + i) * kTile + place[p] * kVectorLanes, V::Mul(acc[i][p], scale));
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

  template <int kQueries, KvElement kElement>
  void OutputsF32(std::int64_t tile, LiveRange live, std::int64_t query, float (&out)[kQueries][kMaxHeadDim]) {
    constexpr int kPanels = V::kManyPanels > 1 ? 4 : 1;
    constexpr std::int64_t kBytes = ElementBytes(kElement);
    const std::int64_t panels = s_.padded_dim / kVectorLanes;
    const float* p = scratch_ + s_.p + query * kTile;
    for (std::int64_t panel = 0; panel < panels; panel += kPanels) {
      // At the edge the last panel is computed again.
      std::int64_t place[kPanels];
      for (int c = 0; c < kPanels; ++c) place[c] = (panel + c < panels ? panel + c : panels - 1) * kVectorLanes;
      F acc[kQueries][kPanels];
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
        for (int c = 0; c < kPanels; ++c) acc[i][c] = V::Set(0.0f);
      }
      for (std::int64_t j = live.begin - tile; j < live.end - tile; ++j) {
        const std::byte* values = value_rows_[j];
        F value[kPanels];
#pragma GCC unroll 4
        for (int c = 0; c < kPanels; ++c) {
          value[c] = LoadWide<kElement>(values + place[c] * kBytes);
          if constexpr (kElement == KvElement::kInt8) value[c] = V::Mul(value[c], V::Set(value_scales_[j]));
        }
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
  std::int32_t key_field_ = 0, value_field_ = 0;  // bf16-tc: largest exponent fields of the gathered tile
  // Where the tile's key panels [head_dim][16] and value rows [padded_dim] lie: in the cache, or gathered in the scratch as f32.
  const std::byte* key_panels_[kTilePanels] = {};
  const float* key_scales_[kTilePanels] = {};  // in the cache, int8: [16]
  const std::byte* value_rows_[kTile] = {};
  float value_scales_[kTile] = {};             // in the cache, int8
};

template <class V>
void Attention(const AttentionTask& task, const AttentionItem& item, float* scratch) {
  AttentionKernel<V>(task, item, scratch).Run();
}

}  // namespace
}  // namespace isobit::cpu
