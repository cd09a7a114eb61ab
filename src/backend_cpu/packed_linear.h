// PackedLinear: a weight matrix in panels of sixteen rows (kernels.h), made once at load; and the rows of an embedding.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend_cpu/aligned_buffer.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/thread_pool.h"
#include "base/result.h"
#include "contract/contract.h"

namespace isobit::cpu {

struct PackedLinear : LinearWeight {
  PanelLayout layout = PanelLayout::kF32;
  std::int64_t group = 1;       // int8-dot: k per group
  std::int64_t num_panels = 0;  // rows of the last one behind n are zero
  std::int64_t panel_bytes = 0;
  AlignedBuffer panels;
  std::vector<std::int64_t> cuts;           // [ranges + 1]
  std::vector<std::int32_t> max_exponent;   // kBf16Pairs: [num_panels]
  std::vector<float> bias;                  // empty, or [num_panels * 16]
};

struct EmbeddingTable : LinearWeight {
  TensorView table;
  std::vector<std::byte> copy;  // where the view does not keep its bytes alive
};

const char* Name(PanelLayout layout);

// The error names the tensor. Rows are packed in parallel.
Result<std::unique_ptr<PackedLinear>> PackLinear(const contract::Contract& contract, const TensorView& weight, const TensorView* bias,
                                                 contract::Topology topology, ThreadPool& pool);

// A float tensor of any plain float type, widened.
Result<std::vector<float>> WidenFloats(const TensorView& tensor);

// [n, k] with n, k > 0, a type with float values, and as many bytes as both say.
Status CheckWeight(const TensorView& weight);

}  // namespace isobit::cpu
