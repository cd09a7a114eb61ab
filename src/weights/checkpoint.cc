#include "weights/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "weights/config_json.h"
#include "weights/gguf_config.h"
#include "weights/gguf_reader.h"
#include "weights/llama_tensors.h"
#include "weights/names.h"
#include "weights/safetensors_reader.h"

namespace isobit {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20;            // real ones have a few KB
constexpr std::size_t kMaxTokenizerConfigBytes = 16 << 20;  // lists every added token
constexpr char kWeightsName[] = "model.safetensors";
constexpr char kHeadName[] = "lm_head.weight";
constexpr char kEmbeddingName[] = "model.embed_tokens.weight";

// A buffer that old versions of transformers saved beside the weights and ignore on loading: RoPE's
// inverse frequencies, which the contract computes itself.
bool IsHarmlessExtra(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

// The JSON object in a file of a model folder; null where the file does not exist.
Result<Json> ReadJsonFile(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Json();
  ISOBIT_ASSIGN(const std::string text, ReadFile(path.string(), max_bytes));
  Result<Json> json = ParseJson(text, path.string());
  if (!json.ok()) return Fail(ErrorCode::kCorrupt, json.error().field, "{}", json.error().message);
  if (!json->is_object()) return Fail(ErrorCode::kCorrupt, path.string(), "is not a JSON object");
  return json;
}

// The weights of a folder: model.safetensors, which is what transformers looks for, whatever else
// lies beside it; else the only .safetensors file. Parts of a split model are refused rather than
// half read.
Result<std::string> FindSafetensors(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  bool has_gguf = false;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_safetensors = name.ends_with(".safetensors");
    if (name.ends_with(".safetensors.index.json") ||
        (is_safetensors && name.find("-of-") != name.npos)) {
      return Fail(ErrorCode::kUnsupported, entry->path().string(),
                  "the model is split over several files, which is not read yet; join "
                  "them into one model.safetensors and remove the parts and the index");
    }
    if (is_safetensors) found.push_back(name);
    has_gguf |= name.ends_with(".gguf");
  }
  if (error) return Fail(ErrorCode::kIo, folder, "cannot list the folder: {}", error.message());
  std::sort(found.begin(), found.end());
  if (found.empty()) {
    return Fail(ErrorCode::kNotFound, folder, "holds no .safetensors file{}",
                has_gguf ? "; to load its .gguf file, name the file itself" : "");
  }
  const bool has_model = std::find(found.begin(), found.end(), kWeightsName) != found.end();
  if (found.size() > 1 && !has_model) {
    return Fail(ErrorCode::kUnsupported, folder,
                "holds {} .safetensors files ({}, {}...) and none is {}; rename the right one",
                found.size(), Printable(found[0]), Printable(found[1]), kWeightsName);
  }
  return (std::filesystem::path(folder) / (has_model ? kWeightsName : found.front())).string();
}

// Binds the file's tensors to the family's: each expected one present once, with its shape and
// type, and none left over. container_name: the member that says what this container calls a
// tensor.
Result<std::map<std::string, TensorView>> BindTensors(
    const std::vector<ExpectedTensor>& expected, std::vector<TensorView> tensors,
    const std::string ExpectedTensor::*container_name) {
  std::map<std::string_view, const ExpectedTensor*> by_name;
  for (const ExpectedTensor& one : expected) by_name.emplace(one.*container_name, &one);
  std::map<std::string, TensorView> bound;
  for (TensorView& tensor : tensors) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) {
      if (IsHarmlessExtra(tensor.name)) continue;
      return Fail(ErrorCode::kUnsupported, tensor.name,
                  "this tensor is none of those its configuration names; leaving it out could "
                  "change what the model computes");
    }
    ISOBIT_TRY(CheckTensor(tensor, *found->second));
    tensor.name = found->second->name;
    bound.emplace(found->second->name, std::move(tensor));
  }
  for (const ExpectedTensor& one : expected) {
    if (!bound.contains(one.name)) {
      return Fail(ErrorCode::kCorrupt, one.*container_name,
                  "this tensor is missing; the file is incomplete");
    }
  }
  return bound;
}

}  // namespace

// Fills a Checkpoint's fields; apart from the class so that its header need not name the
// containers.
struct CheckpointBuilder {
  static Result<std::shared_ptr<const Checkpoint>> FromGguf(const std::string& path) {
    ISOBIT_ASSIGN(const std::shared_ptr<const MappedFile> mapped, MappedFile::Open(path));
    ISOBIT_ASSIGN(GgufFile file, ReadGguf(mapped));
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->path_ = path;
    checkpoint->container_ = "gguf";
    ISOBIT_ASSIGN(checkpoint->config_, ConfigFromGguf(file.metadata, file.tensors));
    checkpoint->metadata_ = std::move(file.metadata);
    std::erase_if(file.tensors, [](const TensorView& tensor) {
      return tensor.name == kGgufRopeDivisors;
    });  // now in the config
    const std::vector<ExpectedTensor> expected = LlamaTensors(checkpoint->config_);
    ISOBIT_ASSIGN(checkpoint->tensors_,
                  BindTensors(expected, std::move(file.tensors), &ExpectedTensor::gguf_name));
    for (const ExpectedTensor& one : expected) {
      if (one.gguf_permuted_heads == 0) continue;
      TensorView& tensor = checkpoint->tensors_.at(one.name);
      tensor = UnpermuteRows(tensor, one.gguf_permuted_heads);
    }
    return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
  }

