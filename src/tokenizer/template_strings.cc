#include "tokenizer/template_strings.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/unicode_case_table.h"

namespace isobit::chat {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// A set of characters by its Unicode properties, from the tables of PCRE2 that the pre-tokenizers
// use too.
class CharacterClass {
 public:
  explicit CharacterClass(const char* expression) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr));
    ISOBIT_CHECK(code_ != nullptr, "PCRE2 error {} at {} of {}", error, offset, expression);
  }

  bool Has(std::uint32_t code_point) const {
    std::string text;
    AppendUtf8(code_point, text);
    const std::unique_ptr<pcre2_match_data, FreeMatchData> data(
        pcre2_match_data_create(1, nullptr));
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                       PCRE2_NO_UTF_CHECK, data.get(), nullptr) > 0;
  }

 private:
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

bool IsAsciiLetter(std::uint32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

bool IsCased(std::uint32_t c) {
  if (c < 0x80) return IsAsciiLetter(c);
  static const CharacterClass cased(R"(\p{Cased})");
  return cased.Has(c);
}

bool IsCaseIgnorable(std::uint32_t c) {
  static const CharacterClass ignorable(R"(\p{Case_Ignorable})");
  return ignorable.Has(c);
}

// Appends the mapping of c and returns true, or returns false if the table leaves c alone.
bool AppendMapped(const CaseTable& table, std::uint32_t c, std::string& out) {
  const auto range =
      std::lower_bound(table.ranges.begin(), table.ranges.end(), c,
                       [](const CaseRange& r, std::uint32_t wanted) { return r.last < wanted; });
  if (range != table.ranges.end() && range->first <= c && (c - range->first) % range->step == 0) {
    AppendUtf8(static_cast<std::uint32_t>(static_cast<std::int64_t>(c) + range->delta), out);
    return true;
  }
  const auto expansion = std::lower_bound(
      table.expansions.begin(), table.expansions.end(), c,
      [](const CaseExpansion& e, std::uint32_t wanted) { return e.code_point < wanted; });
  if (expansion == table.expansions.end() || expansion->code_point != c || c == 0) return false;
  out += expansion->text;
  return true;
}

void AppendUpper(std::uint32_t c, std::string& out) {
  if (!AppendMapped(kUpperTable, c, out)) AppendUtf8(c, out);
}

void AppendTitle(std::uint32_t c, std::string& out) {
  if (!AppendMapped(kTitleTable, c, out)) AppendUpper(c, out);
}

std::size_t PreviousStart(std::string_view text, std::size_t end) {
  do --end;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

constexpr std::uint32_t kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2;

// A capital sigma at the end of a word has its own small letter: some cased letter before it, none
// behind it, characters that case ignores not counted.
bool IsFinalSigma(std::string_view text, std::size_t begin, std::size_t end) {
  bool cased_before = false;
  for (std::size_t i = begin; i > 0;) {
    i = PreviousStart(text, i);
    std::size_t after = i;
    const std::uint32_t c = DecodeAt(text, after);
    if (IsCaseIgnorable(c)) continue;
    cased_before = IsCased(c);
    break;
  }
  if (!cased_before) return false;
  for (std::size_t i = end; i < text.size();) {
    const std::uint32_t c = DecodeAt(text, i);
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

// Appends the small letter of the character at bytes [begin, end) of text.
void AppendLower(std::string_view text, std::size_t begin, std::size_t end, std::uint32_t c,
                 std::string& out) {
  if (c == kCapitalSigma) {
    AppendUtf8(IsFinalSigma(text, begin, end) ? kFinalSigma : kSigma, out);
  } else if (!AppendMapped(kLowerTable, c, out)) {
    AppendUtf8(c, out);
  }
}

bool ContainsCharacter(std::string_view set, std::uint32_t wanted) {
  for (std::size_t i = 0; i < set.size();) {
    if (DecodeAt(set, i) == wanted) return true;
  }
  return false;
}

std::uint32_t LastCharacter(std::string_view text) {
  std::size_t i = PreviousStart(text, text.size());
  return DecodeAt(text, i);
}

std::size_t CharacterSize(std::string_view text, std::size_t i) {
  const std::size_t begin = i;
  DecodeAt(text, i);
  return i - begin;
}

}  // namespace

std::uint32_t DecodeAt(std::string_view text, std::size_t& i) {
  const auto byte = [&](std::size_t k) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[k]));
  };
  const std::uint32_t first = byte(i);
  const std::size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  ISOBIT_CHECK(i + size <= text.size());
  std::uint32_t c = size == 1 ? first : first & (0xFFu >> (size + 1));
  for (std::size_t k = 1; k < size; ++k) c = c << 6 | (byte(i + k) & 0x3F);
  i += size;
  return c;
}

