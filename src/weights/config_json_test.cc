#include "weights/config_json.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/file.h"

namespace isobit {
namespace {

Json Parse(std::string_view text) {
  auto json = ParseJson(text, "test");
  EXPECT_TRUE(json.ok()) << json.error().ToString();
  return *json;
}

// The old dialect, as SmolLM2's own config.json has it.
Json OldDialect() {
  return Parse(
      R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":1,
    "eos_token_id":2,"hidden_act":"silu","hidden_size":576,"initializer_range":0.041666666666666664,"intermediate_size":1536,
    "is_llama_config":true,"max_position_embeddings":8192,"mlp_bias":false,"model_type":"llama","num_attention_heads":9,
    "num_hidden_layers":30,"num_key_value_heads":3,"pad_token_id":2,"pretraining_tp":1,"rms_norm_eps":1e-05,
    "rope_interleaved":false,"rope_scaling":null,"rope_theta":100000,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
    "transformers.js_config":{"kv_cache_dtype":{"q4f16":"float16"}},"transformers_version":"4.42.3","use_cache":true,
    "vocab_size":49152})");
}

Json NewDialect() {
  return Parse(
      R"({"architectures":["LlamaForCausalLM"],"bos_token_id":0,"dtype":"bfloat16","eos_token_id":[1,5],"head_dim":32,
    "hidden_act":"silu","hidden_size":64,"intermediate_size":160,"max_position_embeddings":512,"model_type":"llama",
    "num_attention_heads":4,"num_hidden_layers":4,"num_key_value_heads":2,"rms_norm_eps":1e-06,"vocab_size":512,
    "rope_parameters":{"factor":8.0,"high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":64,
    "rope_theta":500000.0,"rope_type":"llama3"},"tie_word_embeddings":false})");
}

TEST(ConfigJson, ReadsTheOldDialect) {
  const auto config = ConfigFromJson(OldDialect(), Json());
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->family, "llama");
  EXPECT_EQ(config->num_layers, 30);
  EXPECT_EQ(config->hidden_size, 576);
  EXPECT_EQ(config->intermediate_size, 1536);
  EXPECT_EQ(config->num_heads, 9);
  EXPECT_EQ(config->num_kv_heads, 3);
  EXPECT_EQ(config->head_dim, 64);  // hidden / heads
  EXPECT_EQ(config->vocab_size, 49152);
  EXPECT_EQ(config->max_positions, 8192);
  EXPECT_EQ(config->norm_eps, 1e-5f);
  EXPECT_TRUE(config->tied_head);
  EXPECT_EQ(config->rope.theta, 100000.0);
  EXPECT_EQ(config->rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config->eos_token_ids, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(config->bos_token_id, 1);
}

TEST(ConfigJson, ReadsTheNewDialect) {
  const auto config =
      ConfigFromJson(NewDialect(), Parse(R"({"eos_token_id":[9,1],"temperature":0.6})"));
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->head_dim, 32);  // not hidden / heads
  EXPECT_FALSE(config->tied_head);
  EXPECT_EQ(config->rope.theta, 500000.0);
  EXPECT_EQ(config->rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(config->rope.factor, 8.0);
  EXPECT_EQ(config->rope.low_freq_factor, 1.0);
  EXPECT_EQ(config->rope.high_freq_factor, 4.0);
  EXPECT_EQ(config->rope.original_max_positions, 64);
  EXPECT_EQ(config->eos_token_ids, (std::vector<std::int32_t>{1, 5, 9}));  // the union, ascending
}

TEST(ConfigJson, OldAndNewSpellingOfLlama3ScalingAgree) {
  Json old = NewDialect();
  old.erase("rope_parameters");
  old["rope_theta"] = 500000.0;
  old["rope_scaling"] = Parse(R"({"factor":8.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
                                  "original_max_position_embeddings":64,"type":"llama3"})");
  const auto config = ConfigFromJson(old, Json());
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(config->rope.theta, 500000.0);
  EXPECT_EQ(config->rope.factor, 8.0);
  EXPECT_EQ(config->rope.original_max_positions, 64);
}

TEST(ConfigJson, ReadsTheGoldens) {
  for (const char* name : {"llama", "llama3-rope"}) {
    const auto text =
        ReadFile(std::string(ISOBIT_SOURCE_DIR "/tests/golden/") + name + "/config.json");
    ASSERT_TRUE(text.ok());
    const auto config = ConfigFromJson(Parse(*text), Json());
    EXPECT_TRUE(config.ok()) << config.error().ToString();
  }
}

