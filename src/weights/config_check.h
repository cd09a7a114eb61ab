// The one place that says which dimensions of a model are sane, whatever dialect stated them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "weights/model_config.h"

namespace isobit {

// Far above any model known; low enough that every product of two is exact in 63 bits and every
// list per layer or head is small. Positions: the law's rotary angles end at 2^20 (contract/rope.h).
inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxHiddenSize = 1 << 17;
inline constexpr std::int64_t kMaxIntermediateSize = 1 << 20;
inline constexpr std::int64_t kMaxHeads = 1024;
inline constexpr std::int64_t kMaxHeadDim = 1024;
inline constexpr std::int64_t kMaxVocabSize = 1 << 22;
inline constexpr std::int64_t kMaxPositions = 1 << 20;

// What a dialect calls each field, so that an error names the key in the user's file.
struct ConfigKeys {
  std::string_view num_layers, hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim,
      vocab_size, max_positions, norm_eps, rope_theta, eos_token_id, bos_token_id;
};

// Every limit and every relation between fields. Fails with the key's name.
Status CheckConfig(const ModelConfig& config, const ConfigKeys& keys);

// Checked readers of one JSON value; key is what the error names. kCorrupt for another type or a
// value out of range.
Result<std::int64_t> ReadInteger(const Json& value, std::string_view key);  // an integer, not 32.0
Result<double> ReadNumber(const Json& value, std::string_view key);         // finite
Result<bool> ReadBool(const Json& value, std::string_view key);
Result<std::string> ReadText(const Json& value, std::string_view key);
// A token id, a list of them, or null; appended to ids. Ids must fit int32; CheckConfig compares
// them with the vocabulary.
Status AppendTokenIds(const Json& value, std::string_view key, std::vector<std::int32_t>& ids);

// Sorts and removes duplicates.
void MakeSet(std::vector<std::int32_t>& ids);

}  // namespace isobit
