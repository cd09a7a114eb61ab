// Transformer: the llama family, written once as calls on a Backend.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "model/language_model.h"
#include "weights/checkpoint.h"

namespace isobit {

class Transformer final : public LanguageModel {
 public:
  // Packs every weight, makes the rope table and takes all memory. backend outlives the model. limits.max_model_len 0 becomes the
  // checkpoint's own maximum; num_blocks must be set. Errors name the flag or the tensor.
  static Result<std::unique_ptr<Transformer>> Load(const Checkpoint& checkpoint, Backend& backend, const ModelLimits& limits);

  std::int64_t vocab_size() const override { return config_.vocab_size; }
  const ModelLimits& limits() const override { return limits_; }
  void Forward(const BatchInputs& batch) override;
  std::span<const float> Logits(std::int64_t first, std::int64_t count) override;

  std::int64_t kv_bytes() const { return cache_->size_bytes(); }

 private:
  struct Layer {
    Matrix attention_norm, mlp_norm;  // [1, hidden]
    std::unique_ptr<LinearWeight> q, k, v, o, gate, up, down;
  };

  // One step's activations, for max_batch_tokens rows.
  struct Buffers {
    Matrix hidden;           // [tokens, hidden] the residual stream
    Matrix normed;           // [tokens, hidden]
    Matrix q, attended;      // [tokens, heads * head_dim]
    Matrix k, v;             // [tokens, kv_heads * head_dim]
    Matrix gate, up;         // [tokens, intermediate]
    Matrix outputs;          // [tokens, hidden] final states of the wanted rows
    Matrix wanted;           // [max_logit_rows, hidden]
    Matrix logits;           // [max_logit_rows, vocab]
  };

  Transformer(const ModelConfig& config, Backend& backend, const ModelLimits& limits)
      : config_(config), backend_(backend), limits_(limits) {}
  Status LoadWeights(const Checkpoint& checkpoint);
  Status TakeMemory();
  void RunLayer(std::int64_t layer_index, const BatchInputs& batch);

  ModelConfig config_;
  Backend& backend_;
  ModelLimits limits_;
  std::unique_ptr<LinearWeight> embedding_, head_;
  Matrix final_norm_;
  std::vector<Layer> layers_;
  std::unique_ptr<KvMemory> cache_;
  Buffers buffers_;
  std::int64_t num_outputs_ = 0;  // of the last Forward
};

}  // namespace isobit
