#include "weights/config_json.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "weights/config_check.h"
#include "weights/names.h"

namespace isobit {
namespace {

constexpr ConfigKeys kKeys = {
    .num_layers = "num_hidden_layers",
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .num_heads = "num_attention_heads",
    .num_kv_heads = "num_key_value_heads",
    .head_dim = "head_dim",
    .vocab_size = "vocab_size",
    .max_positions = "max_position_embeddings",
    .norm_eps = "rms_norm_eps",
    .rope_theta = "rope_theta",
    .eos_token_id = "eos_token_id",
    .bos_token_id = "bos_token_id",
};

// Keys that ConfigFromJson reads.
constexpr std::string_view kUnderstood[] = {
    "model_type",
    "architectures",
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "rms_norm_eps",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "bos_token_id",
    "eos_token_id",
    "tie_word_embeddings",
    "layer_types",
};

// Keys that would change a value, in the one setting that does not. As JSON text, so that the table
// reads as the file does.
struct FixedKey {
  std::string_view key;
  std::string_view only;
};
constexpr FixedKey kFixed[] = {
    {"hidden_act", "\"silu\""},
    {"attention_bias", "false"},
    {"mlp_bias", "false"},
    {"pretraining_tp", "1"},
    {"sliding_window", "null"},
    {"use_sliding_window", "false"},
    {"rope_interleaved", "false"},
    {"is_llama_config", "true"},
    {"is_encoder_decoder", "false"},
    {"is_decoder", "false"},
    {"add_cross_attention", "false"},
    {"pruned_heads", "{}"},
    {"quantization_config", "null"},
    {"partial_rotary_factor", "1.0"},
};

// Keys that change no logit: training, provenance, file types (the tensors say their own), the
// defaults of other programs' samplers.
constexpr std::string_view kHarmless[] = {
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "transformers_version",
    "transformers.js_config",
    "torch_dtype",
    "dtype",
    "initializer_range",
    "attention_dropout",
    "hidden_dropout",
    "use_cache",
    "pad_token_id",
    "sep_token_id",
    "unk_token_id",
    "tokenizer_class",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "return_dict",
    "return_dict_in_generate",
    "torchscript",
    "use_bfloat16",
    "finetuning_task",
    "task_specific_params",
    "problem_type",
    "id2label",
    "label2id",
    "prefix",
    "chunk_size_feed_forward",
    "tf_legacy_loss",
    "auto_map",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "decoder_start_token_id",
    "cross_attention_hidden_size",
    "tie_encoder_decoder",
    "unsloth_version",
    "unsloth_fixed",
};

template <std::size_t N>
bool Contains(const std::string_view (&list)[N], std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

Error Unsupported(std::string_view key, std::string_view what) {
  return Fail(ErrorCode::kUnsupported, std::string(key),
              "{} in config.json; this changes what the model computes and is not done here", what);
}

// The value of key, or nullptr where it is absent or null.
const Json* Find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::int64_t> RequiredInteger(const Json& config, std::string_view key) {
  const Json* value = Find(config, key);
  if (value == nullptr)
    return Fail(ErrorCode::kCorrupt, std::string(key), "is missing from config.json");
  return ReadInteger(*value, key);
}

Status CheckKeys(const Json& config) {
  for (const auto& [key, value] : config.items()) {
    if (Contains(kUnderstood, key) || Contains(kHarmless, key)) continue;
    const auto* fixed = std::find_if(std::begin(kFixed), std::end(kFixed),
                                     [&](const FixedKey& f) { return f.key == key; });
    if (key.empty()) return Unsupported("config.json", "an empty key is not known");
    if (fixed == std::end(kFixed)) return Unsupported(Printable(key), "is not known");
    // A null says nothing, so the default holds, which is the setting we know.
    if (!value.is_null() && DumpJson(value) != fixed->only) {
      return Unsupported(
          key, fmt::format("is {}, only {} is known", Printable(DumpJson(value)), fixed->only));
    }
  }
  return {};
}

Status CheckFamily(const Json& config) {
  const Json* model_type = Find(config, "model_type");
  if (model_type == nullptr)
    return Fail(ErrorCode::kCorrupt, "model_type", "is missing from config.json");
  ISOBIT_ASSIGN(const std::string family, ReadText(*model_type, "model_type"));
  if (family != "llama") {
    return Fail(ErrorCode::kUnsupported, "model_type",
                "is \"{}\"; the only family read yet is \"llama\"", Printable(family));
  }
  if (const Json* architectures = Find(config, "architectures")) {
    if (!architectures->is_array() || std::find(architectures->begin(), architectures->end(),
                                                "LlamaForCausalLM") == architectures->end()) {
      return Fail(ErrorCode::kUnsupported, "architectures", "is {}; \"LlamaForCausalLM\" expected",
                  Printable(DumpJson(*architectures)));
    }
  }
  if (const Json* layer_types = Find(config, "layer_types")) {
    if (!layer_types->is_array() ||
        std::any_of(layer_types->begin(), layer_types->end(),
                    [](const Json& type) { return type != "full_attention"; })) {
      return Unsupported("layer_types", "has another entry than \"full_attention\"");
    }
  }
  return {};
}

Status ReadLlama3(const Json& scaling, const std::string& prefix, RopeConfig& rope) {
  const auto read = [&](std::string_view key, double& number) -> Status {
    const std::string path = prefix + std::string(key);
    const Json* value = Find(scaling, key);
    if (value == nullptr)
      return Fail(ErrorCode::kCorrupt, path,
                  "is missing from config.json; llama3 scaling needs it");
    ISOBIT_ASSIGN(number, ReadNumber(*value, path));
    return {};
  };
  rope.scaling = RopeScaling::kLlama3;
  ISOBIT_TRY(read("factor", rope.factor));
  ISOBIT_TRY(read("low_freq_factor", rope.low_freq_factor));
  ISOBIT_TRY(read("high_freq_factor", rope.high_freq_factor));
  const std::string positions_path = prefix + "original_max_position_embeddings";
  const Json* positions = Find(scaling, "original_max_position_embeddings");
  if (positions == nullptr)
    return Fail(ErrorCode::kCorrupt, positions_path,
                "is missing from config.json; llama3 scaling needs it");
  ISOBIT_ASSIGN(rope.original_max_positions, ReadInteger(*positions, positions_path));
  if (rope.factor < 1.0)
    return Fail(ErrorCode::kCorrupt, prefix + "factor", "is {}; at least 1 expected", rope.factor);
  if (!(rope.low_freq_factor > 0.0)) {
    return Fail(ErrorCode::kCorrupt, prefix + "low_freq_factor", "is {}; a number above 0 expected",
                rope.low_freq_factor);
  }
  // Equal factors would divide by zero between them.
  if (!(rope.high_freq_factor > rope.low_freq_factor)) {
    return Fail(ErrorCode::kCorrupt, prefix + "high_freq_factor",
                "is {}; it must be above low_freq_factor {}", rope.high_freq_factor,
                rope.low_freq_factor);
  }
  if (rope.original_max_positions < 1 || rope.original_max_positions > kMaxPositions) {
    return Fail(ErrorCode::kCorrupt, positions_path, "is {}; 1 to {} expected",
                rope.original_max_positions, kMaxPositions);
  }
  return {};
}

// One of the two dialects' objects: "rope_scaling" or "rope_parameters".
Status ReadRopeObject(const Json& object, std::string_view name, RopeConfig& rope) {
  const std::string prefix = std::string(name) + ".";
  if (!object.is_object()) return Fail(ErrorCode::kCorrupt, std::string(name), "is not an object");
  std::string type = "default";
  const Json* new_type = Find(object, "rope_type");
  const Json* old_type = Find(object, "type");
  if (new_type != nullptr && old_type != nullptr && *new_type != *old_type) {
    return Fail(ErrorCode::kCorrupt, prefix + "rope_type", "contradicts \"type\" beside it");
  }
  const std::string type_path =
      prefix + (new_type != nullptr || old_type == nullptr ? "rope_type" : "type");
  if (const Json* stated = new_type != nullptr ? new_type : old_type) {
    ISOBIT_ASSIGN(type, ReadText(*stated, type_path));
  } else if (name == "rope_scaling") {
    return Fail(ErrorCode::kCorrupt, type_path, "is missing from config.json");
  }
  if (type != "default" && type != "llama3") {
    return Unsupported(
        type_path,
        fmt::format("is \"{}\", only \"default\" and \"llama3\" are known", Printable(type)));
  }

  static constexpr std::string_view kCommon[] = {"rope_type", "type", "rope_theta",
                                                 "partial_rotary_factor"};
  static constexpr std::string_view kLlama3Only[] = {
      "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
  for (const auto& [key, value] : object.items()) {
    if (value.is_null() || Contains(kCommon, key) ||
        (type == "llama3" && Contains(kLlama3Only, key)))
      continue;
    return Unsupported(prefix + Printable(key),
                       fmt::format("is not known for rope_type \"{}\"", type));
  }
  if (const Json* partial = Find(object, "partial_rotary_factor")) {
    ISOBIT_ASSIGN(const double factor, ReadNumber(*partial, prefix + "partial_rotary_factor"));
    if (factor != 1.0) return Unsupported(prefix + "partial_rotary_factor", "is not 1");
  }
  if (const Json* theta = Find(object, "rope_theta")) {
    ISOBIT_ASSIGN(rope.theta, ReadNumber(*theta, prefix + "rope_theta"));
  }
  if (type == "llama3") ISOBIT_TRY(ReadLlama3(object, prefix, rope));
  return {};
}

Status ReadRope(const Json& config, RopeConfig& rope) {
  const Json* parameters = Find(config, "rope_parameters");
  const Json* scaling = Find(config, "rope_scaling");
  if (parameters != nullptr && scaling != nullptr && *parameters != *scaling) {
    return Fail(ErrorCode::kCorrupt, "rope_scaling",
                "contradicts rope_parameters in config.json; remove one");
  }
  const Json* theta = Find(config, "rope_theta");
  if (theta != nullptr) {
    ISOBIT_ASSIGN(rope.theta, ReadNumber(*theta, "rope_theta"));
  }
  const double stated_theta = rope.theta;
  if (parameters != nullptr) {
    ISOBIT_TRY(ReadRopeObject(*parameters, "rope_parameters", rope));
  } else if (scaling != nullptr) {
    ISOBIT_TRY(ReadRopeObject(*scaling, "rope_scaling", rope));
  }
  if (theta != nullptr && rope.theta != stated_theta) {
    return Fail(ErrorCode::kCorrupt, "rope_theta",
                "is {}, but the rope object of config.json says {}; remove one", stated_theta,
                rope.theta);
  }
  return {};
}

}  // namespace

Result<ModelConfig> ConfigFromJson(const Json& json, const Json& generation_config) {
  if (!json.is_object()) return Fail(ErrorCode::kCorrupt, "config.json", "is not a JSON object");
  if (!generation_config.is_null() && !generation_config.is_object()) {
    return Fail(ErrorCode::kCorrupt, "generation_config.json", "is not a JSON object");
  }
  ISOBIT_TRY(CheckFamily(json));
  ISOBIT_TRY(CheckKeys(json));

  ModelConfig config;
  config.family = "llama";
  ISOBIT_ASSIGN(config.num_layers, RequiredInteger(json, kKeys.num_layers));
  ISOBIT_ASSIGN(config.hidden_size, RequiredInteger(json, kKeys.hidden_size));
  ISOBIT_ASSIGN(config.intermediate_size, RequiredInteger(json, kKeys.intermediate_size));
  ISOBIT_ASSIGN(config.num_heads, RequiredInteger(json, kKeys.num_heads));
  ISOBIT_ASSIGN(config.vocab_size, RequiredInteger(json, kKeys.vocab_size));
  ISOBIT_ASSIGN(config.max_positions, RequiredInteger(json, kKeys.max_positions));
  config.num_kv_heads = config.num_heads;
  if (Find(json, kKeys.num_kv_heads) != nullptr) {
    ISOBIT_ASSIGN(config.num_kv_heads, RequiredInteger(json, kKeys.num_kv_heads));
  }
  if (Find(json, kKeys.head_dim) != nullptr) {
    ISOBIT_ASSIGN(config.head_dim, RequiredInteger(json, kKeys.head_dim));
  } else if (config.num_heads > 0) {
    if (config.hidden_size % config.num_heads != 0) {
      return Fail(ErrorCode::kCorrupt, "head_dim",
                  "is missing from config.json, and {} heads do not divide hidden_size {}",
                  config.num_heads, config.hidden_size);
    }
    config.head_dim = config.hidden_size / config.num_heads;
  }
  const Json* eps = Find(json, kKeys.norm_eps);
  if (eps == nullptr)
    return Fail(ErrorCode::kCorrupt, std::string(kKeys.norm_eps), "is missing from config.json");
  ISOBIT_ASSIGN(const double norm_eps, ReadNumber(*eps, kKeys.norm_eps));
  config.norm_eps = static_cast<float>(norm_eps);
  if (const Json* tied = Find(json, "tie_word_embeddings")) {
    ISOBIT_ASSIGN(config.tied_head, ReadBool(*tied, "tie_word_embeddings"));
  }
  ISOBIT_TRY(ReadRope(json, config.rope));

  if (const Json* bos = Find(json, kKeys.bos_token_id)) {
    std::vector<std::int32_t> ids;
    if (bos->is_array())
      return Fail(ErrorCode::kUnsupported, std::string(kKeys.bos_token_id),
                  "is a list; one token expected");
    ISOBIT_TRY(AppendTokenIds(*bos, kKeys.bos_token_id, ids));
    config.bos_token_id = ids.front();
  }
  for (const Json* source : {&json, &generation_config}) {
    if (!source->is_object()) continue;
    if (const Json* eos = Find(*source, kKeys.eos_token_id)) {
      ISOBIT_TRY(AppendTokenIds(*eos, kKeys.eos_token_id, config.eos_token_ids));
    }
  }
  MakeSet(config.eos_token_ids);
  ISOBIT_TRY(CheckConfig(config, kKeys));
  return config;
}

}  // namespace isobit
