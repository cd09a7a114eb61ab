#include "backend_cpu/kernel_table.h"
#include "backend_cpu/vector_avx2.h"

namespace isobit::cpu {

const Kernels& Avx2Kernels() {
  static constexpr Kernels kKernels = MakeKernels<VectorAvx2>("avx2");
  return kKernels;
}

}  // namespace isobit::cpu
