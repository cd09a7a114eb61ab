#include "weights/checkpoint.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "weights/gguf_builder.h"
#include "weights/llama_tensors.h"
#include "weights/safetensors_writer.h"

namespace isobit {
namespace {

constexpr char kGoldens[] = ISOBIT_SOURCE_DIR "/tests/golden/";

// A folder that is gone when the test ends.
class Folder {
 public:
  Folder() {
    std::string pattern = testing::TempDir() + "/isobit_checkpoint_XXXXXX";
    ISOBIT_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }
  std::string Write(const std::string& name, std::string_view content) const {
    const Status status = WriteFile(path(name), content);
    ISOBIT_CHECK(status.ok(), "{}", status.error().ToString());
    return path(name);
  }

 private:
  std::string path_;
};

std::shared_ptr<const Checkpoint> OpenGolden(const std::string& name) {
  auto checkpoint = Checkpoint::Open(kGoldens + name);
  ISOBIT_CHECK(checkpoint.ok(), "{}", checkpoint.error().ToString());
  return *checkpoint;
}

std::vector<TensorView> TensorList(const Checkpoint& checkpoint) {
  std::vector<TensorView> list;
  for (const auto& [name, tensor] : checkpoint.tensors()) list.push_back(tensor);
  return list;
}

// A copy of a golden folder with other tensors, and keys of config.json replaced.
Result<std::shared_ptr<const Checkpoint>> OpenCopy(
    const Folder& folder, const std::string& golden, const std::vector<TensorView>& tensors,
    const std::function<void(Json&)>& edit_config = [](Json&) {}) {
  ISOBIT_ASSIGN(const std::string text, ReadFile(kGoldens + golden + "/config.json"));
  ISOBIT_ASSIGN(Json config, ParseJson(text, "config.json"));
  edit_config(config);
  folder.Write("config.json", DumpJson(config));
  ISOBIT_TRY(WriteSafetensors(folder.path("model.safetensors"), tensors));
  return Checkpoint::Open(folder.path());
}

Result<std::shared_ptr<const Checkpoint>> OpenGguf(const GgufBuilder& builder) {
  const Folder folder;  // the map outlives the name
  return Checkpoint::Open(folder.Write("model.gguf", builder.Bytes()));
}

TEST(Checkpoint, OpensTheTiedGolden) {
  const auto checkpoint = OpenGolden("llama");
  EXPECT_EQ(checkpoint->container(), "safetensors");
  EXPECT_TRUE(checkpoint->config().tied_head);
  EXPECT_EQ(checkpoint->config().head_dim, 16);
  EXPECT_EQ(checkpoint->config().eos_token_ids, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(checkpoint->tensors().size(), 38u);
  EXPECT_FALSE(checkpoint->tensors().contains("lm_head.weight"));
  const TensorView& q = checkpoint->tensor("model.layers.3.self_attn.q_proj.weight");
  EXPECT_EQ(q.shape, (Shape{64, 64}));
  EXPECT_EQ(q.dtype, DType::kBF16);
  EXPECT_EQ(checkpoint->metadata().at("config").at("model_type"), "llama");
  EXPECT_TRUE(checkpoint->metadata().contains("generation_config"));
  EXPECT_FALSE(checkpoint->metadata().contains("tokenizer_config"));
}

TEST(Checkpoint, OpensTheUntiedGoldenWithScaledRope) {
  const auto checkpoint = OpenGolden("llama3-rope");
  EXPECT_FALSE(checkpoint->config().tied_head);
  EXPECT_EQ(checkpoint->config().head_dim, 32);
  EXPECT_EQ(checkpoint->tensors().size(), 39u);
  EXPECT_EQ(checkpoint->tensor("lm_head.weight").shape, (Shape{512, 64}));
  EXPECT_EQ(checkpoint->config().rope.scaling, RopeScaling::kLlama3);
}

// Computed apart from this code, in Python with hashlib, over the definition in WeightsDigest's
// comment.
TEST(Checkpoint, WeightsDigestIsPinned) {
  EXPECT_EQ(OpenGolden("llama")->WeightsDigest(),
            "aac67582e154ba7b132ca4227efaa53214612a2699c9466337f9a5c243d97814");
  EXPECT_EQ(OpenGolden("llama3-rope")->WeightsDigest(),
            "d3c5ff79fd277433fe16c43d5e5d720fcd86fe3ba6b93af7a7f9c0bab7137c88");
}

TEST(Checkpoint, GgufOfTheSameWeightsIsTheSameModel) {
  for (const char* name : {"llama", "llama3-rope"}) {
    const auto folder = OpenGolden(name);
    const auto gguf = OpenGguf(LlamaGguf(*folder));
    ASSERT_TRUE(gguf.ok()) << gguf.error().ToString();
    EXPECT_EQ((*gguf)->container(), "gguf");
    EXPECT_EQ((*gguf)->WeightsDigest(), folder->WeightsDigest());
    const ModelConfig &a = folder->config(), &b = (*gguf)->config();
    EXPECT_EQ(b.num_layers, a.num_layers);
    EXPECT_EQ(b.hidden_size, a.hidden_size);
    EXPECT_EQ(b.intermediate_size, a.intermediate_size);
    EXPECT_EQ(b.num_heads, a.num_heads);
    EXPECT_EQ(b.num_kv_heads, a.num_kv_heads);
    EXPECT_EQ(b.head_dim, a.head_dim);
    EXPECT_EQ(b.vocab_size, a.vocab_size);
    EXPECT_EQ(b.max_positions, a.max_positions);
    EXPECT_EQ(b.norm_eps, a.norm_eps);
    EXPECT_EQ(b.tied_head, a.tied_head);
    EXPECT_EQ(b.rope.theta, a.rope.theta);
    EXPECT_EQ(b.eos_token_ids, a.eos_token_ids);
    EXPECT_EQ(b.bos_token_id, a.bos_token_id);
  }
}

TEST(Checkpoint, GgufHoldsQAndKPermuted) {
  const auto folder = OpenGolden("llama");
  const GgufBuilder builder = LlamaGguf(*folder);
  const auto find = [&](std::string_view name) -> const GgufTensor& {
    return *std::find_if(builder.tensors.begin(), builder.tensors.end(),
                         [&](const GgufTensor& t) { return t.name == name; });
  };
  const auto canonical = [&](const char* name) {
    const TensorView& tensor = folder->tensor(name);
    return std::string_view(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  };
  // head_dim 16, rows of 128 bytes: row 1 of a head in the file is row 8 of that head in Hugging
  // Face's order.
  const std::string_view q = canonical("model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(std::string_view(find("blk.1.attn_q.weight").data).substr((16 + 1) * 128, 128),
            q.substr((16 + 8) * 128, 128));
  EXPECT_EQ(std::string_view(find("blk.1.attn_q.weight").data).substr(2 * 128, 128),
            q.substr(1 * 128, 128));
  const std::string_view k = canonical("model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(std::string_view(find("blk.1.attn_k.weight").data).substr(3 * 128, 128),
            k.substr(9 * 128, 128));
  EXPECT_EQ(find("blk.1.attn_v.weight").data, canonical("model.layers.1.self_attn.v_proj.weight"));
}

TEST(Checkpoint, GgufRopeDivisorsFollowTheLlama3Formula) {
  const auto gguf = OpenGguf(LlamaGguf(*OpenGolden("llama3-rope")));
  ASSERT_TRUE(gguf.ok()) << gguf.error().ToString();
  const std::vector<float>& divisors = (*gguf)->config().rope.frequency_divisors;
  ASSERT_EQ(divisors.size(), 16u);
  EXPECT_EQ(divisors[0], 1.0f);   // wavelength 2 pi, below 64 / 4
  EXPECT_EQ(divisors[15], 8.0f);  // wavelength above 64 / 1
  // Pair 2: wavelength 2 pi 500000^(1/8) = 32.4, so smooth = (64/32.4 - 1) / 3.
  const double smooth = (64.0 / (2 * M_PI * std::pow(500000.0, 0.125)) - 1.0) / 3.0;
  EXPECT_FLOAT_EQ(divisors[2], static_cast<float>(1.0 / ((1.0 - smooth) / 8.0 + smooth)));
  EXPECT_TRUE(std::is_sorted(divisors.begin(), divisors.end()));
}

TEST(Checkpoint, QuantizedMatricesOpenFromGguf) {
  // The golden with every matrix of a column count divisible by 32 replaced by zero blocks of each
  // type in turn.
  const auto folder = OpenGolden("llama");
  GgufBuilder builder = LlamaGguf(*folder);
  const DType types[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kF16, DType::kF32};
  std::size_t next = 0;
  for (GgufTensor& tensor : builder.tensors) {
    if (tensor.dims.size() != 2) continue;
    const DType dtype = types[next++ % std::size(types)];
    tensor.type = FindGgmlType(dtype)->number;
    tensor.data = std::string(
        static_cast<std::size_t>(RowBytes(dtype, tensor.dims[0]) * tensor.dims[1]), '\0');
    for (std::size_t i = 0; i < tensor.data.size(); i += 7)
      tensor.data[i] = static_cast<char>(i / 7);
  }
  const auto gguf = OpenGguf(builder);
  ASSERT_TRUE(gguf.ok()) << gguf.error().ToString();
  EXPECT_EQ((*gguf)->tensor("model.embed_tokens.weight").dtype, DType::kQ8_0);
  // The digest sees the dtype and the blocks.
  EXPECT_NE((*gguf)->WeightsDigest(), folder->WeightsDigest());
  EXPECT_EQ((*gguf)->WeightsDigest(), (*OpenGguf(builder))->WeightsDigest());
}

TEST(Checkpoint, DigestSeesEveryByteButNotTheLayout) {
  const auto golden = OpenGolden("llama");
  std::vector<TensorView> tensors = TensorList(*golden);
  const Folder folder;
  const auto copy = OpenCopy(folder, "llama", tensors);
  ASSERT_TRUE(copy.ok()) << copy.error().ToString();
  EXPECT_EQ((*copy)->WeightsDigest(), golden->WeightsDigest());

  std::vector<std::byte> changed(tensors[5].data.begin(), tensors[5].data.end());
  changed.back() ^= std::byte{1};
  tensors[5].data = changed;
  const auto other = OpenCopy(folder, "llama", tensors);
  ASSERT_TRUE(other.ok());
  EXPECT_NE((*other)->WeightsDigest(), golden->WeightsDigest());
}

TEST(Checkpoint, ATensorMissingOrStrayOrMisshapenIsNamed) {
  const Folder folder;
  const auto golden = OpenGolden("llama");
  const std::vector<TensorView> all = TensorList(*golden);
  for (std::size_t i = 0; i < all.size(); i += 5) {
    std::vector<TensorView> tensors = all;
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    const auto missing = OpenCopy(folder, "llama", tensors);
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(missing.error().field, all[i].name);
    EXPECT_NE(missing.error().message.find("missing"), std::string::npos);

    tensors = all;
    if (tensors[i].shape.size() == 2) {
      std::swap(tensors[i].shape[0], tensors[i].shape[1]);
      if (tensors[i].shape == all[i].shape) tensors[i].shape = {all[i].shape[0] * all[i].shape[1]};
    } else {
      tensors[i].shape = {1, all[i].shape[0]};
    }
    const auto misshapen = OpenCopy(folder, "llama", tensors);
    ASSERT_FALSE(misshapen.ok());
    EXPECT_EQ(misshapen.error().field, all[i].name);
    EXPECT_NE(misshapen.error().message.find(ToString(all[i].shape)), std::string::npos);
  }

  const std::vector<std::byte> bytes(128);
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.4.input_layernorm.weight", "extra"}) {
    std::vector<TensorView> tensors = all;
    tensors.push_back({name, DType::kBF16, {64}, bytes, nullptr});
    const auto stray = OpenCopy(folder, "llama", tensors);
    ASSERT_FALSE(stray.ok());
    EXPECT_EQ(stray.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(stray.error().field, name);
  }
  std::vector<TensorView> tensors = all;
  tensors.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, {32}, bytes, nullptr});
  const auto harmless = OpenCopy(folder, "llama", tensors);
  ASSERT_TRUE(harmless.ok()) << harmless.error().ToString();
  EXPECT_EQ((*harmless)->tensors().size(), all.size());
}

TEST(Checkpoint, IntegerTensorsAreNoWeights) {
  const Folder folder;
  std::vector<TensorView> tensors = TensorList(*OpenGolden("llama"));
  const std::vector<std::byte> bytes(512 * 64);
  tensors[0].dtype = DType::kI8;
  tensors[0].data = bytes;
  const auto opened = OpenCopy(folder, "llama", tensors);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(opened.error().field, "model.embed_tokens.weight");
}

TEST(Checkpoint, QuantizedNormsAreRefused) {
  GgufBuilder builder = LlamaGguf(*OpenGolden("llama"));
  for (GgufTensor& tensor : builder.tensors) {
    if (tensor.name != "blk.2.ffn_norm.weight") continue;
    tensor.type = 8;
    tensor.data = std::string(68, '\0');
  }
  const auto opened = OpenGguf(builder);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().field, "blk.2.ffn_norm.weight");
  EXPECT_NE(opened.error().message.find("q8_0"), std::string::npos);
}

TEST(Checkpoint, TheHeadIsTiedByTheWholeFile) {
  const Folder folder;
  const auto golden = OpenGolden("llama");
  std::vector<TensorView> tensors = TensorList(*golden);
  // Untied by the config, but no head in the file.
  const auto no_head = OpenCopy(folder, "llama", tensors,
                                [](Json& config) { config["tie_word_embeddings"] = false; });
  ASSERT_FALSE(no_head.ok());
  EXPECT_EQ(no_head.error().field, "lm_head.weight");
  // Tied, and the file repeats the embedding: the copy is dropped.
  TensorView head = golden->tensor("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  tensors.push_back(head);
  const auto repeated = OpenCopy(folder, "llama", tensors);
  ASSERT_TRUE(repeated.ok()) << repeated.error().ToString();
  EXPECT_EQ((*repeated)->WeightsDigest(), golden->WeightsDigest());
  // Tied by the config, but the file's head differs.
  std::vector<std::byte> changed(head.data.begin(), head.data.end());
  changed[0] ^= std::byte{1};
  tensors.back().data = changed;
  const auto differs = OpenCopy(folder, "llama", tensors);
  ASSERT_FALSE(differs.ok());
  EXPECT_EQ(differs.error().field, "lm_head.weight");
  // The same tensors untied are a model.
  const auto untied = OpenCopy(folder, "llama", tensors,
                               [](Json& config) { config["tie_word_embeddings"] = false; });
  ASSERT_TRUE(untied.ok()) << untied.error().ToString();
  EXPECT_FALSE((*untied)->config().tied_head);
}

TEST(Checkpoint, GgufStrayAndMissingTensorsAreNamed) {
  const GgufBuilder whole = LlamaGguf(*OpenGolden("llama"));
  GgufBuilder stray = whole;
  stray.AddTensor("blk.0.attn_q.bias", DType::kF32, {64}, std::vector<std::byte>(256));
  EXPECT_EQ(OpenGguf(stray).error().field, "blk.0.attn_q.bias");
  GgufBuilder missing = whole;
  std::erase_if(missing.tensors,
                [](const GgufTensor& tensor) { return tensor.name == "blk.3.ffn_up.weight"; });
  EXPECT_EQ(OpenGguf(missing).error().field, "blk.3.ffn_up.weight");
  GgufBuilder more_layers = whole;
  more_layers.Erase("llama.block_count").AddU32("llama.block_count", 5);
  EXPECT_EQ(OpenGguf(more_layers).error().field, "blk.4.attn_norm.weight");
  GgufBuilder fewer_layers = whole;
  fewer_layers.Erase("llama.block_count").AddU32("llama.block_count", 3);
  EXPECT_EQ(OpenGguf(fewer_layers).error().field, "blk.3.attn_norm.weight");
  GgufBuilder other_dims = whole;
  other_dims.Erase("llama.feed_forward_length").AddU32("llama.feed_forward_length", 128);
  EXPECT_EQ(OpenGguf(other_dims).error().field, "blk.0.ffn_gate.weight");
}

TEST(Checkpoint, EveryTruncationOfAWholeModelFails) {
  const std::string bytes = LlamaGguf(*OpenGolden("llama")).Bytes();
  const Folder folder;
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 8) {
    const auto opened =
        Checkpoint::Open(folder.Write("model.gguf", std::string_view(bytes).substr(0, size)));
    ASSERT_FALSE(opened.ok()) << size;
    EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt) << size;
  }
}

