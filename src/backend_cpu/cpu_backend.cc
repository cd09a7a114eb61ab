#include "backend_cpu/cpu_backend.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "backend_cpu/aligned_buffer.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/packed_linear.h"
#include "backend_cpu/paged_kv.h"
#include "backend_cpu/thread_pool.h"
#include "base/check.h"
#include "contract/attention.h"
#include "contract/weight_formats.h"

namespace isobit {
namespace {

using cpu::AttentionItem;
using cpu::AttentionTask;
using cpu::EmbeddingTable;
using cpu::Kernels;
using cpu::LinearTask;
using cpu::PackedLinear;
using cpu::PagedKv;

const Kernels* KernelsNamed(const std::string& isa) {
  for (const Kernels* kernels : {&cpu::Avx512VnniKernels(), &cpu::Avx512Kernels(), &cpu::Avx2Kernels(), &cpu::ScalarKernels()}) {
    if (isa == kernels->isa) return kernels;
  }
  return nullptr;
}

int CoresOfProcess() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// A buffer that grows and never shrinks: the working memory of an op.
template <class T>
T* Grow(std::vector<T>& buffer, std::int64_t count) {
  if (static_cast<std::int64_t>(buffer.size()) < count) buffer.resize(count);
  return buffer.data();
}

class CpuBackend : public Backend {
 public:
  CpuBackend(const contract::Contract& contract, const Kernels& kernels, int num_threads)
      : contract_(contract), kernels_(kernels), pool_(num_threads), scratch_(num_threads) {}

  std::string name() const override { return fmt::format("cpu/{} x{}", kernels_.isa, pool_.size()); }
  const contract::Contract& contract() const override { return contract_; }

  // --- At load ---------------------------------------------------------------------------------------------------------------
  Result<std::unique_ptr<LinearWeight>> LoadLinear(const TensorView& weight, const TensorView* bias,
                                                   contract::Topology topology) override {
    ISOBIT_ASSIGN(std::unique_ptr<PackedLinear> packed, cpu::PackLinear(contract_, weight, bias, topology, pool_));
    Json plan;
    plan["weight"] = packed->name;
    plan["n"] = packed->n;
    plan["k"] = packed->k;
    plan["stored"] = Name(packed->dtype);
    plan["profile"] = contract::Name(packed->profile);
    plan["topology"] = contract::Name(topology);
    plan["kernel"] = fmt::format("{}/{}", kernels_.isa, cpu::Name(packed->layout));
    plan["bytes"] = packed->panels.size();
    plans_.push_back(std::move(plan));
    return std::unique_ptr<LinearWeight>(std::move(packed));
  }

  Result<std::unique_ptr<LinearWeight>> LoadEmbedding(const TensorView& table) override {
    ISOBIT_TRY(cpu::CheckWeight(table));
    auto embedding = std::make_unique<EmbeddingTable>();
    embedding->name = table.name;
    embedding->n = table.shape[0];
    embedding->k = table.shape[1];
    embedding->dtype = table.dtype;
    embedding->table = table;
    if (table.keep_alive == nullptr) {
      embedding->copy.assign(table.data.begin(), table.data.end());
      embedding->table.data = embedding->copy;
    }
    return std::unique_ptr<LinearWeight>(std::move(embedding));
  }

  Result<Matrix> LoadVector(const TensorView& vector) override {
    ISOBIT_ASSIGN(const std::vector<float> values, cpu::WidenFloats(vector));
    const Matrix matrix = NewMatrix(1, static_cast<std::int64_t>(values.size()));
    std::copy(values.begin(), values.end(), matrix.data);
    return matrix;
  }

  Result<std::unique_ptr<KvMemory>> MakeKvMemory(const KvMemorySpec& spec) override {
    ISOBIT_ASSIGN(std::unique_ptr<PagedKv> kv, PagedKv::Make(spec));
    return std::unique_ptr<KvMemory>(std::move(kv));
  }

