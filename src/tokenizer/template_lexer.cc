#include "tokenizer/template_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/utf8.h"
#include "tokenizer/template_strings.h"
#include "tokenizer/template_value.h"

namespace isobit::chat {
namespace {

constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// \r\n and \r are line ends as \n is; one line end at the very end is dropped.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) LexText();
    Add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  struct Opening {
    std::size_t at = std::string_view::npos;
    char kind = 0;  // '{' output, '%' block, '#' comment
    char sign = 0;  // '-', '+' or 0
    bool is_raw = false;
    std::size_t end = 0;  // behind the opening and its sign; of {% raw %}: behind the whole tag
  };

  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool StartsWith(std::string_view text) const { return Rest().substr(0, text.size()) == text; }

  [[noreturn]] void FailHere(std::string message) const {
    throw TemplateError{ErrorCode::kInvalidArgument, line_, std::move(message)};
  }

  Token& Add(TokenKind kind, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  void Skip(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) line_ += source_[at_ + i] == '\n';
    at_ += count;
  }

  void SkipSpace() {
    while (at_ < source_.size()) {
      std::size_t next = at_;
      if (!IsSpace(DecodeAt(source_, next))) break;
      Skip(next - at_);
    }
  }

  // The sign and raw-ness of an opening at `at`.
  Opening ReadOpening(std::size_t at) const {
    Opening opening;
    opening.at = at;
    opening.kind = source_[at + 1];
    opening.end = at + 2;
    const char sign = opening.end < source_.size() ? source_[opening.end] : '\0';
    if (sign == '-' || sign == '+') {
      opening.sign = sign;
      ++opening.end;
    }
    if (opening.kind == '%') {
      if (const std::size_t raw_end = TagEnd(opening.end, "raw");
          raw_end != std::string_view::npos) {
        opening.is_raw = true;
        opening.end = raw_end;
      }
    }
    return opening;
  }

  // Behind `name %}` or `name -%}` at `at`, white space around the name allowed; npos if something
  // else stands there.
  std::size_t TagEnd(std::size_t at, std::string_view name) const {
    const auto skip_space = [&] {
      while (at < source_.size()) {
        std::size_t next = at;
        if (!IsSpace(DecodeAt(source_, next))) break;
        at = next;
      }
    };
    const std::string_view source = source_;
    skip_space();
    if (source.substr(at, name.size()) != name) return std::string_view::npos;
    at += name.size();
    skip_space();
    if (source.substr(at, 2) == "%}") return at + 2;
    if (source.substr(at, 3) != "-%}") return std::string_view::npos;
    at += 3;
    skip_space();
    return at;
  }

  Opening FindOpening() const {
    for (std::size_t at = source_.find('{', at_);
         at != std::string::npos && at + 1 < source_.size(); at = source_.find('{', at + 1)) {
      const char kind = source_[at + 1];
      if (kind == '{' || kind == '%' || kind == '#') return ReadOpening(at);
    }
    return {};
  }

  // What stays of the text before an opening.
  std::string_view TrimBefore(std::string_view text, const Opening& opening) const {
    if (opening.sign == '-') return Strip(text, std::nullopt, {false, true});
    if (opening.sign == '+' || opening.kind == '{') return text;
    const std::size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return text;
    const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    return Strip(text.substr(line_start)).empty() ? text.substr(0, line_start) : text;
  }

  // Text up to the next opening, and what that opens.
  void LexText() {
    const Opening opening = FindOpening();
    if (opening.at == std::string_view::npos) {
      Add(TokenKind::kText, std::string(Rest()));
      Skip(source_.size() - at_);
      return;
    }
    const std::string_view text = std::string_view(source_).substr(at_, opening.at - at_);
    if (const std::string_view kept = TrimBefore(text, opening); !kept.empty())
      Add(TokenKind::kText, std::string(kept));
    Skip(opening.end - at_);
    if (opening.is_raw) return LexRaw();
    if (opening.kind == '#') return LexComment();
    const bool is_block = opening.kind == '%';
    Add(is_block ? TokenKind::kBlockBegin : TokenKind::kOutputBegin);
    LexCode(is_block);
  }

