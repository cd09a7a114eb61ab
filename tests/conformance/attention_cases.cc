#include <fmt/format.h>

#include <algorithm>

#include "cases.h"
#include "contract/float_bits.h"
#include "inputs.h"

namespace isobit::conformance {
namespace {

using contract::Contract;
using contract::KvType;
using contract::Preset;

// Rows of one sequence in a step: positions [begin, end).
struct Stretch {
  std::int64_t begin, end;
};

struct World {
  AttentionSpec attention;
  std::int64_t block_size;
  std::vector<Stretch> sequences;
  Data data = Data::kNormal;
};

constexpr std::int64_t kLayers = 2;

std::int64_t BlocksOf(const World& world) {
  std::int64_t blocks = 3;
  for (const Stretch& sequence : world.sequences) blocks += (sequence.end + world.block_size - 1) / world.block_size;
  return blocks;
}

// Blocks are dealt out across the sequences backwards and with gaps, so that no table is in order.
std::vector<std::vector<std::int32_t>> DealBlocks(const World& world) {
  std::vector<std::vector<std::int32_t>> tables(world.sequences.size());
  std::int64_t next = BlocksOf(world) - 2;
  for (bool any = true; any;) {
    any = false;
    for (std::size_t s = 0; s < tables.size(); ++s) {
      if (static_cast<std::int64_t>(tables[s].size()) * world.block_size >= world.sequences[s].end) continue;
      tables[s].push_back(static_cast<std::int32_t>(next--));
      any = true;
    }
  }
  return tables;
}

BatchInputs MakeBatch(const World& world, bool history) {
  BatchInputs batch;
  batch.block_tables = DealBlocks(world);
  for (std::size_t s = 0; s < world.sequences.size(); ++s) {
    const Stretch rows = history ? Stretch{0, world.sequences[s].begin} : world.sequences[s];
    for (std::int64_t position = rows.begin; position < rows.end; ++position) {
      batch.token_ids.push_back(0);
      batch.positions.push_back(static_cast<std::int32_t>(position));
      batch.sequence_index.push_back(static_cast<std::int32_t>(s));
    }
  }
  return batch;
}

void Write(Backend& backend, KvMemory& cache, std::int64_t layer, const World& world, const BatchInputs& batch, std::uint64_t seed) {
  const std::int64_t cols = world.attention.num_kv_heads * world.attention.head_dim, rows = batch.num_tokens();
  if (rows == 0) return;
  backend.WriteKv(cache, layer, Filled(backend, rows, cols, Floats(world.data, rows * cols, seed)),
                  Filled(backend, rows, cols, Floats(world.data, rows * cols, seed + 1)), batch);
}

// Every slot of every block and layer holds NaN: whatever an op reads beyond a sequence's end will show.
void Poison(Backend& backend, KvMemory& cache, const World& world) {
  BatchInputs batch;
  batch.block_tables.resize(1);
  for (std::int64_t block = 0; block < cache.spec.num_blocks; ++block) batch.block_tables[0].push_back(static_cast<std::int32_t>(block));
  for (std::int64_t position = 0; position < cache.spec.num_blocks * cache.spec.block_size; ++position) {
    batch.token_ids.push_back(0);
    batch.positions.push_back(static_cast<std::int32_t>(position));
    batch.sequence_index.push_back(0);
  }
  const std::int64_t cols = world.attention.num_kv_heads * world.attention.head_dim, rows = batch.num_tokens();
  const Matrix nan = Filled(backend, rows, cols, std::vector<float>(rows * cols, contract::FloatOf(0x7fc00000)));
  for (std::int64_t layer = 0; layer < kLayers; ++layer) backend.WriteKv(cache, layer, nan, nan, batch);
}

std::unique_ptr<KvMemory> MakeCache(Backend& backend, const World& world) {
  auto cache = backend.MakeKvMemory({.num_layers = kLayers,
                                    .num_kv_heads = world.attention.num_kv_heads,
                                    .head_dim = world.attention.head_dim,
                                    .num_blocks = BlocksOf(world),
                                    .block_size = world.block_size,
                                    .type = backend.contract().kv_type});
  ISOBIT_CHECK(cache.ok(), "{}", cache.error().ToString());
  return std::move(*cache);
}

void Attend(Backend& backend, Recorder& recorder, const KvMemory& cache, std::int64_t layer, const World& world, const BatchInputs& batch) {
  const std::int64_t cols = world.attention.num_heads * world.attention.head_dim, rows = batch.num_tokens();
  std::vector<float> values = Floats(world.data, rows * cols, 204);
  const Guarded out(backend, rows, cols);
  backend.Attention(cache, layer, world.attention, Filled(backend, rows, cols, values), batch, out.inside());
  out.Record(backend, recorder);
}

void RunAttention(Backend& backend, Recorder& recorder, const World& world) {
  const auto cache = MakeCache(backend, world);
  Poison(backend, *cache, world);
  const BatchInputs history = MakeBatch(world, true), batch = MakeBatch(world, false);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    Write(backend, *cache, layer, world, history, 200 + 10 * layer);
    Write(backend, *cache, layer, world, batch, 202 + 10 * layer);
  }
  for (std::int64_t layer = 0; layer < kLayers; ++layer) Attend(backend, recorder, *cache, layer, world, batch);
}

void Add(std::vector<Case>& cases, const std::string& op, const std::string& name, Preset preset, KvType kv, const World& world) {
  cases.push_back({op, fmt::format("{}_{}_{}", Name(preset), Name(kv), name), Contract{.preset = preset, .kv_type = kv},
                   [world](Backend& backend, Recorder& recorder) { RunAttention(backend, recorder, world); }});
}

}  // namespace