TEST(ConfigJson, AbsentOptionalKeysHaveTheirDefaults) {
  Json json = OldDialect();
  for (const char* key :
       {"num_key_value_heads", "tie_word_embeddings", "rope_theta", "rope_scaling", "bos_token_id",
        "eos_token_id", "hidden_act", "architectures", "pretraining_tp"}) {
    json.erase(key);
  }
  const auto config = ConfigFromJson(json, Json());
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->num_kv_heads, 9);
  EXPECT_FALSE(config->tied_head);
  EXPECT_EQ(config->rope.theta, 10000.0);
  EXPECT_TRUE(config->eos_token_ids.empty());
  EXPECT_FALSE(config->bos_token_id.has_value());
}

struct RefusedCase {
  const char* name;
  ErrorCode code;
  const char* field;
  const char* patch;  // merged into NewDialect; "null" values stay null
};

void PrintTo(const RefusedCase& c, std::ostream* out) { *out << c.name; }

constexpr auto kCorrupt = ErrorCode::kCorrupt;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

const RefusedCase kRefused[] = {
    {"attention_bias", kUnsupported, "attention_bias", R"({"attention_bias":true})"},
    {"mlp_bias", kUnsupported, "mlp_bias", R"({"mlp_bias":true})"},
    {"hidden_act", kUnsupported, "hidden_act", R"({"hidden_act":"gelu"})"},
    {"pretraining_tp", kUnsupported, "pretraining_tp", R"({"pretraining_tp":2})"},
    {"sliding_window", kUnsupported, "sliding_window", R"({"sliding_window":4096})"},
    {"quantization_config", kUnsupported, "quantization_config",
     R"({"quantization_config":{"quant_method":"gptq"}})"},
    {"rope_interleaved", kUnsupported, "rope_interleaved", R"({"rope_interleaved":true})"},
    {"partial_rotary_factor", kUnsupported, "partial_rotary_factor",
     R"({"partial_rotary_factor":0.5})"},
    {"unknown_key", kUnsupported, "logit_scale", R"({"logit_scale":2.0})"},
    {"empty_key", kUnsupported, "config.json", R"({"":1})"},
    {"unknown_null_key", kUnsupported, "novel", R"({"novel":null})"},
    {"layer_types", kUnsupported, "layer_types",
     R"({"layer_types":["full_attention","sliding_attention"]})"},
    {"other_family", kUnsupported, "model_type", R"({"model_type":"qwen3"})"},
    {"other_head", kUnsupported, "architectures",
     R"({"architectures":["LlamaForSequenceClassification"]})"},
    {"rope_yarn", kUnsupported, "rope_parameters.rope_type",
     R"({"rope_parameters":{"rope_type":"yarn","factor":4.0}})"},
    {"rope_linear", kUnsupported, "rope_parameters.rope_type",
     R"({"rope_parameters":{"rope_type":"linear","factor":1.0}})"},
    {"rope_unknown_key", kUnsupported, "rope_parameters.mscale",
     R"({"rope_parameters":{"rope_type":"default","mscale":1.0}})"},
    {"rope_factor_of_default", kUnsupported, "rope_parameters.factor",
     R"({"rope_parameters":{"rope_type":"default","factor":2.0}})"},
    {"rope_per_layer_type", kUnsupported, "rope_parameters.full_attention",
     R"({"rope_parameters":{"full_attention":{}}})"},
    {"rope_partial", kUnsupported, "rope_parameters.partial_rotary_factor",
     R"({"rope_parameters":{"partial_rotary_factor":0.25}})"},
    {"rope_text", kCorrupt, "rope_parameters", R"({"rope_parameters":"llama3"})"},
    {"rope_two_dialects", kCorrupt, "rope_scaling", R"({"rope_scaling":{"rope_type":"default"}})"},
    {"rope_two_thetas", kCorrupt, "rope_theta", R"({"rope_theta":10000.0})"},
    {"rope_two_types", kCorrupt, "rope_parameters.rope_type",
     R"({"rope_parameters":{"rope_type":"default","type":"llama3"}})"},
    {"rope_no_factor", kCorrupt, "rope_parameters.factor",
     R"({"rope_parameters":{"rope_type":"llama3"}})"},
    {"rope_no_positions", kCorrupt, "rope_parameters.original_max_position_embeddings",
     R"({"rope_parameters":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4}})"},
    {"rope_equal_factors", kCorrupt, "rope_parameters.high_freq_factor",
     R"({"rope_parameters":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4,"original_max_position_embeddings":64}})"},
    {"rope_small_factor", kCorrupt, "rope_parameters.factor",
     R"({"rope_parameters":{"rope_type":"llama3","factor":0,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":64}})"},
    {"rope_zero_positions", kCorrupt, "rope_parameters.original_max_position_embeddings",
     R"({"rope_parameters":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":0}})"},
    {"theta_0", kCorrupt, "rope_theta", R"({"rope_parameters":null,"rope_theta":0})"},
    {"theta_text", kCorrupt, "rope_theta", R"({"rope_theta":"10000"})"},
    {"no_model_type", kCorrupt, "model_type", R"({"model_type":null})"},
    {"no_layers", kCorrupt, "num_hidden_layers", R"({"num_hidden_layers":null})"},
    {"no_eps", kCorrupt, "rms_norm_eps", R"({"rms_norm_eps":null})"},
    {"layers_0", kCorrupt, "num_hidden_layers", R"({"num_hidden_layers":0})"},
    {"layers_huge", kCorrupt, "num_hidden_layers", R"({"num_hidden_layers":1000000000000})"},
    {"layers_2_64", kCorrupt, "num_hidden_layers", R"({"num_hidden_layers":18446744073709551615})"},
    {"hidden_negative", kCorrupt, "hidden_size", R"({"hidden_size":-64})"},
    {"hidden_float", kCorrupt, "hidden_size", R"({"hidden_size":64.0})"},
    {"hidden_text", kCorrupt, "hidden_size", R"({"hidden_size":"64"})"},
    {"heads_0", kCorrupt, "num_attention_heads", R"({"num_attention_heads":0,"head_dim":null})"},
    {"heads_do_not_divide", kCorrupt, "head_dim", R"({"num_attention_heads":6,"head_dim":null})"},
    {"kv_heads_do_not_divide", kCorrupt, "num_key_value_heads", R"({"num_key_value_heads":3})"},
    {"kv_heads_0", kCorrupt, "num_key_value_heads", R"({"num_key_value_heads":0})"},
    {"head_dim_odd", kCorrupt, "head_dim", R"({"head_dim":33})"},
    {"vocab_huge", kCorrupt, "vocab_size", R"({"vocab_size":1000000000})"},
    {"eps_0", kCorrupt, "rms_norm_eps", R"({"rms_norm_eps":0.0})"},
    {"eps_negative", kCorrupt, "rms_norm_eps", R"({"rms_norm_eps":-1e-6})"},
    {"tied_text", kCorrupt, "tie_word_embeddings", R"({"tie_word_embeddings":"yes"})"},
    {"eos_out_of_range", kCorrupt, "eos_token_id", R"({"eos_token_id":512})"},
    {"eos_negative", kCorrupt, "eos_token_id", R"({"eos_token_id":-1})"},
    {"eos_in_list_out_of_range", kCorrupt, "eos_token_id", R"({"eos_token_id":[1,4294967297]})"},
    {"eos_text", kCorrupt, "eos_token_id", R"({"eos_token_id":["</s>"]})"},
    {"eos_nested", kCorrupt, "eos_token_id", R"({"eos_token_id":[[1]]})"},
    {"bos_list", kUnsupported, "bos_token_id", R"({"bos_token_id":[0]})"},
    {"bos_out_of_range", kCorrupt, "bos_token_id", R"({"bos_token_id":100000})"},
};

