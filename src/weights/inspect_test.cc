#include "weights/inspect.h"

#include <gtest/gtest.h>

namespace isobit {
namespace {

std::shared_ptr<const Checkpoint> OpenGolden(const std::string& name) {
  return Checkpoint::Open(ISOBIT_SOURCE_DIR "/tests/golden/" + name).value();
}

TEST(Inspect, JsonSaysWhatTheModelIs) {
  const auto checkpoint = OpenGolden("llama3-rope");
  const Json json = InspectJson(*checkpoint, {.with_digest = true});
  EXPECT_EQ(json.at("family"), "llama");
  EXPECT_EQ(json.at("num_kv_heads"), 2);
  EXPECT_EQ(json.at("tied_head"), false);
  EXPECT_EQ(json.at("rope").at("scaling"), "llama3");
  EXPECT_EQ(json.at("rope").at("original_max_positions"), 64);
  EXPECT_EQ(DumpJson(json.at("norm_eps")), "1e-06");
  EXPECT_EQ(json.at("num_parameters"), 287296);
  EXPECT_EQ(json.at("weight_bytes"), 574592);
  EXPECT_EQ(DumpJson(json.at("dtypes")), "{\"bf16\":{\"num_tensors\":39,\"bytes\":574592}}");
  EXPECT_EQ(json.at("kv_bytes_per_token_bf16"), 4 * 2 * 32 * 2 * 2);
  EXPECT_EQ(json.at("weights_digest"), checkpoint->WeightsDigest());
  EXPECT_EQ(json.at("tensors").size(), 39u);
  EXPECT_EQ(DumpJson(json.at("tensors").at(0)),
            "{\"name\":\"lm_head.weight\",\"dtype\":\"bf16\",\"shape\":[512,64],\"bytes\":65536}");
  EXPECT_FALSE(InspectJson(*checkpoint).contains("weights_digest"));
  EXPECT_FALSE(InspectJson(*checkpoint, {.with_tensors = false}).contains("tensors"));
}

TEST(Inspect, TextIsAligned) {
  const std::string text = InspectText(*OpenGolden("llama"));
  EXPECT_NE(text.find("\nheads         4 query, 2 KV, head_dim 16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nvocabulary    512, tied head\n"), std::string::npos);
  EXPECT_NE(text.find("\nparameters    205,376\n"), std::string::npos) << text;
  EXPECT_NE(
      text.find("\nmodel.layers.0.input_layernorm.weight           bf16   [64]          128\n"),
      std::string::npos)
      << text;
  // Every line of the table has the same length.
  const std::string table = text.substr(text.find("\n\n") + 2);
  const std::size_t width = table.find('\n');
  EXPECT_EQ(table.size(), (width + 1) * 39);
  for (std::size_t i = width; i < table.size(); i += width + 1) EXPECT_EQ(table[i], '\n');
}

}  // namespace
}  // namespace isobit