void AddAttentionCases(std::vector<Case>& cases) {
  // Decode, prefill and mixed steps; tile edges at 127, 128, 129; a group of three heads as in SmolLM2.
  const std::vector<Stretch> mixed = {{0, 5}, {130, 131}, {0, 1}, {120, 137}};
  for (const Preset preset : {Preset::kPortable, Preset::kTensorCore}) {
    for (const KvType kv : {KvType::kF32, KvType::kF16, KvType::kBf16, KvType::kInt8}) {
      Add(cases, "Attention", "mixed_h9kv3d64b16", preset, kv, {{9, 3, 64, 0}, 16, mixed});
      Add(cases, "WriteKv", "h2kv2d32b8", preset, kv, {{2, 2, 32, 0}, 8, {{0, 20}, {127, 128}}});
      Add(cases, "Attention", "window_h4kv2d32b32", preset, kv, {{4, 2, 32, 37}, 32, {{150, 190}, {30, 45}}});
    }
    // Geometry: no grouping, one kv head, head sizes that fill no vector, every block size.
    Add(cases, "Attention", "h3kv3d8b8", preset, KvType::kBf16, {{3, 3, 8, 0}, 8, {{0, 40}, {140, 141}}});
    Add(cases, "Attention", "h7kv1d20b16", preset, KvType::kBf16, {{7, 1, 20, 0}, 16, {{0, 3}, {129, 131}}});
    Add(cases, "Attention", "h2kv1d128b64", preset, KvType::kBf16, {{2, 1, 128, 0}, 64, {{60, 70}, {300, 301}}});
    Add(cases, "Attention", "h5kv1d48b128", preset, KvType::kF16, {{5, 1, 48, 0}, 128, {{0, 2}, {255, 258}}});
    Add(cases, "Attention", "h4kv4d16b256", preset, KvType::kF32, {{4, 4, 16, 200}, 256, {{255, 259}, {0, 33}}});
    Add(cases, "Attention", "window1_h2kv1d16b16", preset, KvType::kBf16, {{2, 1, 16, 1}, 16, {{0, 20}, {128, 129}}});
    for (const Data data : kAllData) {
      Add(cases, "Attention", fmt::format("{}_h4kv2d16b16", Name(data)), preset, KvType::kF32, {{4, 2, 16, 0}, 16, {{0, 36}, {135, 136}}, data});
      Add(cases, "Attention", fmt::format("{}_h4kv2d16b16", Name(data)), preset, KvType::kBf16, {{4, 2, 16, 0}, 16, {{0, 18}, {135, 136}}, data});
    }
  }
}

}  // namespace isobit::conformance