bool IsSpace(std::uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsPrintable(std::uint32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  static const CharacterClass hidden(R"([\p{C}\p{Z}])");
  return !hidden.Has(c);
}

bool IsAlpha(std::uint32_t c) {
  static const CharacterClass letters(R"(\p{L})");
  return letters.Has(c);
}

bool IsDecimal(std::uint32_t c) {
  static const CharacterClass decimals(R"(\p{Nd})");
  return c < 0x80 ? c >= '0' && c <= '9' : decimals.Has(c);
}

bool IsAlphanumeric(std::uint32_t c) {
  static const CharacterClass either(R"([\p{L}\p{N}])");
  return either.Has(c);
}

bool IsLower(std::uint32_t c) {
  static const CharacterClass lower(R"(\p{Lowercase})");
  return lower.Has(c);
}

bool IsUpper(std::uint32_t c) {
  static const CharacterClass upper(R"(\p{Uppercase})");
  return upper.Has(c);
}

std::int64_t Length(std::string_view text) {
  return static_cast<std::int64_t>(CountCodePoints(text));
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = CharacterSize(text, i);
    characters.push_back(text.substr(i, size));
    i += size;
  }
  return characters;
}

std::string_view Strip(std::string_view text, std::optional<std::string_view> chars,
                       StripEnds ends) {
  const auto goes = [&](std::uint32_t c) {
    return chars ? ContainsCharacter(*chars, c) : IsSpace(c);
  };
  while (ends.left && !text.empty()) {
    std::size_t i = 0;
    if (!goes(DecodeAt(text, i))) break;
    text.remove_prefix(i);
  }
  while (ends.right && !text.empty() && goes(LastCharacter(text)))
    text = text.substr(0, PreviousStart(text, text.size()));
  return text;
}

std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  const auto full = [&] {
    return max_splits >= 0 && static_cast<std::int64_t>(parts.size()) >= max_splits;
  };
  if (separator) {
    ISOBIT_CHECK(!separator->empty());
    for (std::size_t at; !full() && (at = text.find(*separator)) != std::string_view::npos;) {
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at + separator->size());
    }
    parts.push_back(text);
    return parts;
  }
  for (text = Strip(text, std::nullopt, {true, false}); !text.empty();
       text = Strip(text, std::nullopt, {true, false})) {
    if (full()) {
      parts.push_back(text);  // white space at its end stays
      break;
    }
    std::size_t end = 0;
    for (std::size_t i = 0; i < text.size(); end = i) {
      if (IsSpace(DecodeAt(text, i))) break;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> SplitFromRight(std::string_view text,
                                             std::optional<std::string_view> separator,
                                             std::int64_t max_splits) {
  std::vector<std::string_view> parts;  // from the right
  const auto full = [&] {
    return max_splits >= 0 && static_cast<std::int64_t>(parts.size()) >= max_splits;
  };
  if (separator) {
    ISOBIT_CHECK(!separator->empty());
    for (std::size_t at; !full() && (at = text.rfind(*separator)) != std::string_view::npos;) {
      parts.push_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    }
    parts.push_back(text);
  } else {
    for (text = Strip(text, std::nullopt, {false, true}); !text.empty();
         text = Strip(text, std::nullopt, {false, true})) {
      if (full()) {
        parts.push_back(text);
        break;
      }
      std::size_t begin = text.size();
      while (begin > 0 && !IsSpace(LastCharacter(text.substr(0, begin))))
        begin = PreviousStart(text, begin);
      parts.push_back(text.substr(begin));
      text = text.substr(0, begin);
    }
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  const auto is_end = [](std::uint32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t line_end = i;
    const std::uint32_t c = DecodeAt(text, i);
    if (!is_end(c)) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(begin, (keep_ends ? i : line_end) - begin));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string ToUpper(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) AppendUpper(DecodeAt(text, i), out);
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const std::uint32_t c = DecodeAt(text, i);
    AppendLower(text, begin, i, c, out);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const std::uint32_t c = DecodeAt(text, i);
    if (begin == 0)
      AppendTitle(c, out);
    else
      AppendLower(text, begin, i, c, out);
  }
  return out;
}

std::string TitleCase(std::string_view text) {
  std::string out;
  bool inside_word = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const std::uint32_t c = DecodeAt(text, i);
    if (inside_word)
      AppendLower(text, begin, i, c, out);
    else
      AppendTitle(c, out);
    inside_word = IsCased(c);
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const std::uint32_t c = DecodeAt(text, i);
    if (IsUpper(c))
      AppendLower(text, begin, i, c, out);
    else if (IsLower(c))
      AppendUpper(c, out);
    else
      AppendUtf8(c, out);
  }
  return out;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t max_count) {
  std::string out;
  std::int64_t count = 0;
  const auto more = [&] { return max_count < 0 || count < max_count; };
  if (from.empty()) {
    for (std::size_t i = 0; i <= text.size();) {
      if (more()) out += to, ++count;
      if (i == text.size()) break;
      const std::size_t size = CharacterSize(text, i);
      out += text.substr(i, size);
      i += size;
    }
    return out;
  }
  for (std::size_t at; more() && (at = text.find(from)) != std::string_view::npos; ++count) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

std::size_t ReplacedSize(std::string_view text, std::string_view from, std::string_view to,
                         std::int64_t max_count) {
  const std::int64_t found = CountOf(text, from);
  const auto count = static_cast<std::size_t>(max_count < 0 ? found : std::min(found, max_count));
  return text.size() - count * from.size() + count * to.size();
}

std::int64_t CountOf(std::string_view text, std::string_view part) {
  if (part.empty()) return Length(text) + 1;
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
    ++count;
  return count;
}

}  // namespace isobit::chat