  Status SetRopeTable(const contract::RopeTable& table) override {
    if (table.half_dim <= 0 || table.cos.size() != table.sin.size() || table.cos.empty() || table.cos.size() % table.half_dim != 0) {
      return Fail(ErrorCode::kInvalidArgument, "rope", "the table has {} cosines and {} sines of {} each position", table.cos.size(),
                  table.sin.size(), table.half_dim);
    }
    rope_ = table;
    return {};
  }

  Result<Matrix> Allocate(std::int64_t max_rows, std::int64_t cols) override {
    if (max_rows <= 0 || cols <= 0 || max_rows > (std::int64_t{1} << 40) / cols) {
      return Fail(ErrorCode::kInvalidArgument, "activations", "[{}, {}] is not a size that can be allocated", max_rows, cols);
    }
    ISOBIT_ASSIGN(cpu::AlignedBuffer memory, cpu::AlignedBuffer::Make(__int128{max_rows} * cols * 4, "--max-batch-tokens"));
    matrices_.push_back(std::move(memory));
    return Matrix{reinterpret_cast<float*>(matrices_.back().data()), max_rows, cols};
  }

  // --- One step ----------------------------------------------------------------------------------------------------------------
  void Embed(const LinearWeight& table, std::span<const std::int32_t> ids, Matrix out) override {
    const auto& embedding = static_cast<const EmbeddingTable&>(table);
    ISOBIT_CHECK(out.rows == static_cast<std::int64_t>(ids.size()) && out.cols == table.k);
    const std::int64_t row_bytes = RowBytes(table.dtype, table.k);
    ForRows(out.rows, out.cols * 4, [&](std::int64_t row, int) {
      ISOBIT_CHECK(ids[row] >= 0 && ids[row] < table.n, "token {} of a vocabulary of {}", ids[row], table.n);
      const std::vector<float> values = contract::DecodeRow(table.dtype, embedding.table.data.subspan(ids[row] * row_bytes, row_bytes), table.k);
      std::copy(values.begin(), values.end(), out.data + row * out.cols);
    });
  }

  void RmsNorm(Matrix x, Matrix weight, float eps, Matrix out) override {
    ISOBIT_CHECK(x.rows == out.rows && x.cols == out.cols && weight.rows == 1 && weight.cols == x.cols && x.cols > 0);
    ForRows(x.rows, x.cols, [&](std::int64_t row, int) {
      kernels_.rms_norm(x.data + row * x.cols, weight.data, x.cols, eps, out.data + row * x.cols);
    });
  }

  void Linear(Matrix x, std::span<const LinearOutput> outputs) override {
    if (x.rows == 0) return;
    // One operand of each kind that the weights ask for.
    std::int64_t total_panels = 0;
    bool rounded = false, quantized[2] = {false, false};
    tasks_.clear();
    for (const LinearOutput& output : outputs) {
      const auto& w = static_cast<const PackedLinear&>(*output.weight);
      ISOBIT_CHECK(w.k == x.cols && output.out.rows == x.rows && output.out.cols == w.n, "{}: [{}, {}] x [{}, {}] -> [{}, {}]", w.name,
                   x.rows, x.cols, w.n, w.k, output.out.rows, output.out.cols);
      LinearTask task{.layout = w.layout,
                      .panels = w.panels.data(),
                      .panel_bytes = w.panel_bytes,
                      .n = w.n,
                      .k = w.k,
                      .tree = w.topology == contract::Topology::kTree,
                      .num_ranges = static_cast<int>(w.cuts.size()) - 1,
                      .cuts = w.cuts.data(),
                      .max_exponent = w.max_exponent.data(),
                      .bias = w.bias.empty() ? nullptr : w.bias.data(),
                      .out = output.out.data};
      if (w.profile == contract::Profile::kF32Fma) {
        task.x = {.rows = x.rows, .values = x.data, .value_stride = x.cols};
      } else if (w.profile == contract::Profile::kBf16Tc) {
        task.x = RoundedOperand(x, !rounded);
        rounded = true;
      } else {
        const int kind = w.group == 32 ? 0 : 1;
        task.x = QuantizedOperand(x, w.group, kind, !quantized[kind]);
        quantized[kind] = true;
      }
      total_panels += w.num_panels;
      tasks_.push_back(task);
    }
    // Each worker owns a stretch of all panels laid end to end.
    const auto run = [&](int worker, int count) {
      const Share share = ShareOf(total_panels, worker, count);
      std::int64_t first = 0;
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        const std::int64_t panels = static_cast<const PackedLinear&>(*outputs[i].weight).num_panels;
        const std::int64_t begin = std::max(share.begin - first, std::int64_t{0}), end = std::min(share.end - first, panels);
        if (begin < end) kernels_.linear(tasks_[i], begin, end);
        first += panels;
      }
    };
    if (total_panels * cpu::kVectorLanes * x.cols * x.rows < kInlineProducts) return run(0, 1);
    pool_.Run([&](int worker) { run(worker, pool_.size()); });
  }

