#include <fmt/format.h>

#include "cases.h"
#include "inputs.h"

namespace isobit::conformance {
namespace {

using contract::Contract;
using contract::Preset;
using contract::Topology;

constexpr DType kWeightTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kI8G128};
constexpr Preset kPresets[] = {Preset::kPortable, Preset::kTensorCore, Preset::kTensorCoreInt8};

struct LinearShape {
  std::int64_t rows, n, k;
};

// One weight, one bias or none, one operand.
void RunLinear(Backend& backend, Recorder& recorder, LinearShape shape, DType dtype, Topology topology, Data data, bool with_bias) {
  const TensorView weight = Weight(dtype, shape.n, shape.k, data, 100 + shape.n);
  const TensorView bias = FloatTensor(DType::kF32, {shape.n}, Floats(Data::kNormal, shape.n, 101));
  const auto loaded = backend.LoadLinear(weight, with_bias ? &bias : nullptr, topology);
  ISOBIT_CHECK(loaded.ok(), "{}", loaded.error().ToString());
  const Matrix x = Filled(backend, shape.rows, shape.k, Floats(data, shape.rows * shape.k, 102 + shape.k));
  const Guarded out(backend, shape.rows, shape.n);
  const LinearOutput outputs[] = {{loaded->get(), out.inside()}};
  backend.Linear(x, outputs);
  out.Record(backend, recorder);
}

// Every type under every preset, both topologies, over the list of k; rows and n take turns so that all of them meet.
void AddShapes(std::vector<Case>& cases) {
  constexpr std::int64_t kDepths[] = {16, 17, 32, 64, 100, 160, 512, 576, 1536, 2048}, kWidths[] = {1, 7, 16, 17, 50, 33, 192};
  int turn = 0;
  for (const Preset preset : kPresets) {
    for (const DType dtype : kWeightTypes) {
      for (const Topology topology : {Topology::kFold, Topology::kTree}) {
        for (const std::int64_t k : kDepths) {
          if (dtype != DType::kI8G128 && k % Info(dtype).block_values != 0) continue;
          const std::int64_t rows = 1 + turn % 17, n = k >= 1536 ? kWidths[turn % 4] : kWidths[turn % std::size(kWidths)];
          const bool with_bias = turn % 3 == 0;
          ++turn;
          const LinearShape shape{rows, n, k};
          cases.push_back({"Linear",
                           fmt::format("{}_{}_{}_m{}n{}k{}{}", Name(preset), Name(dtype), Name(topology), rows, n, k, with_bias ? "_bias" : ""),
                           Contract{.preset = preset}, [=](Backend& backend, Recorder& recorder) {
                             RunLinear(backend, recorder, shape, dtype, topology, Data::kNormal, with_bias);
                           }});
        }
      }
    }
  }
  // Sizes of a whole layer, more rows than any block.
  for (const Preset preset : kPresets) {
    for (const DType dtype : {DType::kBF16, DType::kQ4_1}) {
      cases.push_back({"Linear", fmt::format("{}_{}_fold_m37n576k576", Name(preset), Name(dtype)), Contract{.preset = preset},
                       [dtype](Backend& backend, Recorder& recorder) {
                         RunLinear(backend, recorder, {37, 576, 576}, dtype, Topology::kFold, Data::kNormal, false);
                       }});
    }
  }
}

// Data at the edges: for the tensor-core step above all, but no profile may stumble.
void AddEdges(std::vector<Case>& cases) {
  for (const Preset preset : kPresets) {
    for (const Data data : kAllData) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_1}) {
        for (const std::int64_t k : {16, 32, 160, 576}) {
          if (k % Info(dtype).block_values != 0) continue;
          const LinearShape shape{9, k <= 32 ? 192 : 50, k};
          cases.push_back({"Linear", fmt::format("{}_{}_{}_k{}", Name(preset), Name(dtype), Name(data), k), Contract{.preset = preset},
                           [=](Backend& backend, Recorder& recorder) {
                             RunLinear(backend, recorder, shape, dtype, k == 160 ? Topology::kTree : Topology::kFold, data, false);
                           }});
        }
      }
    }
  }
}

// Several weights of one call share the operand: types and group sizes mixed.
void AddShared(std::vector<Case>& cases) {
  for (const Preset preset : kPresets) {
    cases.push_back({"Linear", fmt::format("{}_shared_operand", Name(preset)), Contract{.preset = preset}, [](Backend& backend, Recorder& recorder) {
                       const std::int64_t rows = 11, k = 192;
                       std::vector<std::unique_ptr<LinearWeight>> weights;
                       std::vector<Guarded> outs;
                       std::vector<LinearOutput> outputs;
                       for (const DType dtype : kWeightTypes) {
                         const std::int64_t n = 19 + 16 * static_cast<std::int64_t>(weights.size());
                         auto loaded = backend.LoadLinear(Weight(dtype, n, k, Data::kNormal, n), nullptr, Topology::kFold);
                         ISOBIT_CHECK(loaded.ok());
                         weights.push_back(std::move(*loaded));
                         outs.emplace_back(backend, rows, n);
                       }
                       for (std::size_t i = 0; i < weights.size(); ++i) outputs.push_back({weights[i].get(), outs[i].inside()});
                       backend.Linear(Filled(backend, rows, k, Floats(Data::kNormal, rows * k, 7)), outputs);
                       for (const Guarded& out : outs) out.Record(backend, recorder);
                     }});
  }
}

}  // namespace

void AddLinearCases(std::vector<Case>& cases) {
  AddShapes(cases);
  AddEdges(cases);
  AddShared(cases);
}

}  // namespace isobit::conformance
