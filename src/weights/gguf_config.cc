#include "weights/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "weights/config_check.h"
#include "weights/names.h"

namespace isobit {
namespace {

constexpr std::string_view kPrefix = "llama.";

constexpr ConfigKeys kKeys = {
    .num_layers = "llama.block_count",
    .hidden_size = "llama.embedding_length",
    .intermediate_size = "llama.feed_forward_length",
    .num_heads = "llama.attention.head_count",
    .num_kv_heads = "llama.attention.head_count_kv",
    .head_dim = "llama.attention.key_length",
    .vocab_size = "llama.vocab_size",
    .max_positions = "llama.context_length",
    .norm_eps = "llama.attention.layer_norm_rms_epsilon",
    .rope_theta = "llama.rope.freq_base",
    .eos_token_id = "tokenizer.ggml.eos_token_id",
    .bos_token_id = "tokenizer.ggml.bos_token_id",
};
constexpr std::string_view kValueLength = "llama.attention.value_length";
constexpr std::string_view kRopeDims = "llama.rope.dimension_count";
constexpr std::string_view kScalingType = "llama.rope.scaling.type";

constexpr std::string_view kUnderstood[] = {
    kKeys.num_layers, kKeys.hidden_size,   kKeys.intermediate_size,
    kKeys.num_heads,  kKeys.num_kv_heads,  kKeys.head_dim,
    kKeys.vocab_size, kKeys.max_positions, kKeys.norm_eps,
    kKeys.rope_theta, kValueLength,        kRopeDims,
    kScalingType,
};

// Keys that would change a value, in the settings that do not: numbers compare as numbers.
struct FixedKey {
  std::string_view key;
  std::string_view only;  // JSON text; a second allowed value may follow behind '|'
};
constexpr FixedKey kFixed[] = {
    {"llama.expert_count", "0"},
    {"llama.expert_used_count", "0"},
    {"llama.attention.causal", "true"},
    {"llama.use_parallel_residual", "false"},
    {"llama.attention.sliding_window", "0"},
    // llama.cpp takes a missing scaling type for linear, with the factor 0 meaning none.
    {"llama.rope.scaling.factor", "1.0|0.0"},
    {"llama.rope.scale_linear", "1.0|0.0"},
    {"llama.rope.scaling.attn_factor", "1.0"},
    // Where the writer names a layout at all, it is this one: rotary pairs side by side, as every
    // llama file has them.
    {"llama.tensor_data_layout", "\"Meta AI original pth\""},
};

// Matter only to a scaling type that is refused.
constexpr std::string_view kHarmless[] = {"llama.rope.scaling.original_context_length",
                                          "llama.rope.scaling.finetuned"};

constexpr std::string_view kEndTokenKeys[] = {kKeys.eos_token_id, "tokenizer.ggml.eot_token_id",
                                              "tokenizer.ggml.eom_token_id"};

const Json* Find(const Json& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &*found;
}

Result<const Json*> Required(const Json& metadata, std::string_view key) {
  const Json* value = Find(metadata, key);
  if (value != nullptr) return value;
  return Fail(ErrorCode::kCorrupt, std::string(key),
              "this metadata key is missing from the GGUF file; convert the model again");
}

Result<std::int64_t> RequiredInteger(const Json& metadata, std::string_view key) {
  ISOBIT_ASSIGN(const Json* value, Required(metadata, key));
  return ReadInteger(*value, key);
}

// A count that some writers give per layer: a number, or a list of equal numbers.
Result<std::int64_t> UniformInteger(const Json& value, std::string_view key) {
  if (!value.is_array()) return ReadInteger(value, key);
  if (value.empty()) return Fail(ErrorCode::kCorrupt, std::string(key), "is an empty list");
  for (const Json& element : value) {
    if (element != value.front()) {
      return Fail(ErrorCode::kUnsupported, std::string(key),
                  "differs between layers, which is not done here");
    }
  }
  return ReadInteger(value.front(), key);
}

bool HoldsOneOf(const Json& value, std::string_view only) {
  const Json first = Json::parse(only.substr(0, only.find('|')));
  if (value == first) return true;
  return only.find('|') != only.npos && value == Json::parse(only.substr(only.find('|') + 1));
}

Status CheckKeys(const Json& metadata) {
  for (const auto& [key, value] : metadata.items()) {
    if (!std::string_view(key).starts_with(kPrefix)) continue;
    if (std::find(std::begin(kUnderstood), std::end(kUnderstood), key) != std::end(kUnderstood))
      continue;
    if (std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless)) continue;
    const auto* fixed = std::find_if(std::begin(kFixed), std::end(kFixed),
                                     [&](const FixedKey& f) { return f.key == key; });
    if (fixed != std::end(kFixed) && HoldsOneOf(value, fixed->only)) continue;
    return Fail(ErrorCode::kUnsupported, Printable(key),
                "{}; this changes what the model computes and is not done here",
                fixed == std::end(kFixed) ? "is a key that is not known"
                                          : "is " + Printable(DumpJson(value)));
  }
  return {};
}

Status CheckFamily(const Json& metadata) {
  ISOBIT_ASSIGN(const Json* architecture, Required(metadata, "general.architecture"));
  ISOBIT_ASSIGN(const std::string family, ReadText(*architecture, "general.architecture"));
  if (family != "llama") {
    return Fail(ErrorCode::kUnsupported, "general.architecture",
                "is \"{}\"; the only family read yet is \"llama\"", Printable(family));
  }
  if (const Json* type = Find(metadata, "general.type"); type != nullptr && *type != "model") {
    return Fail(ErrorCode::kUnsupported, "general.type", "is {}; a file of type \"model\" expected",
                Printable(DumpJson(*type)));
  }
  if (const Json* count = Find(metadata, "split.count")) {
    ISOBIT_ASSIGN(const std::int64_t num_parts, ReadInteger(*count, "split.count"));
    if (num_parts > 1) {
      return Fail(ErrorCode::kUnsupported, "split.count",
                  "the model is split over {} files; merge them into one", num_parts);
    }
  }
  return {};
}

// hidden_size and num_heads are set; not yet checked.
Status ReadHeadDim(const Json& metadata, ModelConfig& config) {
  if (config.num_heads < 1) return {};  // CheckConfig will say so
  std::string_view source = kKeys.head_dim;
  if (const Json* length = Find(metadata, kKeys.head_dim)) {
    ISOBIT_ASSIGN(config.head_dim, ReadInteger(*length, kKeys.head_dim));
  } else {
    source = kKeys.num_heads;
    if (config.hidden_size % config.num_heads != 0) {
      return Fail(ErrorCode::kCorrupt, std::string(kKeys.num_heads),
                  "{} heads do not divide the embedding length {}", config.num_heads,
                  config.hidden_size);
    }
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (const Json* length = Find(metadata, kValueLength)) {
    ISOBIT_ASSIGN(const std::int64_t value_length, ReadInteger(*length, kValueLength));
    if (value_length != config.head_dim) {
      return Fail(ErrorCode::kUnsupported, std::string(kValueLength),
                  "is {}, but keys have {} ({}); they must be equal here", value_length,
                  config.head_dim, source);
    }
  }
  if (const Json* dims = Find(metadata, kRopeDims)) {
    ISOBIT_ASSIGN(const std::int64_t rope_dims, ReadInteger(*dims, kRopeDims));
    if (rope_dims != config.head_dim) {
      return Fail(ErrorCode::kUnsupported, std::string(kRopeDims),
                  "is {} of {} dimensions of a head; partial rotation is not done here", rope_dims,
                  config.head_dim);
    }
  }
  return {};
}

Status ReadRopeDivisors(const TensorView& tensor, ModelConfig& config) {
  if (tensor.dtype != DType::kF32 || tensor.shape != Shape{config.head_dim / 2}) {
    return Fail(ErrorCode::kCorrupt, tensor.name, "is {} {}; f32 [{}] expected", Name(tensor.dtype),
                ToString(tensor.shape), config.head_dim / 2);
  }
  std::vector<float>& divisors = config.rope.frequency_divisors;
  divisors.resize(static_cast<std::size_t>(config.head_dim / 2));
  std::memcpy(divisors.data(), tensor.data.data(), tensor.data.size());
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    // Scaling stretches wavelengths. A smaller divisor could turn an angle out of the law's range.
    if (!(std::isfinite(divisors[i]) && divisors[i] >= 1.0f)) {
      return Fail(ErrorCode::kCorrupt, tensor.name,
                  "holds {} at index {}; finite numbers of 1 or more expected", divisors[i], i);
    }
  }
  return {};
}

Status ReadTokens(const Json& metadata, ModelConfig& config) {
  if (const Json* tokens = Find(metadata, "tokenizer.ggml.tokens")) {
    if (!tokens->is_array() || static_cast<std::int64_t>(tokens->size()) != config.vocab_size) {
      return Fail(ErrorCode::kCorrupt, "tokenizer.ggml.tokens",
                  "has {} entries, but {} has {} rows", tokens->size(), kGgufEmbedding,
                  config.vocab_size);
    }
  }
  for (const std::string_view key : kEndTokenKeys) {
    if (const Json* id = Find(metadata, key)) {
      ISOBIT_ASSIGN(const std::int64_t checked, ReadInteger(*id, key));
      if (checked < 0 || checked >= config.vocab_size) {
        return Fail(ErrorCode::kCorrupt, std::string(key), "names token {}; the vocabulary has {}",
                    checked, config.vocab_size);
      }
      config.eos_token_ids.push_back(static_cast<std::int32_t>(checked));
    }
  }
  MakeSet(config.eos_token_ids);
  if (const Json* id = Find(metadata, kKeys.bos_token_id)) {
    ISOBIT_ASSIGN(const std::int64_t checked, ReadInteger(*id, kKeys.bos_token_id));
    if (checked < 0 || checked >= config.vocab_size) {
      return Fail(ErrorCode::kCorrupt, std::string(kKeys.bos_token_id),
                  "names token {}; the vocabulary has {}", checked, config.vocab_size);
    }
    config.bos_token_id = static_cast<std::int32_t>(checked);
  }
  return {};
}

}  // namespace

