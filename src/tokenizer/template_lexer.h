// The lexer of the template language: text to tokens, white space control included. Settings are
// those of Hugging Face: trim_blocks (a line end right behind a block or comment goes),
// lstrip_blocks (white space from the line start to a block or comment goes), one line end at the
// end of the template goes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::chat {

enum class TokenKind {
  kText,
  kOutputBegin,
  kOutputEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // of names, operators, template text; strings without quotes and with their
                     // escapes resolved
  std::int64_t integer = 0;
  double number = 0;
};

// source: valid UTF-8. Throws TemplateError. The last token is kEnd.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace isobit::chat
