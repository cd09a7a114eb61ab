// Tokenizer: text to token ids and back. Byte-level BPE as GGUF describes it. Every member is const after Create and safe to call
// from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace isobit {

enum class TokenType : std::uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// What a file says of its tokenizer; plain data, so that the tokenizer room need not know any container.
struct TokenizerSpec {
  std::string model = "gpt2";          // tokenizer.ggml.model
  std::string pre_tokenizer;           // tokenizer.ggml.pre: "smollm", "gpt-2", "llama-bpe", "qwen2", ...
  std::vector<std::string> tokens;     // [vocab] in the byte alphabet of GPT-2
  std::vector<TokenType> token_types;  // [vocab], or empty: all normal
  std::vector<std::string> merges;     // "left right", best first
  std::optional<std::int32_t> bos_id, eos_id, unknown_id, padding_id;
  bool add_bos = false;
  bool add_eos = false;
};

// From GGUF metadata (Checkpoint::metadata()). kNotFound if the file carries no tokenizer.
Result<TokenizerSpec> TokenizerSpecFromGguf(const Json& metadata);

struct EncodeOptions {
  bool add_special = true;    // BOS and EOS as the file asks
  bool parse_special = false;  // recognise control tokens such as <|im_start|> inside the text: templates yes, user text never
};

class Tokenizer {
 public:
  // Checks all of spec: sizes agree, no merge names a missing token, ids in range, the pre-tokenizer is known (T05: refused by name).
  static Result<std::shared_ptr<const Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();

  // Text need not be valid UTF-8. Never fails: the byte alphabet covers everything.
  std::vector<std::int32_t> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes that id stands for: decoded from the byte alphabet; a control token's own text. CHECKs 0 <= id < vocab_size().
  const std::string& TokenBytes(std::int32_t id) const;
  bool IsSpecial(std::int32_t id) const;  // control or unknown: left out of text when special tokens are skipped

  // Joined bytes of ids, invalid UTF-8 kept as it is.
  std::string DecodeBytes(std::span<const std::int32_t> ids, bool skip_special) const;

  std::optional<std::int32_t> FindToken(std::string_view bytes) const;  // a control token by its text, e.g. "<|im_end|>"
  std::int32_t vocab_size() const;
  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;
  std::string Digest() const;  // SHA-256 of the spec and of the Unicode version in use

 private:
  struct Data;
  explicit Tokenizer(std::unique_ptr<const Data> data);
  std::unique_ptr<const Data> data_;
};

// Turns a stream of ids into a stream of text that never ends inside a character. Invalid bytes become U+FFFD once it is sure that
// no later byte completes them. The joined deltas equal ReplaceInvalidUtf8(DecodeBytes(all ids)).
class Detokenizer {
 public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);
  std::string Append(std::int32_t id);  // the text that became certain; may be empty
  std::string Finish();                 // what is still held back

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::string pending_;  // bytes of an unfinished character
};

}  // namespace isobit
