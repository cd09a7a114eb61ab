// Seeded inputs: float data of several shapes, and weight tensors of every stored type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace isobit::conformance {

// Data sets. Each is finite unless it says otherwise.
enum class Data : std::uint8_t {
  kNormal,       // like activations: about N(0, 1), a few values far out
  kWide,         // exponents from -40 to 40
  kExtreme,      // any finite bf16 or f32, over the whole range of exponents
  kSubnormal,    // mostly subnormals and zeros
  kCancelling,   // pairs that cancel to a few low bits
  kSaturated,    // all near the largest significand and of one sign: sums at their bound
  kSparse,       // mostly zeros of both signs
  kNonFinite,    // kNormal with a few NaN and infinities
};
const char* Name(Data data);
inline constexpr Data kAllData[] = {Data::kNormal,    Data::kWide,      Data::kExtreme, Data::kSubnormal,
                                    Data::kCancelling, Data::kSaturated, Data::kSparse,  Data::kNonFinite};

// Value i of a stream is a pure function of (seed, i).
std::vector<float> Floats(Data data, std::int64_t count, std::uint64_t seed);

// [n, k] stored as dtype; quantised types get random integers and scales. The view owns its bytes.
TensorView Weight(DType dtype, std::int64_t n, std::int64_t k, Data data, std::uint64_t seed);
TensorView FloatTensor(DType dtype, Shape shape, const std::vector<float>& values);

}  // namespace isobit::conformance
