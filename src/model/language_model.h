// LanguageModel: what the engine knows of a model: a step's tokens in, logits of the wanted rows out. The real one is a transformer
// over a Backend; the simulator puts a hash model here, so that any wrong KV block is a wrong token at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/batch.h"

namespace isobit {

// Memory is taken once, for these maxima.
struct ModelLimits {
  std::int64_t max_batch_tokens = 512;  // rows of one step
  std::int64_t max_sequences = 64;      // sequences of one step
  std::int64_t max_logit_rows = 64;     // rows of one Logits call
  std::int64_t max_model_len = 0;       // positions of a sequence; 0: the model's own maximum
  std::int64_t num_blocks = 0;          // KV blocks
  std::int64_t block_size = 16;         // positions a block, 8 to 256, a power of two
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual std::int64_t vocab_size() const = 0;
  virtual const ModelLimits& limits() const = 0;

  // Runs every row, writes its KV, keeps the final hidden state of batch.output_rows.
  virtual void Forward(const BatchInputs& batch) = 0;

  // Logits of output rows [first, first + count) of the last Forward: [count, vocab_size] float32, host memory, valid until the next
  // call. count <= max_logit_rows.
  virtual std::span<const float> Logits(std::int64_t first, std::int64_t count) = 0;
};

}  // namespace isobit
