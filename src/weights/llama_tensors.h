// The tensors of a llama checkpoint: the one list of names, shapes and kinds, for every container.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"
#include "weights/model_config.h"

namespace isobit {

enum class TensorKind {
  kMatrix,  // any float or block type
  kNorm,    // F32, F16 or BF16
};

struct ExpectedTensor {
  std::string name;       // canonical: Hugging Face's
  std::string gguf_name;  // "blk.0.attn_q.weight"
  TensorKind kind;
  Shape shape;  // outermost first
  // Above 0: GGUF keeps the rows of each of so many heads in the order that puts rotary pairs side
  // by side.
  std::int64_t gguf_permuted_heads = 0;
};

// All of them for config; with lm_head.weight unless config.tied_head. config has passed
// CheckConfig.
std::vector<ExpectedTensor> LlamaTensors(const ModelConfig& config);

// Shape and dtype of tensor are what expected says. kCorrupt or kUnsupported, Error::field is the
// tensor's own name.
Status CheckTensor(const TensorView& tensor, const ExpectedTensor& expected);

// GGUF's order of q and k rows to Hugging Face's, head by head: row 2i + a of a head of d rows
// becomes row i + a * d/2 (a = 0, 1). Copies whole rows, so any dtype goes. tensor is [num_heads *
// d, columns].
TensorView UnpermuteRows(const TensorView& tensor, std::int64_t num_heads);
// The inverse: what llama.cpp's converter does.
TensorView PermuteRows(const TensorView& tensor, std::int64_t num_heads);

}  // namespace isobit