  // Behind a closing: what white space control takes away. trims: trim_blocks applies to it.
  void TrimAfter(char sign, bool trims) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && trims && StartsWith("\n")) {
      Skip(1);
    }
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void LexComment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) FailHere("a comment is not closed: '#}' is missing");
    const char before = end > at_ ? source_[end - 1] : '\0';
    Skip(end + 2 - at_);
    TrimAfter(before, true);
  }

  void LexRaw() {
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
    for (std::size_t at = source_.find("{%", at_); at != std::string::npos;
         at = source_.find("{%", at + 1)) {
      Opening closing;
      closing.kind = '%';
      std::size_t name_at = at + 2;
      if (name_at < source_.size() && (source_[name_at] == '-' || source_[name_at] == '+'))
        closing.sign = source_[name_at++];
      std::size_t end = RawCloseEnd(name_at);
      if (end == std::string_view::npos) continue;
      const std::string_view text = std::string_view(source_).substr(at_, at - at_);
      if (const std::string_view kept = TrimBefore(text, closing); !kept.empty())
        Add(TokenKind::kText, std::string(kept));
      const char sign = source_[end - 3];
      Skip(end - at_);
      return TrimAfter(sign, true);
    }
    FailHere("a raw block is not closed: '{% endraw %}' is missing");
  }

  // Behind "endraw %}", whatever its sign; npos if something else stands at `at`.
  std::size_t RawCloseEnd(std::size_t at) const {
    const std::string_view source = source_;
    const auto skip_space = [&] {
      while (at < source.size()) {
        std::size_t next = at;
        if (!IsSpace(DecodeAt(source, next))) break;
        at = next;
      }
    };
    skip_space();
    if (source.substr(at, 6) != "endraw") return std::string_view::npos;
    at += 6;
    skip_space();
    if (source.substr(at, 1) == "-" || source.substr(at, 1) == "+") ++at;
    return source.substr(at, 2) == "%}" ? at + 2 : std::string_view::npos;
  }

  // The inside of {% %} or {{ }}, up to and with its end.
  void LexCode(bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}";
    std::string open_brackets;
    while (true) {
      SkipSpace();
      if (at_ >= source_.size())
        FailHere(fmt::format("'{}' is missing before the end of the template", close));
      if (open_brackets.empty()) {
        const char sign = source_[at_];
        const bool signed_end =
            (sign == '-' || (sign == '+' && is_block)) && Rest().substr(1, 2) == close;
        if (signed_end || StartsWith(close)) {
          Add(is_block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd);
          Skip(signed_end ? 3 : 2);
          return TrimAfter(signed_end ? sign : '\0', is_block);
        }
      }
      LexToken(open_brackets);
    }
  }

  void LexToken(std::string& open_brackets) {
    const char c = source_[at_];
    if (IsDigit(c)) return LexNumber();
    if (IsNameStart(c)) return LexName();
    if (c == '\'' || c == '"') return LexString();
    for (const std::string_view op : kOperators) {
      if (!StartsWith(op)) continue;
      if (op == "(" || op == "[" || op == "{")
        open_brackets += op == "(" ? ')' : op == "[" ? ']' : '}';
      if (op == ")" || op == "]" || op == "}") {
        if (open_brackets.empty()) FailHere(fmt::format("unexpected '{}'", op));
        if (open_brackets.back() != op[0])
          FailHere(fmt::format("unexpected '{}', expected '{}'", op, open_brackets.back()));
        open_brackets.pop_back();
      }
      Add(TokenKind::kOperator, std::string(op));
      return Skip(op.size());
    }
    FailHere(fmt::format("unexpected character '{}'", Characters(Rest().substr(0, 1))[0]));
  }

  void LexName() {
    std::size_t end = at_;
    while (end < source_.size() && IsNamePart(source_[end])) ++end;
    Add(TokenKind::kName, source_.substr(at_, end - at_));
    Skip(end - at_);
  }

  // Digits with single underscores between them, from `at`; the place behind them.
  std::size_t DigitsEnd(std::size_t at) const {
    const auto digit = [&](std::size_t i) { return i < source_.size() && IsDigit(source_[i]); };
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
    return at;
  }

  void LexNumber() {
    const auto digit = [&](std::size_t i) { return i < source_.size() && IsDigit(source_[i]); };
    if (source_[at_] == '0' && at_ + 1 < source_.size() &&
        std::string_view("xXoObB").find(source_[at_ + 1]) != std::string_view::npos) {
      return LexBasedInteger();
    }
    std::size_t end = DigitsEnd(at_);
    const bool after_dot =
        at_ > 0 && source_[at_ - 1] == '.';  // x.1.2 counts elements, it holds no float
    bool is_float = false;
    if (!after_dot) {
      if (end < source_.size() && source_[end] == '.' && digit(end + 1)) {
        is_float = true;
        end = DigitsEnd(end + 1);
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        std::size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
          ++exponent;
        if (digit(exponent)) {
          is_float = true;
          end = DigitsEnd(exponent);
        }
      }
    }
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    if (is_float) {
      Token& token = Add(TokenKind::kFloat, digits);
      const auto result =
          std::from_chars(digits.data(), digits.data() + digits.size(), token.number);
      if (result.ec != std::errc()) FailHere(fmt::format("the number {} is out of range", digits));
    } else {
      AddInteger(digits, 10);
    }
    Skip(end - at_);
  }

  void LexBasedInteger() {
    const char letter = static_cast<char>(source_[at_ + 1] | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    std::size_t end = at_ + 2;
    while (end < source_.size() && (IsNamePart(source_[end]))) ++end;
    std::string digits = source_.substr(at_ + 2, end - at_ - 2);
    std::erase(digits, '_');
    AddInteger(digits, base);
    Skip(end - at_);
  }

  void AddInteger(const std::string& digits, int base) {
    Token& token = Add(TokenKind::kInteger, digits);
    const auto result =
        std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
      FailHere(fmt::format("'{}' is no integer of 64 bits", digits));
    }
  }

  void LexString() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) FailHere("a string is not closed");
    Add(TokenKind::kString, Unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    Skip(end + 1 - at_);
  }

  // The escapes of Python's string literals.
  std::string Unescape(std::string_view text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] != '\\') {
        out += text[i++];
        continue;
      }
      const char c = text[i + 1];  // LexString saw a character behind every backslash
      i += 2;
      switch (c) {
        case '\n':
          break;
        case '\\':
        case '\'':
        case '"':
          out += c;
          break;
        case 'a':
          out += '\a';
          break;
        case 'b':
          out += '\b';
          break;
        case 'f':
          out += '\f';
          break;
        case 'n':
          out += '\n';
          break;
        case 'r':
          out += '\r';
          break;
        case 't':
          out += '\t';
          break;
        case 'v':
          out += '\v';
          break;
        case 'x':
          i += AppendEscape(text.substr(i), 2, out);
          break;
        case 'u':
          i += AppendEscape(text.substr(i), 4, out);
          break;
        case 'U':
          i += AppendEscape(text.substr(i), 8, out);
          break;
        case 'N':
          FailHere("the escape \\N{...} is not supported; write the character itself");
        default:
          if (c >= '0' && c <= '7') {
            std::uint32_t value = 0;
            std::size_t count = 0;
            for (--i; count < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7';
                 ++i, ++count) {
              value = value * 8 + static_cast<std::uint32_t>(text[i] - '0');
            }
            AppendUtf8(value, out);
          } else {
            out += '\\';
            out += c;
          }
      }
    }
    return out;
  }

  std::size_t AppendEscape(std::string_view text, std::size_t num_digits, std::string& out) const {
    std::uint32_t value = 0;
    const std::string_view digits = text.substr(0, num_digits);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const bool is_scalar = value <= 0x10FFFF && (value < 0xD800 || value >= 0xE000);
    if (digits.size() < num_digits || result.ec != std::errc() ||
        result.ptr != digits.data() + num_digits || !is_scalar) {
      FailHere("a \\x, \\u or \\U escape is not a character");
    }
    AppendUtf8(value, out);
    return num_digits;
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // only white space was dropped since the last line end
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) { return Lexer(NormalizeLines(source)).Run(); }

}  // namespace isobit::chat