TEST(Checkpoint, PathsThatAreNoModelSayWhatToDo) {
  const Folder folder;
  const auto error = [&](const std::string& path) {
    const auto opened = Checkpoint::Open(path);
    EXPECT_FALSE(opened.ok());
    return opened.error();
  };
  EXPECT_EQ(error(folder.path("absent.gguf")).code, ErrorCode::kNotFound);
  EXPECT_EQ(error("").code, ErrorCode::kNotFound);
  EXPECT_EQ(error("/dev/null").code, ErrorCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(folder.path("pipe.gguf").c_str(), 0600), 0);
  EXPECT_EQ(error(folder.path("pipe.gguf")).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error(folder.Write("notes.txt", "hello, world")).code, ErrorCode::kCorrupt);
  EXPECT_NE(error(folder.path()).message.find("config.json"), std::string::npos);
  EXPECT_EQ(error(std::string(kGoldens) + "llama/model.safetensors").code,
            ErrorCode::kInvalidArgument);

  folder.Write("config.json", "{\"model_type\":");
  EXPECT_EQ(error(folder.path()).code, ErrorCode::kCorrupt);
  EXPECT_EQ(error(folder.path()).field, folder.path("config.json"));
  folder.Write("config.json", "[]");
  EXPECT_EQ(error(folder.path()).code, ErrorCode::kCorrupt);
  folder.Write("config.json", std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(error(folder.path()).field, folder.path("config.json"));
  folder.Write("config.json", *ReadFile(std::string(kGoldens) + "llama/config.json"));
  EXPECT_EQ(error(folder.path()).code, ErrorCode::kNotFound);
  folder.Write("generation_config.json", "5");
  EXPECT_EQ(error(folder.path()).field, folder.path("generation_config.json"));
  folder.Write("generation_config.json", "{}");
  folder.Write("model.gguf", "x");
  EXPECT_NE(error(folder.path()).message.find(".gguf"), std::string::npos);
  folder.Write("a.safetensors", "");
  EXPECT_EQ(error(folder.path()).field, folder.path("a.safetensors"));
  folder.Write("b.safetensors", "");
  EXPECT_EQ(error(folder.path()).code, ErrorCode::kUnsupported);
  folder.Write("model.safetensors", "");  // the one transformers would take
  EXPECT_EQ(error(folder.path()).field, folder.path("model.safetensors"));
  folder.Write("model-00001-of-00002.safetensors", "");
  EXPECT_EQ(error(folder.path()).field, folder.path("model-00001-of-00002.safetensors"));
  std::filesystem::remove(folder.path("model-00001-of-00002.safetensors"));
  folder.Write("model.safetensors.index.json", "{}");
  EXPECT_EQ(error(folder.path()).code, ErrorCode::kUnsupported);
  EXPECT_NE(error(folder.path()).message.find("split over several files"), std::string::npos);
}

}  // namespace
}  // namespace isobit
