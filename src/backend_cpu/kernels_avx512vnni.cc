// GCC 12 takes the deliberately undefined pass-through operands of its own AVX-512 header for mistakes (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include "backend_cpu/kernel_table.h"
#include "backend_cpu/vector_avx512.h"

namespace isobit::cpu {
namespace {

// VectorAvx512 with the byte dot product of VNNI.
struct VectorAvx512Vnni : VectorAvx512 {
  static constexpr bool kHasDot4 = true;
  static I Dot4(I acc, B w, B x) { return _mm512_dpbusd_epi32(acc, w, x); }
};

// Only int8-dot differs from avx512; no copy of the rest.
void Linear(const LinearTask& task, std::int64_t begin, std::int64_t end) {
  if (IsInt8(task.layout)) LinearInt8<VectorAvx512Vnni>(task, begin, end);
  else Avx512Kernels().linear(task, begin, end);
}

}  // namespace

const Kernels& Avx512VnniKernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = Avx512Kernels();
    kernels.isa = "avx512vnni";
    kernels.linear = Linear;
    return kernels;
  }();
  return kKernels;
}

}  // namespace isobit::cpu
