// backend_bench: rates of the CPU backend's ops for SmolLM2-135M's shapes, with a digest of each output.
//
//   backend_bench [--isa NAME] [--threads N] [--filter TEXT] [--seconds S] [--cpu-time] [--tiny]
//       --cpu-time counts processor time of all threads: for a busy machine, with --threads 1
//   backend_bench --exp-all     compares every kernel's exponential with the law over all 2^32 floats
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "backend_cpu/kernels.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/sha256.h"
#include "contract/elementary.h"
#include "contract/float_bits.h"

namespace isobit {
namespace {

using contract::Contract;
using contract::KvType;
using contract::Preset;
using contract::Topology;

struct Options {
  std::string isa, filter;
  int threads = 0;
  double seconds = 0.2;  // per measurement
  bool tiny = false, exp_all = false, cpu_time = false;
};

double Seconds(bool cpu_time) {
  if (cpu_time) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return 1e-9 * static_cast<double>(SystemClock().MonotonicNanos());
}

std::vector<float> Uniform(std::int64_t count, std::uint32_t stream, float scale) {
  std::vector<float> values(count);
  for (std::int64_t i = 0; i < count; i += 4) {
    const auto words = Philox4x32({static_cast<std::uint32_t>(i), stream, 0, 0}, {3, 5});
    for (std::int64_t j = 0; j < 4 && i + j < count; ++j) {
      values[i + j] = (static_cast<float>(words[j] >> 8) * 0x1p-23f - 1.0f) * scale;
    }
  }
  return values;
}

TensorView RandomWeight(DType dtype, std::int64_t n, std::int64_t k) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(n * RowBytes(dtype, k));
  if (!IsQuantized(dtype)) {
    const std::vector<float> values = Uniform(n * k, 1, 0.05f);
    for (std::int64_t i = 0; i < n * k; ++i) {
      const std::uint16_t bits = dtype == DType::kF16 ? contract::F16FromF32(values[i]) : contract::Bf16FromF32(values[i]);
      if (dtype == DType::kF32) std::memcpy(bytes->data() + 4 * i, &values[i], 4);
      else std::memcpy(bytes->data() + 2 * i, &bits, 2);
    }
  } else {
    for (std::size_t i = 0; i < bytes->size(); i += 4) {
      const auto words = Philox4x32({static_cast<std::uint32_t>(i), 2, 0, 0}, {3, 5});
      std::memcpy(bytes->data() + i, words.data(), std::min<std::size_t>(4, bytes->size() - i));
    }
    for (std::size_t block = 0; block < bytes->size(); block += Info(dtype).block_bytes) {
      const std::uint16_t d = contract::F16FromF32(0.01f), m = contract::F16FromF32(-0.08f);
      std::memcpy(bytes->data() + block, &d, 2);
      if (dtype == DType::kQ4_1) std::memcpy(bytes->data() + block + 2, &m, 2);
    }
  }
  return {.name = Name(dtype), .dtype = dtype, .shape = {n, k}, .data = *bytes, .keep_alive = bytes};
}

Matrix NewMatrix(Backend& backend, std::int64_t rows, std::int64_t cols, std::uint32_t stream) {
  const Matrix matrix = backend.Allocate(rows, cols).value();
  const std::vector<float> values = Uniform(rows * cols, stream, 1.0f);
  std::copy(values.begin(), values.end(), matrix.data);
  return matrix;
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  void Run() {
    for (const Preset preset : {Preset::kPortable, Preset::kTensorCore, Preset::kTensorCoreInt8}) {
      auto made = MakeCpuBackend(Contract{.preset = preset}, {.num_threads = options_.threads, .isa = options_.isa});
      if (!made.ok()) {
        fmt::print(stderr, "{}\n", made.error().ToString());
        std::exit(2);
      }
      backend_ = std::move(*made);
      preset_ = Name(preset);
      if (preset == Preset::kPortable) fmt::print("{}\n", backend_->name());
      Linears();
      Attentions();
      if (preset == Preset::kPortable) Elementwise();
    }
  }

 private:
  // Best of repeated runs: work in units per run, e.g. products.
  void Measure(const std::string& what, double products, double bytes, Matrix out, const std::function<void()>& run) {
    const std::string name = preset_ + " " + what;
    if (name.find(options_.filter) == std::string::npos) return;
    run();
    double best = 1e30;
    const double start = Seconds(options_.cpu_time);
    do {
      const double begin = Seconds(options_.cpu_time);
      run();
      best = std::min(best, Seconds(options_.cpu_time) - begin);
    } while (!options_.tiny && Seconds(options_.cpu_time) - start < options_.seconds);
    const std::span<const float> values = backend_->Read(out);
    fmt::print("{:<58} {:>9.1f} us {:>8.2f} GMAC/s {:>7.2f} GB/s  {}\n", name, best * 1e6, products / best * 1e-9, bytes / best * 1e-9,
               Sha256Hex({reinterpret_cast<const char*>(values.data()), values.size_bytes()}).substr(0, 12));
  }

  std::vector<std::int64_t> RowCounts() const { return options_.tiny ? std::vector<std::int64_t>{1, 5} : std::vector<std::int64_t>{1, 2, 16, 128, 512}; }

  void Linears() {
    struct Layer {
      const char* name;
      std::int64_t n, k;
      Topology topology;
    };
    std::vector<Layer> layers = {{"q_o", 576, 576, Topology::kFold}, {"gate", 1536, 576, Topology::kFold}, {"down", 576, 1536, Topology::kTree}};
    if (!options_.tiny) layers.push_back({"head", 49152, 576, Topology::kFold});
    for (const DType dtype : {DType::kBF16, DType::kQ4_1, DType::kQ8_0}) {
      for (const Layer& layer : layers) {
        const bool head = layer.n > 10000;
        const std::string prefix = fmt::format("{} {} [{}, {}]", Name(dtype), layer.name, layer.n, layer.k);
        if (!options_.filter.empty() && (preset_ + " " + prefix).find(options_.filter) == std::string::npos &&
            options_.filter.find(" m") == std::string::npos) {
          continue;
        }
        const auto weight = backend_->LoadLinear(RandomWeight(dtype, layer.n, layer.k), nullptr, layer.topology).value();
        for (const std::int64_t rows : RowCounts()) {
          if (head && rows > 16) continue;
          const Matrix x = NewMatrix(*backend_, rows, layer.k, 9), out = backend_->Allocate(rows, layer.n).value();
          const LinearOutput outputs[] = {{weight.get(), out}};
          const double products = static_cast<double>(rows * layer.n * layer.k);
          Measure(fmt::format("{} m{}", prefix, rows), products, static_cast<double>(layer.n * RowBytes(dtype, layer.k)), out,
                  [&] { backend_->Linear(x, outputs); });
        }
      }
    }
  }

  void Attentions() {
    const AttentionSpec spec{.num_heads = 9, .num_kv_heads = 3, .head_dim = 64};
    const std::int64_t context = options_.tiny ? 40 : 1024;
    const auto cache = backend_->MakeKvMemory({.num_layers = 1, .num_kv_heads = 3, .head_dim = 64, .num_blocks = context / 16 + 1, .block_size = 16}).value();
    BatchInputs all;
    all.block_tables.resize(1);
    for (std::int64_t i = 0; i < context / 16 + 1; ++i) all.block_tables[0].push_back(static_cast<std::int32_t>(i));
    for (std::int64_t p = 0; p < context; ++p) {
      all.token_ids.push_back(0);
      all.positions.push_back(static_cast<std::int32_t>(p));
      all.sequence_index.push_back(0);
    }
    backend_->WriteKv(*cache, 0, NewMatrix(*backend_, context, 192, 11), NewMatrix(*backend_, context, 192, 12), all);
    for (const std::int64_t rows : RowCounts()) {
      BatchInputs batch;
      batch.block_tables = all.block_tables;
      double products = 0;
      for (std::int64_t p = context - rows; p < context; ++p) {
        batch.token_ids.push_back(0);
        batch.positions.push_back(static_cast<std::int32_t>(p));
        batch.sequence_index.push_back(0);
        products += 2.0 * 9 * 64 * static_cast<double>(p + 1);
      }
      const Matrix q = NewMatrix(*backend_, rows, 576, 13), out = backend_->Allocate(rows, 576).value();
      Measure(fmt::format("attention bf16 kv, context {} m{}", context, rows), products, static_cast<double>(context * 192 * 4), out,
              [&] { backend_->Attention(*cache, 0, spec, q, batch, out); });
    }
  }

  void Elementwise() {
    const std::int64_t rows = options_.tiny ? 3 : 128;
    const Matrix x = NewMatrix(*backend_, rows, 1536, 14), y = NewMatrix(*backend_, rows, 1536, 15), out = backend_->Allocate(rows, 1536).value();
    const Matrix weight = NewMatrix(*backend_, 1, 1536, 16);
    const double count = static_cast<double>(rows * 1536);
    Measure("silu_mul m128 [1536]", count, count * 12, out, [&] { backend_->SiluMul(x, y, out); });
    Measure("rms_norm m128 [1536]", count, count * 8, out, [&] { backend_->RmsNorm(x, weight, 1e-5f, out); });
  }

  const Options options_;
  std::unique_ptr<Backend> backend_;
  std::string preset_;
};

// Every float through every kernel this machine has. Minutes.
int CompareAllExponentials() {
  constexpr std::uint64_t kBatch = 1 << 20;
  std::uint64_t differ = 0;
  std::vector<float> x(kBatch), law(kBatch), y(kBatch);
  for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32); first += kBatch) {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      x[i] = contract::FloatOf(static_cast<std::uint32_t>(first + i));
      law[i] = contract::Exp(x[i]);
    }
    for (const std::string& isa : AvailableIsas()) {
      if (isa == "avx512vnni") continue;  // the same function as avx512
      const cpu::Kernels& kernels = isa == "avx512" ? cpu::Avx512Kernels() : isa == "avx2" ? cpu::Avx2Kernels() : cpu::ScalarKernels();
      kernels.exp(x.data(), kBatch, y.data());
      for (std::uint64_t i = 0; i < kBatch; ++i) differ += contract::BitsOf(y[i]) != contract::BitsOf(law[i]);
    }
  }
  fmt::print("{} of 2^32 exponentials differ from the law\n", differ);
  return differ == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag == "--tiny") options.tiny = true;
    else if (flag == "--cpu-time") options.cpu_time = true;
    else if (flag == "--exp-all") options.exp_all = true;
    else if (value != nullptr && flag == "--isa") options.isa = argv[++i];
    else if (value != nullptr && flag == "--filter") options.filter = argv[++i];
    else if (value != nullptr && flag == "--threads") options.threads = std::atoi(argv[++i]);
    else if (value != nullptr && flag == "--seconds") options.seconds = std::atof(argv[++i]);
    else {
      fmt::print(stderr, "usage: backend_bench [--isa NAME] [--threads N] [--filter TEXT] [--seconds S] [--cpu-time] [--tiny] | --exp-all\n");
      return 2;
    }
  }
  if (options.exp_all) return CompareAllExponentials();
  Bench(options).Run();
  return 0;
}

}  // namespace
}  // namespace isobit

int main(int argc, char** argv) { return isobit::Main(argc, argv); }
