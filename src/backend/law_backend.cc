#include "backend/law_backend.h"

#include <algorithm>
#include <deque>

#include "base/check.h"
#include "contract/attention.h"
#include "contract/elementary.h"
#include "contract/norm.h"
#include "contract/weight_formats.h"

namespace isobit {
namespace {

using Head = std::vector<float>;  // [head_dim], as stored and loaded again

struct LawWeight final : LinearWeight {
  TensorView stored;
  std::vector<float> bias;
};

// Every head of every slot on its own; clarity over size.
struct LawKvMemory final : KvMemory {
  std::vector<Head> keys, values;  // [layer][slot][kv_head]

  std::size_t Index(std::int64_t layer, std::int64_t slot, std::int64_t head) const {
    return (layer * spec.num_blocks * spec.block_size + slot) * spec.num_kv_heads + head;
  }
  std::int64_t size_bytes() const override {
    return static_cast<std::int64_t>(keys.size()) * 2 * spec.head_dim * static_cast<std::int64_t>(sizeof(float));
  }
};

std::span<float> Row(const Matrix& matrix, std::int64_t row) {
  return {matrix.data + row * matrix.cols, static_cast<std::size_t>(matrix.cols)};
}

std::int64_t Slot(const BatchInputs& batch, std::int64_t sequence, std::int64_t position, std::int64_t block_size) {
  return batch.block_tables[sequence][position / block_size] * block_size + position % block_size;
}

class LawBackend final : public Backend {
 public:
  explicit LawBackend(const contract::Contract& contract) : contract_(contract) {}

  std::string name() const override { return "law"; }
  const contract::Contract& contract() const override { return contract_; }

  Result<std::unique_ptr<LinearWeight>> LoadLinear(const TensorView& weight, const TensorView* bias,
                                                   contract::Topology topology) override {
    auto loaded = std::make_unique<LawWeight>();
    loaded->name = weight.name;
    loaded->n = weight.num_rows();
    loaded->k = weight.num_columns();
    loaded->dtype = weight.dtype;
    loaded->profile = contract_.LinearProfile(weight.dtype);
    loaded->topology = topology;
    loaded->stored = weight;
    if (bias != nullptr) loaded->bias = contract::DecodeRow(bias->dtype, bias->data, bias->num_columns());
    return std::unique_ptr<LinearWeight>(std::move(loaded));
  }

  Result<std::unique_ptr<LinearWeight>> LoadEmbedding(const TensorView& table) override {
    return LoadLinear(table, nullptr, contract::Topology::kFold);
  }

  Result<Matrix> LoadVector(const TensorView& vector) override {
    const std::vector<float> values = contract::DecodeRow(vector.dtype, vector.data, vector.num_columns());
    ISOBIT_ASSIGN(const Matrix matrix, Allocate(1, vector.num_columns()));
    std::copy(values.begin(), values.end(), matrix.data);
    return matrix;
  }

  Result<std::unique_ptr<KvMemory>> MakeKvMemory(const KvMemorySpec& spec) override {
    auto cache = std::make_unique<LawKvMemory>();
    cache->spec = spec;
    cache->keys.resize(spec.num_layers * spec.num_blocks * spec.block_size * spec.num_kv_heads);
    cache->values.resize(cache->keys.size());
    return std::unique_ptr<KvMemory>(std::move(cache));
  }

  Status SetRopeTable(const contract::RopeTable& table) override {
    rope_ = table;
    return {};
  }

  Result<Matrix> Allocate(std::int64_t max_rows, std::int64_t cols) override {
    memory_.emplace_back(max_rows * cols, 0.0f);
    return Matrix{memory_.back().data(), max_rows, cols};
  }

  void Embed(const LinearWeight& table, std::span<const std::int32_t> ids, Matrix out) override {
    const auto& weight = static_cast<const LawWeight&>(table);
    const std::int64_t row_bytes = RowBytes(weight.dtype, weight.k);
    for (std::int64_t t = 0; t < out.rows; ++t) {
      const auto values = contract::DecodeRow(weight.dtype, weight.stored.data.subspan(ids[t] * row_bytes, row_bytes), weight.k);
      std::copy(values.begin(), values.end(), Row(out, t).begin());
    }
  }

  void RmsNorm(Matrix x, Matrix weight, float eps, Matrix out) override {
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const auto y = contract::RmsNorm(Row(x, t), Row(weight, 0), eps);
      std::copy(y.begin(), y.end(), Row(out, t).begin());
    }
  }

