// Seeded mutations of small valid files: whatever the bytes, opening returns; under the address
// sanitizer a stray read ends the test.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "weights/config_json.h"
#include "weights/gguf_builder.h"
#include "weights/gguf_config.h"
#include "weights/gguf_reader.h"
#include "weights/safetensors_reader.h"

namespace isobit {
namespace {

constexpr int kNumMutants = 6000;

// 1 to 4 random edits of text: a bit flipped, a byte set, eight bytes overwritten by a boundary
// number, a run removed or repeated.
std::string Mutate(std::string text, std::uint32_t seed) {
  std::uint32_t counter = 0;
  const auto draw = [&](std::uint64_t bound) {
    const auto words = Philox4x32({counter++, seed, 0, 0}, {0x15061735, 0x77656967});
    return (std::uint64_t{words[0]} << 32 | words[1]) % bound;
  };
  const std::uint64_t num_edits = 1 + draw(4);
  for (std::uint64_t edit = 0; edit < num_edits && !text.empty(); ++edit) {
    const std::size_t position = draw(text.size());
    switch (draw(5)) {
      case 0:
        text[position] = static_cast<char>(text[position] ^ 1 << draw(8));
        break;
      case 1:
        text[position] = static_cast<char>(draw(256));
        break;
      case 2: {
        static constexpr std::uint64_t kNumbers[] = {
            0, 1, 3, 31, 32, 0x7FFFFFFF, 0xFFFFFFFF, 1ull << 40, 1ull << 62, ~0ull >> 1, ~0ull};
        const std::uint64_t number = kNumbers[draw(std::size(kNumbers))];
        std::memcpy(text.data() + position, &number,
                    std::min<std::size_t>(sizeof number, text.size() - position));
        break;
      }
      case 3:
        text.erase(position, 1 + draw(16));
        break;
      default:
        text.insert(position, text.substr(position, 1 + draw(16)));
    }
  }
  return text;
}

std::shared_ptr<std::vector<std::byte>> Copy(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return std::make_shared<std::vector<std::byte>>(data, data + text.size());
}

// Touches every byte that a reader says belongs to a tensor.
std::uint64_t Sum(const std::vector<TensorView>& tensors) {
  std::uint64_t sum = 0;
  for (const TensorView& tensor : tensors) {
    for (const std::byte byte : tensor.data) sum += static_cast<std::uint64_t>(byte);
  }
  return sum;
}

void ExpectNamed(const Error& error) {
  EXPECT_FALSE(error.message.empty());
  EXPECT_FALSE(error.field.empty());
}

TEST(Mutations, OfGgufReturn) {
  GgufBuilder builder;
  builder.AddString("general.architecture", "llama")
      .AddU32("llama.block_count", 1)
      .AddU32("llama.context_length", 64)
      .AddU32("llama.embedding_length", 32)
      .AddU32("llama.feed_forward_length", 32)
      .AddU32("llama.attention.head_count", 2)
      .AddF32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .AddU32("general.alignment", 32)
      .AddStrings("tokenizer.ggml.tokens", {"a", "b"})
      .AddI32s("tokenizer.ggml.token_type", {1, 1});
  builder.AddTensor("token_embd.weight", DType::kQ8_0, {2, 32},
                    std::vector<std::byte>(68, std::byte{1}));
  builder.AddTensor("output_norm.weight", DType::kF32, {32},
                    std::vector<std::byte>(128, std::byte{2}));
  builder.AddTensor("rope_freqs.weight", DType::kF32, {8},
                    std::vector<std::byte>(32, std::byte{3}));
  const std::string whole = builder.Bytes();

  int num_read = 0;
  std::uint64_t sum = 0;
  for (int seed = 0; seed < kNumMutants; ++seed) {
    const auto bytes = Copy(seed == 0 ? whole : Mutate(whole, static_cast<std::uint32_t>(seed)));
    const auto file = ParseGguf(*bytes, bytes, "mutant.gguf");
    if (!file.ok()) {
      ExpectNamed(file.error());
      continue;
    }
    ++num_read;
    sum += Sum(file->tensors);
    const auto config = ConfigFromGguf(file->metadata, file->tensors);
    if (!config.ok()) ExpectNamed(config.error());
    EXPECT_FALSE(DumpJson(file->metadata).empty());
  }
  // Flips in weights and free text leave a readable file; most others must not.
  EXPECT_GT(num_read, kNumMutants / 20);
  EXPECT_LT(num_read, kNumMutants / 2);
  EXPECT_GT(sum, 0u);
}

TEST(Mutations, OfSafetensorsReturn) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("b":{"dtype":"I32","shape":[2],"data_offsets":[12,20]},"c":{"dtype":"I8","shape":[],"data_offsets":[20,21]}})";
  const std::uint64_t header_size = header.size();
  const std::string whole =
      std::string(reinterpret_cast<const char*>(&header_size), 8) + header + std::string(21, '\5');
  int num_read = 0;
  for (int seed = 0; seed < kNumMutants; ++seed) {
    const auto bytes = Copy(seed == 0 ? whole : Mutate(whole, static_cast<std::uint32_t>(seed)));
    const auto file = ParseSafetensors(*bytes, bytes, "mutant.safetensors");
    if (!file.ok()) {
      ExpectNamed(file.error());
      continue;
    }
    ++num_read;
    EXPECT_EQ(Sum(file->tensors) > 0, !file->tensors.empty());
  }
  EXPECT_GT(num_read, 0);
  EXPECT_LT(num_read, kNumMutants / 2);
}

TEST(Mutations, OfConfigJsonReturn) {
  const std::string whole =
      R"({"model_type":"llama","hidden_size":64,"intermediate_size":160,"num_hidden_layers":4,"vocab_size":512,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":512,"rms_norm_eps":1e-06,)"
      R"("rope_parameters":{"factor":8.0,"high_freq_factor":4.0,"low_freq_factor":1.0,)"
      R"("original_max_position_embeddings":64,"rope_theta":500000.0,"rope_type":"llama3"},"eos_token_id":[1,2]})";
  int num_read = 0;
  for (int seed = 0; seed < kNumMutants; ++seed) {
    const auto json = ParseJson(seed == 0 ? whole : Mutate(whole, static_cast<std::uint32_t>(seed)),
                                "config.json");
    if (!json.ok()) {
      ExpectNamed(json.error());
      continue;
    }
    const auto config = ConfigFromJson(*json, Json());
    if (!config.ok()) {
      ExpectNamed(config.error());
      continue;
    }
    ++num_read;
    // What passes is sane: no product of two dimensions can overflow.
    EXPECT_GT(config->num_layers, 0);
    EXPECT_GT(config->head_dim, 0);
    EXPECT_EQ(config->num_heads % config->num_kv_heads, 0);
  }
  EXPECT_GT(num_read, 0);
  EXPECT_LT(num_read, kNumMutants / 2);
}

}  // namespace
}  // namespace isobit