  void Rope(Matrix x, std::int64_t head_dim, std::span<const std::int32_t> positions) override {
    ISOBIT_CHECK(head_dim == 2 * rope_.half_dim && x.cols % head_dim == 0 && x.rows == static_cast<std::int64_t>(positions.size()));
    const auto num_positions = static_cast<std::int64_t>(rope_.cos.size()) / rope_.half_dim;
    ForRows(x.rows, x.cols, [&](std::int64_t row, int) {
      ISOBIT_CHECK(positions[row] >= 0 && positions[row] < num_positions, "position {} of a table of {}", positions[row], num_positions);
      const std::int64_t at = positions[row] * rope_.half_dim;
      for (std::int64_t head = 0; head < x.cols; head += head_dim) {
        kernels_.rope(x.data + row * x.cols + head, rope_.half_dim, rope_.cos.data() + at, rope_.sin.data() + at);
      }
    });
  }

  void WriteKv(KvMemory& cache, std::int64_t layer, Matrix k, Matrix v, const BatchInputs& batch) override {
    auto& kv = static_cast<PagedKv&>(cache);
    const std::int64_t heads = kv.spec.num_kv_heads, head_dim = kv.spec.head_dim, block_size = kv.spec.block_size;
    ISOBIT_CHECK(k.rows == batch.num_tokens() && v.rows == k.rows && k.cols == heads * head_dim && v.cols == k.cols);
    ISOBIT_CHECK(layer >= 0 && layer < kv.spec.num_layers);
    ForRows(k.rows, k.cols * 4, [&](std::int64_t row, int) {
      const std::int64_t position = batch.positions[row], block = BlockOf(kv, batch, row, position);
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t at = row * k.cols + head * head_dim;
        kv.Write(layer, block, position % block_size, head, {k.data + at, static_cast<std::size_t>(head_dim)},
                 {v.data + at, static_cast<std::size_t>(head_dim)});
      }
    });
  }

  void Attention(const KvMemory& cache, std::int64_t layer, const AttentionSpec& spec, Matrix q, const BatchInputs& batch,
                 Matrix out) override {
    const auto& kv = static_cast<const PagedKv&>(cache);
    ISOBIT_CHECK(spec.num_kv_heads == kv.spec.num_kv_heads && spec.head_dim == kv.spec.head_dim && spec.window >= 0);
    ISOBIT_CHECK(spec.num_heads % spec.num_kv_heads == 0 && q.cols == spec.num_heads * spec.head_dim);
    ISOBIT_CHECK(q.rows == batch.num_tokens() && out.rows == q.rows && out.cols == q.cols);
    ISOBIT_CHECK(layer >= 0 && layer < kv.spec.num_layers);
    const AttentionTask task{.cache = kv.Layer(layer),
                             .tensor_core = contract_.AttentionProfile() == contract::Profile::kBf16Tc,
                             .num_heads = spec.num_heads,
                             .window = spec.window,
                             .scale = contract::AttentionScale(spec.head_dim),
                             .positions = batch.positions.data(),
                             .q = q.data,
                             .out = out.data};
    // Items: up to kItemRows neighbouring rows of one sequence, times one kv head.
    items_.clear();
    for (std::int64_t row = 0; row < q.rows;) {
      std::int64_t end = row + 1;
      while (end < q.rows && end - row < cpu::kItemRows && batch.sequence_index[end] == batch.sequence_index[row]) ++end;
      for (std::int64_t r = row; r < end; ++r) BlockOf(kv, batch, r, batch.positions[r]);
      const std::int32_t* table = batch.block_tables[batch.sequence_index[row]].data();
      for (std::int64_t head = 0; head < spec.num_kv_heads; ++head) {
        items_.push_back({.first_row = row, .num_rows = end - row, .kv_head = head, .block_table = table});
      }
      row = end;
    }
    const std::int64_t floats = cpu::AttentionScratch(spec.num_heads / spec.num_kv_heads, spec.head_dim);
    for (std::vector<float>& scratch : scratch_) Grow(scratch, floats);
    // Dealt out in turn: later rows of a sequence have more to read.
    pool_.Run([&](int worker) {
      for (std::size_t i = worker; i < items_.size(); i += pool_.size()) kernels_.attention(task, items_[i], scratch_[worker].data());
    });
  }

