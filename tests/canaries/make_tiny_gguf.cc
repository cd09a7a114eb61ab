// make_tiny_gguf FOLDER OUT: the tiny llama of tests/golden as a GGUF with a made-up byte-level tokenizer and a small chat template.
#include <cstdio>

#include "base/file.h"
#include "tokenizer/byte_alphabet.h"
#include "weights/checkpoint.h"
#include "weights/gguf_builder.h"

namespace isobit {
namespace {

constexpr const char* kTemplate =
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

// 3 control tokens, 256 bytes, and pairs of letters up to the vocabulary's size, each with its merge.
void AddTokenizer(std::int64_t vocab_size, GgufBuilder& gguf) {
  std::vector<std::string> tokens = {"<|start|>", "<|end|>", "<|pad|>"}, merges;
  std::vector<std::int32_t> types(3, 3);
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(LettersFromBytes(std::string(1, static_cast<char>(byte))));
  const std::string letters = "etaoinshrdlu";
  for (std::size_t pair = 0; static_cast<std::int64_t>(tokens.size()) < vocab_size; ++pair) {
    if (pair < letters.size() * letters.size()) {
      const std::string left(1, letters[pair / letters.size()]), right(1, letters[pair % letters.size()]);
      tokens.push_back(left + right);
      merges.push_back(left + " " + right);
    } else {
      tokens.push_back("<|unused" + std::to_string(pair) + "|>");
    }
  }
  types.resize(tokens.size(), 1);
  gguf.AddString("tokenizer.ggml.model", "gpt2")
      .AddString("tokenizer.ggml.pre", "gpt-2")
      .AddStrings("tokenizer.ggml.tokens", tokens)
      .AddI32s("tokenizer.ggml.token_type", types)
      .AddStrings("tokenizer.ggml.merges", merges)
      .AddU32("tokenizer.ggml.bos_token_id", 0)
      .AddU32("tokenizer.ggml.eos_token_id", 1)
      .AddU32("tokenizer.ggml.padding_token_id", 2)
      .AddBool("tokenizer.ggml.add_bos_token", false)
      .AddString("tokenizer.chat_template", kTemplate);
}

Status Make(const std::string& folder, const std::string& out) {
  ISOBIT_ASSIGN(const auto checkpoint, Checkpoint::Open(folder));
  GgufBuilder gguf = LlamaGguf(*checkpoint);
  // LlamaGguf writes the end token that config.json names; the tokenizer below says it again.
  for (const GgufPair& pair : std::vector<GgufPair>(gguf.pairs)) {
    if (pair.key.starts_with("tokenizer.")) gguf.Erase(pair.key);
  }
  AddTokenizer(checkpoint->config().vocab_size, gguf);
  return WriteFile(out, gguf.Bytes());
}

}  // namespace
}  // namespace isobit

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: make_tiny_gguf FOLDER OUT\n");
    return 2;
  }
  const isobit::Status status = isobit::Make(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "make_tiny_gguf: %s\n", status.error().ToString().c_str());
  return status.ok() ? 0 : 2;
}
