#include "tokenizer/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace isobit {
namespace {

constexpr std::uint32_t kNumLetters = 0x144;  // 0x100 + the 68 bytes that are not printable
constexpr std::int16_t kNoByte = -1;

constexpr bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::uint16_t, 256> letter{};
  std::array<std::int16_t, kNumLetters> byte{};

  constexpr Alphabet() {
    for (std::int16_t& entry : byte) entry = kNoByte;
    std::uint16_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      letter[b] = IsPrintable(b) ? static_cast<std::uint16_t>(b) : next++;
      byte[letter[b]] = static_cast<std::int16_t>(b);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::uint32_t ByteLetter(std::uint8_t byte) { return kAlphabet.letter[byte]; }

std::optional<std::string> BytesFromLetters(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::uint8_t first = static_cast<std::uint8_t>(text[i++]);
    std::uint32_t letter = first;
    if (first >= 0x80) {  // every letter has at most two bytes
      if (first < 0xC2 || first > 0xDF || i == text.size()) return std::nullopt;
      const std::uint8_t second = static_cast<std::uint8_t>(text[i++]);
      if ((second & 0xC0) != 0x80) return std::nullopt;
      letter = (first & 0x1Fu) << 6 | (second & 0x3Fu);
    }
    if (letter >= kNumLetters || kAlphabet.byte[letter] == kNoByte) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte[letter]);
  }
  return bytes;
}

std::string LettersFromBytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) AppendUtf8(ByteLetter(static_cast<std::uint8_t>(c)), text);
  return text;
}

}  // namespace isobit