  void SiluMul(Matrix gate, Matrix up, Matrix out) override {
    ISOBIT_CHECK(gate.rows == up.rows && gate.cols == up.cols && out.rows == gate.rows && out.cols == gate.cols);
    ForRows(gate.rows, gate.cols * 4, [&](std::int64_t row, int) {
      const std::int64_t at = row * gate.cols;
      kernels_.silu_mul(gate.data + at, up.data + at, gate.cols, out.data + at);
    });
  }

  void Add(Matrix x, Matrix y) override {
    ISOBIT_CHECK(x.rows == y.rows && x.cols == y.cols);
    ForRows(x.rows, x.cols, [&](std::int64_t row, int) { kernels_.add(x.data + row * x.cols, y.data + row * x.cols, x.cols); });
  }

  void GatherRows(Matrix x, std::span<const std::int32_t> rows, Matrix out) override {
    ISOBIT_CHECK(out.rows == static_cast<std::int64_t>(rows.size()) && out.cols == x.cols);
    for (std::int64_t i = 0; i < out.rows; ++i) {
      ISOBIT_CHECK(rows[i] >= 0 && rows[i] < x.rows);
      std::memcpy(out.data + i * out.cols, x.data + rows[i] * x.cols, x.cols * sizeof(float));
    }
  }

  std::span<const float> Read(Matrix x) override { return {x.data, static_cast<std::size_t>(x.rows * x.cols)}; }

  Json Plans() const override {
    Json plans;
    plans["backend"] = name();
    plans["linear"] = plans_;
    for (const char* op : {"Attention", "RmsNorm", "Rope", "SiluMul", "Add"}) plans["ops"][op] = kernels_.isa;
    plans["attention_profile"] = contract::Name(contract_.AttentionProfile());
    return plans;
  }

 private:
  // Below these an op is over before a sleeping worker has woken: it runs on the caller alone. Bits do not depend on who runs.
  static constexpr std::int64_t kInlineProducts = 1 << 16, kInlineElements = 1 << 14;

  Matrix NewMatrix(std::int64_t rows, std::int64_t cols) {
    matrices_.emplace_back(rows * cols * static_cast<std::int64_t>(sizeof(float)));
    return {reinterpret_cast<float*>(matrices_.back().data()), rows, cols};
  }

  // function(row, worker) for every row; `cost` is about the elements touched per row.
  template <class Function>
  void ForRows(std::int64_t rows, std::int64_t cost, const Function& function) {
    if (rows * cost < kInlineElements || rows == 1) {
      for (std::int64_t row = 0; row < rows; ++row) function(row, 0);
      return;
    }
    pool_.Run([&](int worker) {
      const Share share = ShareOf(rows, worker, pool_.size());
      for (std::int64_t row = share.begin; row < share.end; ++row) function(row, worker);
    });
  }

  cpu::Operand RoundedOperand(Matrix x, bool fill) {
    const std::int64_t stride = (x.cols + 15) / 16 * 16;
    if (fill) {
      float* values = Grow(rounded_, x.rows * stride);
      std::uint32_t* exponents = Grow(exponents_, x.rows * stride / 2);
      std::int32_t* largest = Grow(max_exponent_, x.rows);
      ForRows(x.rows, x.cols * 4, [&](std::int64_t row, int) {
        largest[row] = kernels_.round_row(x.data + row * x.cols, x.cols, values + row * stride, exponents + row * stride / 2);
      });
    }
    return {.rows = x.rows,
            .values = rounded_.data(),
            .value_stride = stride,
            .exponents = exponents_.data(),
            .exponent_stride = stride / 2,
            .max_exponent = max_exponent_.data()};
  }

