#include "weights/gguf_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

#include "weights/gguf_builder.h"
#include "weights/gguf_reader.h"
#include "weights/llama_tensors.h"

namespace isobit {
namespace {

// Keys and tensors of a llama of 2 layers, hidden 8, 2 query heads and 1 KV head of 4, feed-forward
// 12, 6 tokens.
GgufBuilder SmallLlama() {
  GgufBuilder builder;
  builder.AddString("general.architecture", "llama")
      .AddU32("llama.block_count", 2)
      .AddU32("llama.context_length", 64)
      .AddU32("llama.embedding_length", 8)
      .AddU32("llama.feed_forward_length", 12)
      .AddU32("llama.attention.head_count", 2)
      .AddU32("llama.attention.head_count_kv", 1)
      .AddF32("llama.rope.freq_base", 100000.0f)
      .AddF32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .AddU32("llama.rope.dimension_count", 4)
      .AddU32("llama.vocab_size", 6)
      .AddStrings("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f"})
      .AddU32("tokenizer.ggml.bos_token_id", 1)
      .AddU32("tokenizer.ggml.eos_token_id", 5)
      .AddU32("tokenizer.ggml.eot_token_id", 2);
  builder.AddTensor("token_embd.weight", DType::kF32, {6, 8}, std::vector<std::byte>(192));
  return builder;
}

Result<ModelConfig> Config(const GgufBuilder& builder) {
  const auto bytes = std::make_shared<std::string>(builder.Bytes());
  const auto file = ParseGguf(std::as_bytes(std::span(*bytes)), bytes, "small.gguf");
  if (!file.ok()) return file.error();
  return ConfigFromGguf(file->metadata, file->tensors);
}

TEST(GgufConfig, ReadsLlamaCppsKeys) {
  const auto config = Config(SmallLlama());
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->family, "llama");
  EXPECT_EQ(config->num_layers, 2);
  EXPECT_EQ(config->hidden_size, 8);
  EXPECT_EQ(config->intermediate_size, 12);
  EXPECT_EQ(config->num_heads, 2);
  EXPECT_EQ(config->num_kv_heads, 1);
  EXPECT_EQ(config->head_dim, 4);
  EXPECT_EQ(config->vocab_size, 6);
  EXPECT_EQ(config->max_positions, 64);
  EXPECT_EQ(config->norm_eps, 1e-5f);
  EXPECT_EQ(config->rope.theta, 100000.0);
  EXPECT_TRUE(config->tied_head);
  EXPECT_EQ(config->eos_token_ids, (std::vector<std::int32_t>{2, 5}));
  EXPECT_EQ(config->bos_token_id, 1);
  EXPECT_TRUE(config->rope.frequency_divisors.empty());
}

TEST(GgufConfig, AnOutputTensorUntiesTheHead) {
  GgufBuilder builder = SmallLlama();
  builder.AddTensor("output.weight", DType::kF32, {6, 8}, std::vector<std::byte>(192));
  EXPECT_FALSE(Config(builder)->tied_head);
}

TEST(GgufConfig, ListsOfEqualNumbersAndOptionalKeys) {
  GgufBuilder builder = SmallLlama();
  builder.Erase("llama.attention.head_count").AddI32s("llama.attention.head_count", {2, 2});
  builder.Erase("llama.attention.head_count_kv")
      .Erase("llama.rope.freq_base")
      .Erase("llama.vocab_size");
  builder.Erase("tokenizer.ggml.tokens").Erase("llama.rope.dimension_count");
  builder.AddString("llama.rope.scaling.type", "none")
      .AddF32("llama.rope.scaling.factor", 1.0f)
      .AddU32("llama.expert_count", 0);
  builder.AddU32("llama.attention.key_length", 6).AddU32("llama.attention.value_length", 6);
  const auto config = Config(builder);
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_EQ(config->rope.theta, 10000.0);
  EXPECT_EQ(config->head_dim, 6);
}

TEST(GgufConfig, TakesRopeDivisors) {
  const float divisors[] = {1.0f, 8.0f};
  GgufBuilder builder = SmallLlama();
  builder.AddTensor("rope_freqs.weight", DType::kF32, {2}, std::as_bytes(std::span(divisors)));
  const auto config = Config(builder);
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->rope.frequency_divisors, (std::vector<float>{1.0f, 8.0f}));
  EXPECT_EQ(config->rope.scaling, RopeScaling::kNone);

  for (const float bad : {0.0f, -1.0f, 0.5f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    const float values[] = {1.0f, bad};
    GgufBuilder hostile = SmallLlama();
    hostile.AddTensor("rope_freqs.weight", DType::kF32, {2}, std::as_bytes(std::span(values)));
    EXPECT_EQ(Config(hostile).error().field, "rope_freqs.weight");
  }
  GgufBuilder wrong_shape = SmallLlama();
  wrong_shape.AddTensor("rope_freqs.weight", DType::kF32, {4}, std::vector<std::byte>(16));
  EXPECT_EQ(Config(wrong_shape).error().field, "rope_freqs.weight");
}

