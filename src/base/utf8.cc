#include "base/utf8.h"

namespace isobit {
namespace {

struct Decoded {
  std::size_t length;  // bytes of the character, or of the maximal invalid part
  bool valid;
  bool truncated;  // invalid only because the text ends here
};

Decoded DecodeOne(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, true, false};
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // allowed range of the second byte
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {1, false, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {i, false, true};
    const unsigned char min = i == 1 ? low : 0x80, max = i == 1 ? high : 0xBF;
    if (byte(i) < min || byte(i) > max) return {i, false, false};
  }
  return {length, true, false};
}

}  // namespace

std::size_t CompleteUtf8Length(std::string_view text) {
  std::size_t start = text.size() > 3 ? text.size() - 3 : 0;
  // Step back to a byte that can begin a character: at most three continuation bytes can be pending.
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  while (start < text.size()) {
    const Decoded one = DecodeOne(text.substr(start));
    if (one.truncated) return start;
    start += one.length;
  }
  return text.size();
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded one = DecodeOne(text);
    if (one.valid) out += text.substr(0, one.length);
    else out += "\xEF\xBF\xBD";
    text.remove_prefix(one.length);
  }
  return out;
}

bool IsValidUtf8(std::string_view text) { return ValidUtf8Length(text) == text.size(); }

std::size_t ValidUtf8Length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const Decoded one = DecodeOne(text.substr(length));
    if (!one.valid) break;
    length += one.length;
  }
  return length;
}

std::size_t CountCodePoints(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

void AppendUtf8(std::uint32_t code_point, std::string& out) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 63));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 63));
    put(0x80 | (code_point & 63));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 63));
    put(0x80 | (code_point >> 6 & 63));
    put(0x80 | (code_point & 63));
  }
}

}  // namespace isobit
