// GGUF's metadata keys, as llama.cpp writes them, to ModelConfig.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tensor/tensor.h"
#include "weights/model_config.h"

namespace isobit {

inline constexpr const char* kGgufEmbedding = "token_embd.weight";
inline constexpr const char* kGgufHead = "output.weight";
inline constexpr const char* kGgufRopeDivisors = "rope_freqs.weight";

// tensors (GGUF names) give what no key says: the vocabulary (rows of the embedding), a tied head
// (no output.weight), the divisors of llama3 scaling (rope_freqs.weight). Every "llama.*" key is
// understood, known to be harmless, or stops the load by its name.
Result<ModelConfig> ConfigFromGguf(const Json& metadata, const std::vector<TensorView>& tensors);

}  // namespace isobit
