// PromptEncoder: what a client wrote to the token ids the engine reads. Control tokens come from the template's own text only: text
// of a message that spells one ("<|im_end|>") becomes ordinary tokens.
//
// How: before rendering, every character that starts (or could complete, together with what the template writes around it) the text
// of a control token inside client text is replaced by a noncharacter of Unicode that occurs nowhere else. The template runs once, on
// text of the same length in code points; its output is cut at the control tokens spelled there, which can only be the template's
// own; the characters are put back; what lies between the cuts is encoded as plain text. Client text therefore also looks to the
// template's logic as if it spelled no control token. Roles are checked words and stay as they are: some templates build control
// tokens from them ('<|' + message.role + '|>').
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/openai_request.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace isobit {

inline constexpr std::size_t kMaxTokenizeBytes = 4 << 20;  // of text that is only rendered or encoded: /tokenize, .../render

struct EncodedPrompt {
  std::vector<std::int32_t> ids;
  std::size_t num_prefix = 0;  // of these, added in front (BOS)
  std::size_t num_suffix = 0;  // and behind (EOS)
};

struct RenderedChat {
  std::string text;  // as the template wrote it
  std::vector<std::int32_t> ids;
};

class PromptEncoder {
 public:
  // chat_template may be null: Render then fails.
  PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const ChatTemplate> chat_template);

  // Adds BOS unless the text already begins with one: never two.
  EncodedPrompt Encode(std::string_view text, bool add_special, bool parse_special) const;

  // kInvalidArgument with the template's own words if it raises; kUnsupported without a template.
  Result<RenderedChat> Render(const ChatInput& chat, bool add_special) const;

  // False if text of so many bytes has more tokens than max_tokens even if every one of them were the longest there is: found
  // without encoding it, so that no body can keep the server's thread busy for long.
  bool CanFit(std::size_t text_bytes, std::int64_t max_tokens) const;
  static std::size_t TextBytes(const ChatInput& chat);  // of all that a client wrote

 private:
  class Shield;

  Json Context(const ChatInput& chat, Shield& shield) const;
  std::vector<std::int32_t> EncodeShielded(std::string_view text, const Shield& shield) const;
  // The control token that begins text: the longest; -1 if none.
  std::int32_t ControlTokenAt(std::string_view text) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_template_;
  std::vector<std::pair<std::string, std::int32_t>> control_tokens_;  // by text ascending
  bool can_begin_[256] = {};                                          // one of them
  std::vector<std::int32_t> prefix_, suffix_;                         // what the tokenizer adds around a text
  std::size_t longest_token_bytes_ = 1;
};

}  // namespace isobit
