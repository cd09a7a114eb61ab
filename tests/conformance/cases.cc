#include "cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "contract/float_bits.h"
#include "inputs.h"

namespace isobit::conformance {
namespace {

constexpr std::uint32_t kSentinel = 0xc0ffee11u;  // a finite float that no op gives by chance

using contract::Contract;

void AddEmbed(std::vector<Case>& cases) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kI8G128}) {
    cases.push_back({"Embed", fmt::format("{}", Name(dtype)), Contract{}, [dtype](Backend& backend, Recorder& recorder) {
                       const auto table = backend.LoadEmbedding(Weight(dtype, 23, 160, Data::kNormal, 11));
                       ISOBIT_CHECK(table.ok());
                       const std::vector<std::int32_t> ids = {0, 22, 5, 5, 21, 1};
                       const Guarded out(backend, 6, 160);
                       backend.Embed(**table, ids, out.inside());
                       out.Record(backend, recorder);
                     }});
  }
}

void AddNorm(std::vector<Case>& cases) {
  for (const std::int64_t k : {1, 7, 16, 50, 255, 256, 257, 512, 576, 1536, 2048}) {
    for (const Data data : {Data::kNormal, Data::kExtreme, Data::kSubnormal, Data::kSparse, Data::kNonFinite}) {
      cases.push_back({"RmsNorm", fmt::format("k{}_{}", k, Name(data)), Contract{}, [k, data](Backend& backend, Recorder& recorder) {
                         const std::int64_t rows = 5;
                         const Matrix x = Filled(backend, rows, k, Floats(data, rows * k, 21 + k));
                         const auto weight = backend.LoadVector(FloatTensor(DType::kBF16, {k}, Floats(Data::kNormal, k, 22)));
                         ISOBIT_CHECK(weight.ok());
                         const Guarded out(backend, rows, k);
                         backend.RmsNorm(x, *weight, 1e-5f, out.inside());
                         out.Record(backend, recorder);
                         backend.RmsNorm(x, *weight, 1e-6f, x);  // in place
                         recorder.Put(backend.Read(x), k);
                       }});
    }
  }
}

void AddRope(std::vector<Case>& cases) {
  for (const std::int64_t head_dim : {2, 6, 16, 32, 64, 96, 128}) {
    cases.push_back({"Rope", fmt::format("d{}", head_dim), Contract{}, [head_dim](Backend& backend, Recorder& recorder) {
                       const contract::RopeSpec spec{.theta = 100000.0, .head_dim = head_dim};
                       ISOBIT_CHECK(backend.SetRopeTable(contract::MakeRopeTable(spec, 64)).ok());
                       const std::vector<std::int32_t> positions = {0, 1, 63, 17, 18, 19, 2};
                       const auto rows = static_cast<std::int64_t>(positions.size()), cols = 3 * head_dim;
                       for (const Data data : {Data::kNormal, Data::kExtreme, Data::kSubnormal}) {
                         const Guarded x(backend, rows, cols);
                         const std::vector<float> values = Floats(data, rows * cols, 31);
                         std::copy(values.begin(), values.end(), x.inside().data);
                         backend.Rope(x.inside(), head_dim, positions);
                         x.Record(backend, recorder);
                       }
                     }});
  }
}

void AddElementwise(std::vector<Case>& cases) {
  for (const std::int64_t cols : {1, 15, 16, 17, 576, 1536}) {
    for (const Data data : kAllData) {
      const std::string name = fmt::format("c{}_{}", cols, Name(data));
      cases.push_back({"SiluMul", name, Contract{}, [cols, data](Backend& backend, Recorder& recorder) {
                         const std::int64_t rows = 7;
                         std::vector<float> gates = Floats(data, rows * cols, 41);
                         // Also where the exponential ends and turns subnormal.
                         for (std::size_t i = 0; i < gates.size(); i += 3) gates[i] = -110.0f + 0.37f * static_cast<float>(i % 600);
                         const Matrix gate = Filled(backend, rows, cols, gates), up = Filled(backend, rows, cols, Floats(data, rows * cols, 42));
                         const Guarded out(backend, rows, cols);
                         backend.SiluMul(gate, up, out.inside());
                         out.Record(backend, recorder);
                         backend.SiluMul(gate, up, gate);
                         recorder.Put(backend.Read(gate), cols);
                       }});
      cases.push_back({"Add", name, Contract{}, [cols, data](Backend& backend, Recorder& recorder) {
                         const std::int64_t rows = 7;
                         const Guarded x(backend, rows, cols);
                         const std::vector<float> values = Floats(data, rows * cols, 43);
                         std::copy(values.begin(), values.end(), x.inside().data);
                         backend.Add(x.inside(), Filled(backend, rows, cols, Floats(data, rows * cols, 44)));
                         x.Record(backend, recorder);
                       }});
    }
  }
}

void AddGather(std::vector<Case>& cases) {
  cases.push_back({"GatherRows", "c50", Contract{}, [](Backend& backend, Recorder& recorder) {
                     const Matrix x = Filled(backend, 9, 50, Floats(Data::kExtreme, 9 * 50, 51));
                     const std::vector<std::int32_t> rows = {0, 3, 8};
                     const Guarded out(backend, 3, 50);
                     backend.GatherRows(x, rows, out.inside());
                     out.Record(backend, recorder);
                   }});
}

}  // namespace

void Recorder::Put(std::span<const float> from, std::int64_t row_size) {
  values.insert(values.end(), from.begin(), from.end());
  cols = row_size;
}

Matrix Filled(Backend& backend, std::int64_t rows, std::int64_t cols, const std::vector<float>& values) {
  const auto matrix = backend.Allocate(rows + 1, cols);
  ISOBIT_CHECK(matrix.ok() && static_cast<std::int64_t>(values.size()) == rows * cols);
  std::copy(values.begin(), values.end(), matrix->data);
  std::fill_n(matrix->data + rows * cols, cols, contract::FloatOf(0x7fc0dead));
  return matrix->first_rows(rows);
}

Guarded::Guarded(Backend& backend, std::int64_t rows, std::int64_t cols) {
  const auto matrix = backend.Allocate(rows + 2, cols);
  ISOBIT_CHECK(matrix.ok());
  whole_ = *matrix;
  std::fill_n(whole_.data, whole_.rows * whole_.cols, contract::FloatOf(kSentinel));
}

void Guarded::Record(Backend& backend, Recorder& recorder) const { recorder.Put(backend.Read(whole_), whole_.cols); }

void AddElementCases(std::vector<Case>& cases) {
  AddEmbed(cases);
  AddNorm(cases);
  AddRope(cases);
  AddElementwise(cases);
  AddGather(cases);
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  AddElementCases(cases);
  AddLinearCases(cases);
  AddAttentionCases(cases);
  return cases;
}

}  // namespace isobit::conformance
