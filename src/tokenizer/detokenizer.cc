// Detokenizer: bytes held back until no later byte can change the character they belong to.
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace isobit {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string Detokenizer::Append(std::int32_t id) {
  if (skip_special_ && tokenizer_->IsSpecial(id)) return {};
  pending_ += tokenizer_->TokenBytes(id);
  const std::size_t certain = CompleteUtf8Length(pending_);
  std::string text = ReplaceInvalidUtf8(std::string_view(pending_).substr(0, certain));
  pending_.erase(0, certain);
  return text;
}

std::string Detokenizer::Finish() {
  std::string text = ReplaceInvalidUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace isobit
