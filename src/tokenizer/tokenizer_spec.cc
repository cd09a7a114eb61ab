// TokenizerSpecFromGguf: the tokenizer keys of a GGUF file as plain data, each checked for
// presence, type and size.
#include <limits>

#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace isobit {
namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";

Error Wrong(const std::string& key, std::string_view wanted) {
  return Fail(ErrorCode::kCorrupt, key,
              "must be {}; the file's tokenizer is damaged, convert it again", wanted);
}

const Json* Find(const Json& metadata, const std::string& key) {
  const auto it = metadata.find(key);
  return it == metadata.end() ? nullptr : &*it;
}

Result<std::string> ReadString(const Json& metadata, const std::string& key) {
  const Json* value = Find(metadata, key);
  if (value == nullptr) {
    return Fail(ErrorCode::kCorrupt, key,
                "is missing: without it the ids of a text are not defined; convert the file again");
  }
  if (!value->is_string()) return Wrong(key, "a string");
  return value->get<std::string>();
}

Result<std::vector<std::string>> ReadStrings(const Json& metadata, const std::string& key) {
  const Json* value = Find(metadata, key);
  if (value == nullptr) return Fail(ErrorCode::kCorrupt, key, "is missing; convert the file again");
  if (!value->is_array()) return Wrong(key, "an array of strings");
  std::vector<std::string> strings;
  strings.reserve(value->size());
  for (const Json& one : *value) {
    if (!one.is_string())
      return Wrong(key, fmt::format("an array of strings, but entry {} is none", strings.size()));
    strings.push_back(one.get<std::string>());
  }
  return strings;
}

Result<std::vector<TokenType>> ReadTokenTypes(const Json& metadata, const std::string& key,
                                              std::size_t num_tokens) {
  std::vector<TokenType> types;
  const Json* value = Find(metadata, key);
  if (value == nullptr) return types;
  if (!value->is_array()) return Wrong(key, "an array of integers");
  if (value->size() != num_tokens)
    return Wrong(key,
                 fmt::format("one entry per token, {}, but has {}", num_tokens, value->size()));
  types.reserve(num_tokens);
  for (const Json& one : *value) {
    const bool known = one.is_number_integer() && one >= 1 && one <= 6;
    if (!known)
      return Wrong(
          key, fmt::format("an array of integers from 1 to 6, but entry {} is none", types.size()));
    types.push_back(static_cast<TokenType>(one.get<int>()));
  }
  return types;
}

Result<std::optional<std::int32_t>> ReadId(const Json& metadata, const std::string& key) {
  const Json* value = Find(metadata, key);
  if (value == nullptr) return std::optional<std::int32_t>();
  const bool fits = value->is_number_integer() && *value >= 0 &&
                    *value <= std::numeric_limits<std::int32_t>::max();
  if (!fits) return Wrong(key, "a token id");
  return std::optional<std::int32_t>(value->get<std::int32_t>());
}

Result<bool> ReadBool(const Json& metadata, const std::string& key, bool fallback) {
  const Json* value = Find(metadata, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return Wrong(key, "true or false");
  return value->get<bool>();
}

}  // namespace

Result<TokenizerSpec> TokenizerSpecFromGguf(const Json& metadata) {
  const auto key = [](std::string_view name) { return std::string(kPrefix).append(name); };
  if (!metadata.is_object() || Find(metadata, key("model")) == nullptr) {
    return Fail(ErrorCode::kNotFound, key("model"),
                "the file carries no tokenizer; use a GGUF file that does");
  }
  TokenizerSpec spec;
  ISOBIT_ASSIGN(spec.model, ReadString(metadata, key("model")));
  if (spec.model != "gpt2") {
    return Fail(
        ErrorCode::kUnsupported, key("model"),
        "the tokenizer model \"{}\"{} is not supported yet; isobit reads byte-level BPE, \"gpt2\"",
        spec.model, spec.model == "llama" ? " (SentencePiece)" : "");
  }
  ISOBIT_ASSIGN(spec.pre_tokenizer, ReadString(metadata, key("pre")));
  ISOBIT_ASSIGN(spec.tokens, ReadStrings(metadata, key("tokens")));
  ISOBIT_ASSIGN(spec.token_types, ReadTokenTypes(metadata, key("token_type"), spec.tokens.size()));
  ISOBIT_ASSIGN(spec.merges, ReadStrings(metadata, key("merges")));
  ISOBIT_ASSIGN(spec.bos_id, ReadId(metadata, key("bos_token_id")));
  ISOBIT_ASSIGN(spec.eos_id, ReadId(metadata, key("eos_token_id")));
  ISOBIT_ASSIGN(spec.unknown_id, ReadId(metadata, key("unknown_token_id")));
  ISOBIT_ASSIGN(spec.padding_id, ReadId(metadata, key("padding_token_id")));
  const bool default_bos =
      PreTokenizer::AddBosByDefault(spec.pre_tokenizer) && spec.bos_id.has_value();
  ISOBIT_ASSIGN(spec.add_bos, ReadBool(metadata, key("add_bos_token"), default_bos));
  ISOBIT_ASSIGN(spec.add_eos, ReadBool(metadata, key("add_eos_token"), false));
  return spec;
}

}  // namespace isobit
