#include "weights/config_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace isobit {
namespace {

Status CheckRange(std::int64_t value, std::int64_t most, std::string_view key) {
  if (value >= 1 && value <= most) return {};
  return Fail(ErrorCode::kCorrupt, std::string(key), "is {}; 1 to {} expected", value, most);
}

Status CheckTokenId(std::int64_t id, std::int64_t vocab_size, std::string_view key) {
  if (id >= 0 && id < vocab_size) return {};
  return Fail(ErrorCode::kCorrupt, std::string(key), "names token {}; the vocabulary has {}", id,
              vocab_size);
}

Error WrongType(std::string_view key, const Json& value, std::string_view expected) {
  return Fail(ErrorCode::kCorrupt, std::string(key), "is of type {}; {} expected",
              value.type_name(), expected);
}

}  // namespace

Status CheckConfig(const ModelConfig& config, const ConfigKeys& keys) {
  ISOBIT_TRY(CheckRange(config.num_layers, kMaxLayers, keys.num_layers));
  ISOBIT_TRY(CheckRange(config.hidden_size, kMaxHiddenSize, keys.hidden_size));
  ISOBIT_TRY(CheckRange(config.intermediate_size, kMaxIntermediateSize, keys.intermediate_size));
  ISOBIT_TRY(CheckRange(config.num_heads, kMaxHeads, keys.num_heads));
  ISOBIT_TRY(CheckRange(config.num_kv_heads, kMaxHeads, keys.num_kv_heads));
  ISOBIT_TRY(CheckRange(config.head_dim, kMaxHeadDim, keys.head_dim));
  ISOBIT_TRY(CheckRange(config.vocab_size, kMaxVocabSize, keys.vocab_size));
  ISOBIT_TRY(CheckRange(config.max_positions, kMaxPositions, keys.max_positions));
  if (config.num_heads % config.num_kv_heads != 0) {
    return Fail(ErrorCode::kCorrupt, std::string(keys.num_kv_heads),
                "is {}, which does not divide the {} query heads", config.num_kv_heads,
                config.num_heads);
  }
  if (config.head_dim % 2 != 0) {
    return Fail(ErrorCode::kCorrupt, std::string(keys.head_dim),
                "is {}; rotary embeddings need an even number", config.head_dim);
  }
  if (!(config.norm_eps > 0.0f && config.norm_eps < 1.0f)) {
    return Fail(ErrorCode::kCorrupt, std::string(keys.norm_eps),
                "is {}; a number above 0 and below 1 expected", config.norm_eps);
  }
  if (!(config.rope.theta > 1.0 && config.rope.theta <= std::numeric_limits<float>::max())) {
    return Fail(ErrorCode::kCorrupt, std::string(keys.rope_theta),
                "is {}; a finite number above 1 expected", config.rope.theta);
  }
  for (const std::int32_t id : config.eos_token_ids)
    ISOBIT_TRY(CheckTokenId(id, config.vocab_size, keys.eos_token_id));
  if (config.bos_token_id.has_value())
    ISOBIT_TRY(CheckTokenId(*config.bos_token_id, config.vocab_size, keys.bos_token_id));
  return {};
}

Result<std::int64_t> ReadInteger(const Json& value, std::string_view key) {
  if (!value.is_number_integer()) return WrongType(key, value, "an integer");
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return Fail(ErrorCode::kCorrupt, std::string(key), "is {}, far out of range",
                value.get<std::uint64_t>());
  }
  return value.get<std::int64_t>();
}

Result<double> ReadNumber(const Json& value, std::string_view key) {
  if (!value.is_number()) return WrongType(key, value, "a number");
  const double number = value.get<double>();
  if (!std::isfinite(number))
    return Fail(ErrorCode::kCorrupt, std::string(key), "is not a finite number");
  return number;
}

Result<bool> ReadBool(const Json& value, std::string_view key) {
  if (!value.is_boolean()) return WrongType(key, value, "true or false");
  return value.get<bool>();
}

Result<std::string> ReadText(const Json& value, std::string_view key) {
  if (!value.is_string()) return WrongType(key, value, "a string");
  return value.get<std::string>();
}

Status AppendTokenIds(const Json& value, std::string_view key, std::vector<std::int32_t>& ids) {
  if (value.is_null()) return {};
  if (value.is_array()) {
    for (const Json& element : value) {
      if (!element.is_number_integer()) return WrongType(key, element, "a list of integers");
      ISOBIT_TRY(AppendTokenIds(element, key, ids));
    }
    return {};
  }
  ISOBIT_ASSIGN(const std::int64_t id, ReadInteger(value, key));
  if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
    return Fail(ErrorCode::kCorrupt, std::string(key), "names token {}, which cannot be a token",
                id);
  }
  ids.push_back(static_cast<std::int32_t>(id));
  return {};
}

void MakeSet(std::vector<std::int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace isobit
