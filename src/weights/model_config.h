// ModelConfig: what a checkpoint says of its own shape, in one dialect whatever the container (GGUF keys, config.json old or new).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace isobit {

enum class RopeScaling { kNone, kLlama3 };

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  // llama3 only
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_positions = 0;
  // GGUF's form of llama3 scaling: divisors of the inverse frequencies, [head_dim / 2] float32 (tensor rope_freqs.weight). Where there
  // are any, they say all of it and scaling is kNone.
  std::vector<float> frequency_divisors;
};

struct ModelConfig {
  std::string family;  // "llama"
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  float norm_eps = 1e-5f;
  bool tied_head = false;  // no lm_head tensor: the embedding is the head
  RopeConfig rope;
  std::vector<std::int32_t> eos_token_ids;           // union of config, generation_config and tokenizer, ascending
  std::optional<std::int32_t> bos_token_id;
};

}  // namespace isobit