  cpu::Operand QuantizedOperand(Matrix x, std::int64_t group, int kind, bool fill) {
    const std::int64_t groups = (x.cols + group - 1) / group;
    Quantized& to = quantized_[kind];
    if (fill) {
      std::int8_t* q = Grow(to.q, x.rows * groups * group);
      float* scale = Grow(to.scale, x.rows * groups);
      std::int32_t* sum = Grow(to.sum, x.rows * groups);
      ForRows(x.rows, x.cols * 4, [&](std::int64_t row, int) {
        kernels_.quantize_row(x.data + row * x.cols, x.cols, group, q + row * groups * group, scale + row * groups, sum + row * groups);
      });
    }
    return {.rows = x.rows,
            .q = to.q.data(),
            .q_stride = groups * group,
            .scale = to.scale.data(),
            .q_sum = to.sum.data(),
            .groups = groups};
  }

  // The physical block of a row's position; CHECKs the batch.
  static std::int64_t BlockOf(const PagedKv& kv, const BatchInputs& batch, std::int64_t row, std::int64_t position) {
    const std::int64_t sequence = batch.sequence_index[row], index = position / kv.spec.block_size;
    ISOBIT_CHECK(position >= 0 && sequence >= 0 && sequence < static_cast<std::int64_t>(batch.block_tables.size()));
    const std::vector<std::int32_t>& table = batch.block_tables[sequence];
    ISOBIT_CHECK(index < static_cast<std::int64_t>(table.size()), "position {} is behind {} blocks of {}", position, table.size(),
                 kv.spec.block_size);
    ISOBIT_CHECK(table[index] >= 0 && table[index] < kv.spec.num_blocks);
    return table[index];
  }

  struct Quantized {
    std::vector<std::int8_t> q;
    std::vector<float> scale;
    std::vector<std::int32_t> sum;
  };

  const contract::Contract contract_;
  const Kernels& kernels_;
  ThreadPool pool_;
  contract::RopeTable rope_;
  std::vector<cpu::AlignedBuffer> matrices_;
  Json plans_ = Json::array();
  // Working memory of ops, kept between calls.
  std::vector<LinearTask> tasks_;
  std::vector<AttentionItem> items_;
  std::vector<float> rounded_;
  std::vector<std::uint32_t> exponents_;
  std::vector<std::int32_t> max_exponent_;
  Quantized quantized_[2];                   // groups of 32, of 128
  std::vector<std::vector<float>> scratch_;  // [workers]
};

}  // namespace

std::vector<std::string> AvailableIsas() {
  std::vector<std::string> isas;
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512vnni")) isas.push_back("avx512vnni");
  if (avx512) isas.push_back("avx512");
  if (avx2) isas.push_back("avx2");
  isas.push_back("scalar");
  return isas;
}

Result<std::unique_ptr<Backend>> MakeCpuBackend(const contract::Contract& contract, const CpuBackendOptions& options) {
  const std::vector<std::string> isas = AvailableIsas();
  const std::string isa = options.isa.empty() ? isas.front() : options.isa;
  if (std::find(isas.begin(), isas.end(), isa) == isas.end()) {
    return Fail(ErrorCode::kUnsupported, "ISOBIT_ISA", "\"{}\" is not an instruction set of this machine; use one of {}", isa,
                fmt::join(isas, ", "));
  }
  if (options.num_threads < 0 || options.num_threads > 1024) {
    return Fail(ErrorCode::kInvalidArgument, "--threads", "{} is not between 0 and 1024", options.num_threads);
  }
  const int num_threads = options.num_threads == 0 ? CoresOfProcess() : options.num_threads;
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(contract, *KernelsNamed(isa), num_threads));
}

}  // namespace isobit