  void Linear(Matrix x, std::span<const LinearOutput> outputs) override {
    for (const LinearOutput& output : outputs) {
      const auto& weight = static_cast<const LawWeight&>(*output.weight);
      ISOBIT_CHECK(x.cols == weight.k && output.out.cols == weight.n && output.out.rows == x.rows, "{}", weight.name);
      for (std::int64_t t = 0; t < x.rows; ++t) {
        const auto y = contract::Linear(weight.profile, weight.topology, weight.dtype, weight.stored.data, weight.n, Row(x, t),
                                        weight.bias);
        std::copy(y.begin(), y.end(), Row(output.out, t).begin());
      }
    }
  }

  void Rope(Matrix x, std::int64_t head_dim, std::span<const std::int32_t> positions) override {
    ISOBIT_CHECK(head_dim == 2 * rope_.half_dim);
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const std::size_t at = positions[t] * rope_.half_dim;
      for (std::int64_t begin = 0; begin < x.cols; begin += head_dim) {
        contract::RotateHead(Row(x, t).subspan(begin, head_dim), std::span(rope_.cos).subspan(at, rope_.half_dim),
                             std::span(rope_.sin).subspan(at, rope_.half_dim));
      }
    }
  }

  void WriteKv(KvMemory& cache, std::int64_t layer, Matrix k, Matrix v, const BatchInputs& batch) override {
    auto& law = static_cast<LawKvMemory&>(cache);
    const std::int64_t head_dim = law.spec.head_dim;
    for (std::int64_t t = 0; t < k.rows; ++t) {
      const std::int64_t slot = Slot(batch, batch.sequence_index[t], batch.positions[t], law.spec.block_size);
      for (std::int64_t h = 0; h < law.spec.num_kv_heads; ++h) {
        const std::size_t index = law.Index(layer, slot, h);
        law.keys[index] = contract::StoreAndLoad(law.spec.type, Row(k, t).subspan(h * head_dim, head_dim));
        law.values[index] = contract::StoreAndLoad(law.spec.type, Row(v, t).subspan(h * head_dim, head_dim));
      }
    }
  }

  void Attention(const KvMemory& cache, std::int64_t layer, const AttentionSpec& spec, Matrix q, const BatchInputs& batch,
                 Matrix out) override {
    const auto& law = static_cast<const LawKvMemory&>(cache);
    const std::int64_t group = spec.num_heads / spec.num_kv_heads;
    for (std::int64_t t = 0; t < q.rows; ++t) {
      const std::int64_t position = batch.positions[t];
      for (std::int64_t kv_head = 0; kv_head < spec.num_kv_heads; ++kv_head) {
        std::vector<Head> keys, values;
        for (std::int64_t j = 0; j <= position; ++j) {
          const std::size_t index = law.Index(layer, Slot(batch, batch.sequence_index[t], j, law.spec.block_size), kv_head);
          keys.push_back(law.keys[index]);
          values.push_back(law.values[index]);
        }
        for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
          const auto y = contract::AttentionHead(contract_.AttentionProfile(), Row(q, t).subspan(h * spec.head_dim, spec.head_dim),
                                                 keys, values, position, spec.window);
          std::copy(y.begin(), y.end(), Row(out, t).subspan(h * spec.head_dim).begin());
        }
      }
    }
  }

  void SiluMul(Matrix gate, Matrix up, Matrix out) override {
    for (std::int64_t i = 0; i < gate.rows * gate.cols; ++i) out.data[i] = contract::SiluMul(gate.data[i], up.data[i]);
  }

  void Add(Matrix x, Matrix y) override {
    for (std::int64_t i = 0; i < x.rows * x.cols; ++i) x.data[i] = x.data[i] + y.data[i];
  }

  void GatherRows(Matrix x, std::span<const std::int32_t> rows, Matrix out) override {
    for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(Row(x, rows[i]), Row(out, i).begin());
  }

  std::span<const float> Read(Matrix x) override { return {x.data, static_cast<std::size_t>(x.rows * x.cols)}; }

  Json Plans() const override { return Json::object(); }

 private:
  contract::Contract contract_;
  contract::RopeTable rope_;
  std::deque<std::vector<float>> memory_;
};

}  // namespace

std::unique_ptr<Backend> MakeLawBackend(const contract::Contract& contract) { return std::make_unique<LawBackend>(contract); }

}  // namespace isobit