Result<ModelConfig> ConfigFromGguf(const Json& metadata, const std::vector<TensorView>& tensors) {
  const auto find_tensor = [&](std::string_view name) {
    return std::find_if(tensors.begin(), tensors.end(),
                        [&](const TensorView& tensor) { return tensor.name == name; });
  };
  ISOBIT_TRY(CheckFamily(metadata));
  ISOBIT_TRY(CheckKeys(metadata));
  if (const Json* type = Find(metadata, kScalingType);
      type != nullptr && *type != "none" && *type != "linear") {
    // Linear passes because its factor must be 1, checked above.
    return Fail(ErrorCode::kUnsupported, std::string(kScalingType),
                "is {}; this scaling is not done here", Printable(DumpJson(*type)));
  }

  ModelConfig config;
  config.family = "llama";
  ISOBIT_ASSIGN(config.num_layers, RequiredInteger(metadata, kKeys.num_layers));
  ISOBIT_ASSIGN(config.hidden_size, RequiredInteger(metadata, kKeys.hidden_size));
  ISOBIT_ASSIGN(const Json* intermediate, Required(metadata, kKeys.intermediate_size));
  ISOBIT_ASSIGN(config.intermediate_size, UniformInteger(*intermediate, kKeys.intermediate_size));
  ISOBIT_ASSIGN(const Json* heads, Required(metadata, kKeys.num_heads));
  ISOBIT_ASSIGN(config.num_heads, UniformInteger(*heads, kKeys.num_heads));
  config.num_kv_heads = config.num_heads;
  if (const Json* kv_heads = Find(metadata, kKeys.num_kv_heads)) {
    ISOBIT_ASSIGN(config.num_kv_heads, UniformInteger(*kv_heads, kKeys.num_kv_heads));
  }
  ISOBIT_ASSIGN(config.max_positions, RequiredInteger(metadata, kKeys.max_positions));
  ISOBIT_ASSIGN(const Json* eps, Required(metadata, kKeys.norm_eps));
  ISOBIT_ASSIGN(const double norm_eps, ReadNumber(*eps, kKeys.norm_eps));
  config.norm_eps = static_cast<float>(norm_eps);
  if (const Json* theta = Find(metadata, kKeys.rope_theta)) {
    ISOBIT_ASSIGN(config.rope.theta, ReadNumber(*theta, kKeys.rope_theta));
  }
  ISOBIT_TRY(ReadHeadDim(metadata, config));

  const auto embedding = find_tensor(kGgufEmbedding);
  if (embedding == tensors.end()) {
    return Fail(ErrorCode::kCorrupt, kGgufEmbedding,
                "this tensor is missing from the GGUF file; convert the model again");
  }
  config.vocab_size = embedding->num_rows();
  if (Find(metadata, kKeys.vocab_size) != nullptr) {
    ISOBIT_ASSIGN(const std::int64_t stated, RequiredInteger(metadata, kKeys.vocab_size));
    if (stated != config.vocab_size) {
      return Fail(ErrorCode::kCorrupt, std::string(kKeys.vocab_size), "is {}, but {} has {} rows",
                  stated, kGgufEmbedding, config.vocab_size);
    }
  }
  config.tied_head = find_tensor(kGgufHead) == tensors.end();
  ISOBIT_TRY(CheckConfig(config, kKeys));
  ISOBIT_TRY(ReadTokens(metadata, config));
  if (const auto divisors = find_tensor(kGgufRopeDivisors); divisors != tensors.end()) {
    ISOBIT_TRY(ReadRopeDivisors(*divisors, config));
  }
  return config;
}

}  // namespace isobit
