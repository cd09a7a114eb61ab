// GCC 12 takes the deliberately undefined pass-through operands of its own AVX-512 header for mistakes (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include "backend_cpu/kernel_table.h"
#include "backend_cpu/vector_avx512.h"

namespace isobit::cpu {

const Kernels& Avx512Kernels() {
  static constexpr Kernels kKernels = MakeKernels<VectorAvx512>("avx512");
  return kKernels;
}

}  // namespace isobit::cpu