class ConfigJsonRefuses : public testing::TestWithParam<RefusedCase> {};

TEST_P(ConfigJsonRefuses, ByTheKeysName) {
  Json json = NewDialect();
  ASSERT_TRUE(ConfigFromJson(json, Json()).ok());
  const Json patch = Parse(GetParam().patch);
  for (const auto& [key, value] : patch.items()) json[key] = value;
  const auto config = ConfigFromJson(json, Json());
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(ErrorCodeName(config.error().code), std::string(ErrorCodeName(GetParam().code)))
      << config.error().ToString();
  EXPECT_EQ(config.error().field, GetParam().field) << config.error().ToString();
  EXPECT_FALSE(config.error().message.empty());
}

INSTANTIATE_TEST_SUITE_P(All, ConfigJsonRefuses, testing::ValuesIn(kRefused),
                         [](const testing::TestParamInfo<RefusedCase>& info) {
                           return std::string(info.param.name);
                         });

TEST(ConfigJson, RefusesOtherThanObjects) {
  EXPECT_EQ(ConfigFromJson(Json::array(), Json()).error().field, "config.json");
  EXPECT_EQ(ConfigFromJson(NewDialect(), Json(5)).error().field, "generation_config.json");
  EXPECT_EQ(ConfigFromJson(NewDialect(), Parse(R"({"eos_token_id":600})")).error().field,
            "eos_token_id");
}

}  // namespace
}  // namespace isobit
