// The room's own parts: the thread pool, the errors of loading, plans, and the exponential sampled over all floats. Whether ops match the
// law is tests/conformance.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/thread_pool.h"
#include "contract/elementary.h"
#include "contract/float_bits.h"
#include "contract/tensor_core.h"
#include "base/random.h"

namespace isobit {
namespace {

using contract::Contract;
using contract::Topology;

std::vector<const cpu::Kernels*> AvailableKernels() {
  std::vector<const cpu::Kernels*> kernels;
  for (const std::string& isa : AvailableIsas()) {
    for (const cpu::Kernels* k : {&cpu::Avx512VnniKernels(), &cpu::Avx512Kernels(), &cpu::Avx2Kernels(), &cpu::ScalarKernels()}) {
      if (isa == k->isa) kernels.push_back(k);
    }
  }
  return kernels;
}

TEST(ThreadPoolTest, EveryWorkerRunsOncePerTask) {
  for (const int size : {1, 2, 3, 7}) {
    ThreadPool pool(size);
    std::vector<int> counts(size, 0);
    for (int round = 0; round < 500; ++round) {
      pool.Run([&](int worker) { ++counts[worker]; });
    }
    EXPECT_EQ(counts, std::vector<int>(size, 500));
  }
}

TEST(ThreadPoolTest, SharesCoverEverythingOnce) {
  for (const int count : {1, 2, 3, 16}) {
    for (const std::int64_t total : {0, 1, 2, 15, 16, 17, 1000}) {
      std::int64_t next = 0;
      for (int i = 0; i < count; ++i) {
        const Share share = ShareOf(total, i, count);
        EXPECT_EQ(share.begin, next);
        EXPECT_LE(share.end - share.begin, total / count + 1);
        next = share.end;
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST(CpuBackendTest, AnUnknownInstructionSetIsRefused) {
  const auto backend = MakeCpuBackend(Contract{}, {.num_threads = 1, .isa = "avx3"});
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(backend.error().field, "ISOBIT_ISA");
  EXPECT_NE(backend.error().message.find("scalar"), std::string::npos);
  EXPECT_EQ(AvailableIsas().back(), "scalar");
}

TEST(CpuBackendTest, NameSaysInstructionSetAndThreads) {
  const auto backend = MakeCpuBackend(Contract{}, {.num_threads = 2, .isa = "scalar"});
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ((*backend)->name(), "cpu/scalar x2");
  EXPECT_EQ(MakeCpuBackend(Contract{}, {.num_threads = -1}).error().field, "--threads");
}

// --- Loading -------------------------------------------------------------------------------------------------------------------
TensorView View(const char* name, DType dtype, Shape shape, const std::vector<std::byte>& bytes) {
  return {.name = name, .dtype = dtype, .shape = std::move(shape), .data = bytes};
}

struct BadWeight {
  const char* what;
  DType dtype;
  Shape shape;
  std::size_t bytes;
  ErrorCode code;
};

TEST(CpuBackendTest, BadWeightsAreErrorsThatNameTheTensor) {
  const auto backend = MakeCpuBackend(Contract{}, {.num_threads = 1});
  ASSERT_TRUE(backend.ok());
  const BadWeight cases[] = {
      {"one dimension", DType::kF32, {4}, 16, ErrorCode::kInvalidArgument},
      {"no rows", DType::kF32, {0, 4}, 0, ErrorCode::kInvalidArgument},
      {"integers", DType::kI32, {2, 2}, 16, ErrorCode::kUnsupported},
      {"part of a block", DType::kQ4_1, {2, 33}, 40, ErrorCode::kInvalidArgument},
      {"too few bytes", DType::kBF16, {2, 8}, 31, ErrorCode::kCorrupt},
  };
  for (const BadWeight& bad : cases) {
    const std::vector<std::byte> bytes(bad.bytes);
    const TensorView view = View("model.bad.weight", bad.dtype, bad.shape, bytes);
    const auto linear = (*backend)->LoadLinear(view, nullptr, Topology::kFold);
    ASSERT_FALSE(linear.ok()) << bad.what;
    EXPECT_EQ(linear.error().code, bad.code) << bad.what;
    EXPECT_EQ(linear.error().field, "model.bad.weight") << bad.what;
    EXPECT_FALSE((*backend)->LoadEmbedding(view).ok()) << bad.what;
  }
  const std::vector<std::byte> bytes(64);
  const TensorView weight = View("w", DType::kF32, {2, 8}, bytes), bias = View("w.bias", DType::kF32, {16}, bytes);
  const auto linear = (*backend)->LoadLinear(weight, &bias, Topology::kFold);
  ASSERT_FALSE(linear.ok());
  EXPECT_EQ(linear.error().field, "w.bias");
  EXPECT_EQ((*backend)->LoadVector(View("norm", DType::kQ8_0, {32}, bytes)).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ((*backend)->LoadVector(View("norm", DType::kF32, {15}, bytes)).error().code, ErrorCode::kCorrupt);
}

TEST(CpuBackendTest, KvCacheSizes) {
  const auto backend = MakeCpuBackend(Contract{}, {.num_threads = 1});
  ASSERT_TRUE(backend.ok());
  KvMemorySpec spec{.num_layers = 2, .num_kv_heads = 3, .head_dim = 64, .num_blocks = 5, .block_size = 16};
  EXPECT_EQ((*(*backend)->MakeKvMemory(spec))->size_bytes(), 2 * 5 * 16 * 3 * 64 * 2 * 2);
  spec.type = contract::KvType::kInt8;
  EXPECT_EQ((*(*backend)->MakeKvMemory(spec))->size_bytes(), 2 * 5 * 16 * 3 * (64 + 4) * 2);
  for (const std::int64_t block_size : {0, 4, 24, 512}) {
    spec.block_size = block_size;
    EXPECT_EQ((*backend)->MakeKvMemory(spec).error().field, "--block-size") << block_size;
  }
}

TEST(CpuBackendTest, PlansNameTheKernelOfEveryWeight) {
  const auto backend = MakeCpuBackend(Contract{}, {.num_threads = 1, .isa = "scalar"});
  ASSERT_TRUE(backend.ok());
  const std::vector<std::byte> bytes(2 * 20);
  ASSERT_TRUE((*backend)->LoadLinear(View("q", DType::kQ4_1, {2, 32}, bytes), nullptr, Topology::kTree).ok());
  const Json plan = (*backend)->Plans().at("linear").at(0);
  EXPECT_EQ(plan.at("weight"), "q");
  EXPECT_EQ(plan.at("kernel"), "scalar/q4_1");
  EXPECT_EQ(plan.at("profile"), "int8-dot");
  EXPECT_EQ(plan.at("topology"), "tree");
}

// --- Kernels -------------------------------------------------------------------------------------------------------------------
// One float in every 4099 of all, and every neighbour of a bound of the law. The full comparison of all 2^32 takes minutes; it is
// `backend_bench --exp-all`.
TEST(KernelsTest, ExpEqualsTheLawOnASampleOfAllFloats) {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4099) x.push_back(contract::FloatOf(static_cast<std::uint32_t>(bits)));
  for (const float edge : {contract::kExpMax, contract::kExpMin, 0.0f, -87.33655f, 88.0f, -103.0f}) {
    float below = edge, above = edge;
    for (int i = 0; i < 50; ++i) {
      x.push_back(below);
      x.push_back(above);
      below = std::nextafter(below, -HUGE_VALF);
      above = std::nextafter(above, HUGE_VALF);
    }
  }
  std::vector<std::uint32_t> expected;
  for (const float value : x) expected.push_back(contract::BitsOf(contract::Exp(value)));
  for (const cpu::Kernels* kernels : AvailableKernels()) {
    std::vector<float> y(x.size());
    kernels->exp(x.data(), static_cast<std::int64_t>(x.size()), y.data());
    std::size_t differ = 0;
    for (std::size_t i = 0; i < x.size(); ++i) differ += contract::BitsOf(y[i]) != expected[i];
    EXPECT_EQ(differ, 0u) << kernels->isa;
  }
}

// Steps whose exact bits matter, NaN's too, over every class of operand; through a linear layer of one step.
TEST(KernelsTest, TensorCoreStepEqualsTheLawToTheLastBit) {
  constexpr int kRows = 3, kN = 16, kSteps = 3;
  for (int round = 0; round < 400; ++round) {
    std::uint16_t w[kN][16 * kSteps], x[kRows][16 * kSteps];
    const auto draw = [&](std::uint32_t a, std::uint32_t k) {
      const auto r = Philox4x32({a, k, static_cast<std::uint32_t>(round), 0}, {1, 2});
      const auto bits = [&](std::uint32_t exponent) { return static_cast<std::uint16_t>((r[2] & 0x8000u) | exponent << 7 | (r[2] & 127u)); };
      // The sum's bound: an accumulator of 0.5 to 4, then sixteen products of the largest significands and one sign.
      if (round % 4 == 3 && k < 16) return k == 0 ? static_cast<std::uint16_t>(0x3f00u | (r[2] & 0xffu)) : std::uint16_t{0};
      if (round % 4 == 3 && k < 32) return static_cast<std::uint16_t>(round % 8 == 3 && a >= 1000 ? 0xbfff : 0x3fff);
      // A zero beside a large operand, whose field must not pass for an exponent: the true products lie far below.
      if (round % 4 == 2) return k % 16 != 5 ? bits(74 + r[0] % 10) : a >= 1000 ? bits(160 + r[0] % 20) : std::uint16_t{0};
      const std::uint32_t spread = 1 + round % 200, centre = 127 + r[3] % 3;
      if (round % 5 == 4 && r[1] % 64 == 0) return bits(r[1] % 128 == 0 ? 255 : 0);
      if (round % 7 == 6 && r[1] % 3 == 0) return static_cast<std::uint16_t>(r[2] & 0x8000u);
      return bits((centre + r[0] % spread + 255 - spread / 2) % 255);
    };
    for (std::uint32_t n = 0; n < kN; ++n) {
      for (std::uint32_t k = 0; k < 16 * kSteps; ++k) w[n][k] = draw(n, k);
    }
    for (std::uint32_t r = 0; r < kRows; ++r) {
      for (std::uint32_t k = 0; k < 16 * kSteps; ++k) x[r][k] = draw(1000 + r, k);
    }
    std::vector<std::uint32_t> panel(8 * kSteps * 16);
    std::int32_t largest = 0;
    for (int n = 0; n < kN; ++n) {
      for (int k = 0; k < 16 * kSteps; ++k) {
        panel[k / 2 * 16 + n] |= std::uint32_t{w[n][k]} << (k % 2 * 16);
        largest = std::max<std::int32_t>(largest, w[n][k] >> 7 & 255);
      }
    }
    const std::int64_t cuts[] = {0, 16 * kSteps};
    for (const cpu::Kernels* kernels : AvailableKernels()) {
      float values[kRows][16 * kSteps], out[kRows][kN];
      std::uint32_t exponents[kRows][8 * kSteps];
      std::int32_t max_exponent[kRows];
      for (int r = 0; r < kRows; ++r) {
        float row[16 * kSteps];
        for (int k = 0; k < 16 * kSteps; ++k) row[k] = contract::F32FromBf16(x[r][k]);
        max_exponent[r] = kernels->round_row(row, 16 * kSteps, values[r], exponents[r]);
      }
      cpu::LinearTask task{.layout = cpu::PanelLayout::kBf16Pairs,
                           .panels = reinterpret_cast<const std::byte*>(panel.data()),
                           .panel_bytes = static_cast<std::int64_t>(panel.size() * 4),
                           .n = kN,
                           .k = 16 * kSteps,
                           .num_ranges = 1,
                           .cuts = cuts,
                           .max_exponent = &largest,
                           .x = {.rows = kRows,
                                 .values = values[0],
                                 .value_stride = 16 * kSteps,
                                 .exponents = exponents[0],
                                 .exponent_stride = 8 * kSteps,
                                 .max_exponent = max_exponent},
                           .out = out[0]};
      kernels->linear(task, 0, 1);
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kN; ++n) {
          const float law = contract::TensorCoreChain(0.0f, w[n], x[r]);
          ASSERT_EQ(contract::BitsOf(out[r][n]), contract::BitsOf(law)) << kernels->isa << " round " << round << " row " << r << " lane " << n;
        }
      }
    }
  }
}

TEST(KernelsTest, QuantizeRowPoisonsANonFiniteGroupOnly) {
  std::vector<float> x(96, 1.0f);
  x[40] = std::numeric_limits<float>::infinity();
  for (const cpu::Kernels* kernels : AvailableKernels()) {
    std::vector<std::int8_t> q(96);
    float scale[3];
    std::int32_t sum[3];
    kernels->quantize_row(x.data(), 96, 32, q.data(), scale, sum);
    EXPECT_EQ(scale[0], 1.0f / 127.0f);
    EXPECT_TRUE(std::isnan(scale[1]));
    EXPECT_EQ(sum[0], 32 * 127);
    EXPECT_EQ(sum[1], 0);
    EXPECT_EQ(q[95], 127);
  }
}

}  // namespace
}  // namespace isobit
