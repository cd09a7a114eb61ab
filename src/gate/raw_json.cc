#include "gate/raw_json.h"

#include <charconv>

#include "base/utf8.h"

namespace isobit::gate {
namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<RawJson> Parse() {
    RawJson value;
    if (!Value(value, 0) || (SkipSpace(), at_ != text_.size())) {
      return Fail(ErrorCode::kInvalidArgument, "response", "is not valid JSON at byte {} of {}", at_, text_.size());
    }
    return value;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool Word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool Value(RawJson& value, int depth) {
    SkipSpace();
    if (at_ >= text_.size() || depth > kMaxDepth) return false;
    switch (text_[at_]) {
      case '{': return Object(value, depth);
      case '[': return Array(value, depth);
      case '"': value.kind = RawJson::Kind::kString; return String(value.text);
      case 't': value.kind = RawJson::Kind::kBool; value.truth = true; return Word("true");
      case 'f': value.kind = RawJson::Kind::kBool; return Word("false");
      case 'n': return Word("null") || NonFinite(value);
      default: return Number(value) || NonFinite(value);
    }
  }

  bool Object(RawJson& value, int depth) {
    value.kind = RawJson::Kind::kObject;
    ++at_;
    if (Take('}')) return true;
    do {
      SkipSpace();
      if (at_ >= text_.size() || text_[at_] != '"') return false;
      if (!String(value.keys.emplace_back()) || !Take(':') || !Value(value.items.emplace_back(), depth + 1)) return false;
    } while (Take(','));
    return Take('}');
  }

  bool Array(RawJson& value, int depth) {
    value.kind = RawJson::Kind::kArray;
    ++at_;
    if (Take(']')) return true;
    do {
      if (!Value(value.items.emplace_back(), depth + 1)) return false;
    } while (Take(','));
    return Take(']');
  }

  bool Digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  }

  bool Number(RawJson& value) {
    const std::size_t begin = at_;
    if (text_[at_] == '-') ++at_;
    bool good = Digits();
    if (good && at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      good = Digits();
    }
    if (good && at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      good = Digits();
    }
    if (!good) {
      at_ = begin;
      return false;
    }
    value.kind = RawJson::Kind::kNumber;
    value.text = std::string(text_.substr(begin, at_ - begin));
    return true;
  }

  // Python servers write these although JSON has no such numbers; as evidence they are as good as digits.
  bool NonFinite(RawJson& value) {
    for (const std::string_view word : {"NaN", "nan", "-Infinity", "Infinity"}) {
      if (Word(word)) {
        value.kind = RawJson::Kind::kNumber;
        value.text = std::string(word);
        return true;
      }
    }
    return false;
  }

  bool Hex4(std::uint32_t& unit) {
    if (at_ + 4 > text_.size()) return false;
    const char* begin = text_.data() + at_;
    const auto result = std::from_chars(begin, begin + 4, unit, 16);
    if (result.ptr != begin + 4) return false;
    at_ += 4;
    return true;
  }

  bool UnicodeEscape(std::string& out) {
    std::uint32_t unit = 0;
    if (!Hex4(unit)) return false;
    if (unit >= 0xD800 && unit < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      const std::size_t before = at_;
      std::uint32_t low = 0;
      at_ += 2;
      if (!Hex4(low)) return false;
      if (low >= 0xDC00 && low < 0xE000) {
        AppendUtf8(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), out);
        return true;
      }
      at_ = before;
    }
    AppendUtf8(unit >= 0xD800 && unit < 0xE000 ? 0xFFFD : unit, out);
    return true;
  }

  bool String(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size()) return false;
      switch (text_[at_++]) {
        case '"': out += '"'; break;
        case '\\': out += '\\'; break;
        case '/': out += '/'; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'n': out += '\n'; break;
        case 'r': out += '\r'; break;
        case 't': out += '\t'; break;
        case 'u':
          if (!UnicodeEscape(out)) return false;
          break;
        default: return false;
      }
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const RawJson* RawJson::Find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

std::string RawJson::StringAt(std::string_view key) const {
  const RawJson* member = Find(key);
  return member != nullptr && member->is_string() ? member->text : std::string();
}

std::optional<std::int64_t> RawJson::Integer() const {
  if (kind != Kind::kNumber || text.size() > 19) return std::nullopt;
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<RawJson> ParseRawJson(std::string_view text) { return Parser(text).Parse(); }

}  // namespace isobit::gate