struct RefusedCase {
  const char* name;
  ErrorCode code;
  const char* field;
  std::function<void(GgufBuilder&)> change;
};

void PrintTo(const RefusedCase& c, std::ostream* out) { *out << c.name; }

// SmallLlama without one required key.
std::function<void(GgufBuilder&)> Without(std::string key) {
  return [key](GgufBuilder& builder) { builder.Erase(key); };
}

// SmallLlama with one u32 key set to another value.
std::function<void(GgufBuilder&)> With(std::string key, std::uint32_t value) {
  return [=](GgufBuilder& builder) {
    std::erase_if(builder.pairs, [&](const GgufPair& pair) { return pair.key == key; });
    builder.AddU32(key, value);
  };
}

std::function<void(GgufBuilder&)> WithText(std::string key, std::string value) {
  return [=](GgufBuilder& builder) {
    std::erase_if(builder.pairs, [&](const GgufPair& pair) { return pair.key == key; });
    builder.AddString(key, value);
  };
}

std::vector<RefusedCase> RefusedCases() {
  constexpr auto kCorrupt = ErrorCode::kCorrupt;
  constexpr auto kUnsupported = ErrorCode::kUnsupported;
  return {
      {"no_architecture", kCorrupt, "general.architecture", Without("general.architecture")},
      {"other_architecture", kUnsupported, "general.architecture",
       WithText("general.architecture", "qwen3")},
      {"architecture_number", kCorrupt, "general.architecture", With("general.architecture", 7)},
      {"adapter", kUnsupported, "general.type", WithText("general.type", "adapter")},
      {"split", kUnsupported, "split.count", With("split.count", 3)},
      {"no_layers", kCorrupt, "llama.block_count", Without("llama.block_count")},
      {"no_hidden", kCorrupt, "llama.embedding_length", Without("llama.embedding_length")},
      {"no_feed_forward", kCorrupt, "llama.feed_forward_length",
       Without("llama.feed_forward_length")},
      {"no_heads", kCorrupt, "llama.attention.head_count", Without("llama.attention.head_count")},
      {"no_context", kCorrupt, "llama.context_length", Without("llama.context_length")},
      {"context_past_the_laws_angles", kCorrupt, "llama.context_length",
       With("llama.context_length", (1u << 20) + 1)},
      {"no_eps", kCorrupt, "llama.attention.layer_norm_rms_epsilon",
       Without("llama.attention.layer_norm_rms_epsilon")},
      {"layers_0", kCorrupt, "llama.block_count", With("llama.block_count", 0)},
      {"layers_max", kCorrupt, "llama.block_count", With("llama.block_count", 4294967295u)},
      {"layers_text", kCorrupt, "llama.block_count", WithText("llama.block_count", "2")},
      {"heads_0", kCorrupt, "llama.attention.head_count", With("llama.attention.head_count", 0)},
      {"heads_do_not_divide", kCorrupt, "llama.attention.head_count",
       With("llama.attention.head_count", 3)},
      {"kv_heads_0", kCorrupt, "llama.attention.head_count_kv",
       With("llama.attention.head_count_kv", 0)},
      {"heads_differ_by_layer", kUnsupported, "llama.attention.head_count_kv",
       [](GgufBuilder& b) {
         b.Erase("llama.attention.head_count_kv").AddI32s("llama.attention.head_count_kv", {1, 2});
       }},
      {"heads_empty_list", kCorrupt, "llama.attention.head_count_kv",
       [](GgufBuilder& b) {
         b.Erase("llama.attention.head_count_kv").AddI32s("llama.attention.head_count_kv", {});
       }},
      {"experts", kUnsupported, "llama.expert_count", With("llama.expert_count", 8)},
      {"partial_rotation", kUnsupported, "llama.rope.dimension_count",
       With("llama.rope.dimension_count", 2)},
      {"value_length_differs", kUnsupported, "llama.attention.value_length",
       With("llama.attention.value_length", 8)},
      {"key_length_odd", kCorrupt, "llama.attention.key_length",
       [](GgufBuilder& b) {
         b.Erase("llama.rope.dimension_count").AddU32("llama.attention.key_length", 5);
       }},
      {"rope_yarn", kUnsupported, "llama.rope.scaling.type",
       WithText("llama.rope.scaling.type", "yarn")},
      {"rope_linear_factor", kUnsupported, "llama.rope.scaling.factor",
       [](GgufBuilder& b) { b.AddF32("llama.rope.scaling.factor", 4.0f); }},
      {"rope_scale_linear", kUnsupported, "llama.rope.scale_linear",
       [](GgufBuilder& b) { b.AddF32("llama.rope.scale_linear", 2.0f); }},
      {"theta_nan", kCorrupt, "llama.rope.freq_base",
       [](GgufBuilder& b) {
         b.Erase("llama.rope.freq_base")
             .AddF32("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN());
       }},
      {"theta_0", kCorrupt, "llama.rope.freq_base",
       [](GgufBuilder& b) {
         b.Erase("llama.rope.freq_base").AddF32("llama.rope.freq_base", 0.0f);
       }},
      {"eps_infinite", kCorrupt, "llama.attention.layer_norm_rms_epsilon",
       [](GgufBuilder& b) {
         b.Erase("llama.attention.layer_norm_rms_epsilon")
             .AddF32("llama.attention.layer_norm_rms_epsilon",
                     std::numeric_limits<float>::infinity());
       }},
      {"unknown_key", kUnsupported, "llama.logit_scale",
       [](GgufBuilder& b) { b.AddF32("llama.logit_scale", 1.0f); }},
      {"not_causal", kUnsupported, "llama.attention.causal",
       [](GgufBuilder& b) { b.AddBool("llama.attention.causal", false); }},
      {"other_layout", kUnsupported, "llama.tensor_data_layout",
       WithText("llama.tensor_data_layout", "reference")},
      {"vocab_differs", kCorrupt, "llama.vocab_size", With("llama.vocab_size", 7)},
      {"tokens_differ", kCorrupt, "tokenizer.ggml.tokens",
       [](GgufBuilder& b) {
         b.Erase("tokenizer.ggml.tokens").AddStrings("tokenizer.ggml.tokens", {"a"});
       }},
      {"tokens_text", kCorrupt, "tokenizer.ggml.tokens",
       WithText("tokenizer.ggml.tokens", "abcdef")},
      {"eos_out_of_range", kCorrupt, "tokenizer.ggml.eos_token_id",
       With("tokenizer.ggml.eos_token_id", 6)},
      {"eot_out_of_range", kCorrupt, "tokenizer.ggml.eot_token_id",
       With("tokenizer.ggml.eot_token_id", 4294967295u)},
      {"bos_out_of_range", kCorrupt, "tokenizer.ggml.bos_token_id",
       With("tokenizer.ggml.bos_token_id", 6)},
      {"no_embedding", kCorrupt, "token_embd.weight",
       [](GgufBuilder& b) { b.tensors[0].name = "tok_embd.weight"; }},
  };
}

class GgufConfigRefuses : public testing::TestWithParam<RefusedCase> {};

TEST_P(GgufConfigRefuses, ByTheKeysName) {
  GgufBuilder builder = SmallLlama();
  GetParam().change(builder);
  const auto config = Config(builder);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(ErrorCodeName(config.error().code), std::string(ErrorCodeName(GetParam().code)))
      << config.error().ToString();
  EXPECT_EQ(config.error().field, GetParam().field) << config.error().ToString();
}

INSTANTIATE_TEST_SUITE_P(All, GgufConfigRefuses, testing::ValuesIn(RefusedCases()),
                         [](const testing::TestParamInfo<RefusedCase>& info) {
                           return std::string(info.param.name);
                         });

// The rows of one head of 6 in llama.cpp's file order hold Hugging Face's rows 0 3 1 4 2 5: pairs
// (i, i + 3) side by side.
TEST(LlamaTensors, UnpermutesEachHeadsRows) {
  const std::vector<float> stored = {0,  3,  1,  4,  2,  5,
                                     10, 13, 11, 14, 12, 15};  // two heads, one column
  const TensorView tensor{"q", DType::kF32, {12, 1}, std::as_bytes(std::span(stored)), nullptr};
  const TensorView canonical = UnpermuteRows(tensor, 2);
  const auto* values = reinterpret_cast<const float*>(canonical.data.data());
  EXPECT_EQ(std::vector<float>(values, values + 12),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(canonical.name, "q");
  EXPECT_EQ(canonical.shape, (Shape{12, 1}));
  const TensorView back = PermuteRows(canonical, 2);
  EXPECT_TRUE(std::ranges::equal(back.data, tensor.data));
}

}  // namespace
}  // namespace isobit
