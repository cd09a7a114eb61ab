#include "backend_cpu/kernel_table.h"
#include "backend_cpu/vector_scalar.h"
#include "contract/tensor_core.h"

namespace isobit::cpu {

const Kernels& ScalarKernels() {
  static constexpr Kernels kKernels = MakeKernels<VectorScalar>("scalar");
  return kKernels;
}

std::int64_t AttentionScratch(std::int64_t heads_per_kv_head, std::int64_t head_dim) {
  return LayOutScratch(kItemRows * heads_per_kv_head, head_dim).total;
}

void TensorCoreStepByLaw(const std::uint32_t* pairs, const float* x, float* acc) {
  std::uint16_t a[16], b[16];
  for (int k = 0; k < 16; ++k) {
    std::uint32_t bits;
    std::memcpy(&bits, x + k, 4);
    b[k] = static_cast<std::uint16_t>(bits >> 16);
  }
  for (int lane = 0; lane < kVectorLanes; ++lane) {
    for (int j = 0; j < 8; ++j) {
      a[2 * j] = static_cast<std::uint16_t>(pairs[j * kVectorLanes + lane]);
      a[2 * j + 1] = static_cast<std::uint16_t>(pairs[j * kVectorLanes + lane] >> 16);
    }
    acc[lane] = contract::TensorCoreStep(acc[lane], a, b);
  }
}

}  // namespace isobit::cpu
