// The CPU backend: vector loops equal to the law bit for bit, chosen by instruction set at start, on an own thread pool whose size
// cannot change a bit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"

namespace isobit {

struct CpuBackendOptions {
  int num_threads = 0;          // 0: one per core the process may run on
  std::string isa;              // "": the best this machine has, or ISOBIT_ISA as the app passes it; "scalar", "avx2", "avx512", ...
};

// Names of the instruction sets this machine can run, best first: {"avx512vnni", "avx512", "avx2", "scalar"}.
std::vector<std::string> AvailableIsas();

// kUnsupported (field "ISOBIT_ISA") for a name that is unknown or that this machine cannot run.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const contract::Contract& contract, const CpuBackendOptions& options);

}  // namespace isobit