  static Result<std::shared_ptr<const Checkpoint>> FromFolder(const std::string& path) {
    const std::filesystem::path folder(path);
    ISOBIT_ASSIGN(Json config, ReadJsonFile(folder / "config.json", kMaxConfigBytes));
    if (config.is_null()) {
      return Fail(ErrorCode::kNotFound, path,
                  "holds no config.json; name a .gguf file or a folder with config.json and one "
                  ".safetensors file");
    }
    ISOBIT_ASSIGN(Json generation_config,
                  ReadJsonFile(folder / "generation_config.json", kMaxConfigBytes));
    ISOBIT_ASSIGN(Json tokenizer_config,
                  ReadJsonFile(folder / "tokenizer_config.json", kMaxTokenizerConfigBytes));
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->path_ = path;
    checkpoint->container_ = "safetensors";
    ISOBIT_ASSIGN(checkpoint->config_, ConfigFromJson(config, generation_config));

    ISOBIT_ASSIGN(const std::string weights_path, FindSafetensors(path));
    ISOBIT_ASSIGN(const std::shared_ptr<const MappedFile> mapped, MappedFile::Open(weights_path));
    ISOBIT_ASSIGN(SafetensorsFile file, ReadSafetensors(mapped));
    if (checkpoint->config_.tied_head) ISOBIT_TRY(DropTiedHead(file.tensors));
    ISOBIT_ASSIGN(checkpoint->tensors_,
                  BindTensors(LlamaTensors(checkpoint->config_), std::move(file.tensors),
                              &ExpectedTensor::name));

    checkpoint->metadata_ = Json::object();
    checkpoint->metadata_["config"] = std::move(config);
    if (!generation_config.is_null())
      checkpoint->metadata_["generation_config"] = std::move(generation_config);
    if (!tokenizer_config.is_null())
      checkpoint->metadata_["tokenizer_config"] = std::move(tokenizer_config);
    return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
  }

  // A tied model's file may repeat the embedding as lm_head.weight. Equal bytes say nothing new;
  // others contradict the config.
  static Status DropTiedHead(std::vector<TensorView>& tensors) {
    const auto find = [&](std::string_view name) {
      return std::find_if(tensors.begin(), tensors.end(),
                          [&](const TensorView& tensor) { return tensor.name == name; });
    };
    const auto head = find(kHeadName), embedding = find(kEmbeddingName);
    if (head == tensors.end() || embedding == tensors.end()) return {};
    if (head->dtype != embedding->dtype || head->shape != embedding->shape ||
        !std::ranges::equal(head->data, embedding->data)) {
      return Fail(
          ErrorCode::kCorrupt, kHeadName,
          "differs from {}, but tie_word_embeddings in config.json says they are one; set it to "
          "false or remove the tensor",
          kEmbeddingName);
    }
    tensors.erase(head);
    return {};
  }
};

Result<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return Fail(ErrorCode::kNotFound, path,
                "there is no such file or folder; name a .gguf file or a folder with config.json");
  }
  if (std::filesystem::is_directory(status)) return CheckpointBuilder::FromFolder(path);
  if (!std::filesystem::is_regular_file(status)) {  // opening a pipe would wait for its writer
    return Fail(ErrorCode::kInvalidArgument, path, "is neither a file nor a folder");
  }
  if (std::filesystem::path(path).extension() == ".safetensors") {
    return Fail(ErrorCode::kInvalidArgument, path,
                "is the weights alone; name the folder that holds it and config.json");
  }
  return CheckpointBuilder::FromGguf(path);
}

const TensorView& Checkpoint::tensor(const std::string& canonical_name) const {
  const auto found = tensors_.find(canonical_name);
  ISOBIT_CHECK(found != tensors_.end(), "no tensor {}", canonical_name);
  return found->second;
}

// Every variable-length part is preceded by its length, so that no two lists of tensors feed the
// hash the same bytes. A block type's values are its stored blocks, rows in canonical order: the
// digest proves representation, not only the numbers it widens to.
std::string Checkpoint::WeightsDigest() const {
  Sha256 hash;
  hash.Update("isobit weights 1\n").UpdateU64(tensors_.size());
  for (const auto& [name, tensor] : tensors_) {
    const std::string_view dtype = Name(tensor.dtype);
    hash.UpdateU64(name.size())
        .Update(name)
        .UpdateU64(dtype.size())
        .Update(dtype)
        .UpdateU64(tensor.shape.size());
    for (const std::int64_t dim : tensor.shape) hash.UpdateU64(static_cast<std::uint64_t>(dim));
    hash.UpdateU64(tensor.data.size()).Update(tensor.data);
  }
  const Sha256Digest digest = hash.Finish();
  return HexString(digest);
}

}  // namespace isobit
