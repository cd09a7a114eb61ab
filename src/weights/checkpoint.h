// Checkpoint: a model on disk, opened and wholly checked: every tensor named, shaped and typed as its config demands. Names are
// canonical (those of Hugging Face: "model.layers.0.self_attn.q_proj.weight") whatever the container, and GGUF's permuted q and k
// rows are in Hugging Face's order, so every container gives one set of bits.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tensor/tensor.h"
#include "weights/model_config.h"

namespace isobit {

class Checkpoint {
 public:
  // path: a .gguf file, or a folder with config.json and model.safetensors (or one .safetensors file of another name). Reads every
  // header, checks everything that can be checked without reading weights, and fails with the file's, key's or tensor's name in
  // Error::field. Costs one copy of the q and k matrices (GGUF), no other weight bytes; 20 ms for a vocabulary of 49,152.
  static Result<std::shared_ptr<const Checkpoint>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& container() const { return container_; }  // "gguf" or "safetensors"
  const ModelConfig& config() const { return config_; }

  // Canonical names, sorted.
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  // CHECKs that the tensor exists: Open has proved that every tensor of the family does.
  const TensorView& tensor(const std::string& canonical_name) const;

  // GGUF: every metadata key in file order, arrays included (a tokenizer needs "tokenizer.ggml.*" and "tokenizer.chat_template").
  // Folder: {"config": ..., "generation_config": ..., "tokenizer_config": ...} as far as the files exist.
  const Json& metadata() const { return metadata_; }

  // SHA-256 over canonical name, dtype, shape and values of every tensor in name order: equal for equal values in any container
  // layout of the same dtype. A block type's values are its stored blocks, rows in canonical order. What the config says (RoPE, eps)
  // is not part of it. Reads all weights: seconds for a large model.
  std::string WeightsDigest() const;

 private:
  friend struct CheckpointBuilder;
  std::string path_;
  std::string container_;
  ModelConfig config_;
  std::map<std::string, TensorView> tensors_;
  Json metadata_;
};

}  // namespace isobit
