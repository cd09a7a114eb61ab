// The byte alphabet of GPT-2: one printable character for each of the 256 bytes, the letters in
// which byte-level vocabularies are written. Printable Latin-1 bytes stand for themselves; the 68
// others, in ascending order, are U+0100, U+0101, ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isobit {

std::uint32_t ByteLetter(std::uint8_t byte);  // code point, below U+0144

// The bytes that text spells in the alphabet; nullopt if a character of it is no letter of the
// alphabet.
std::optional<std::string> BytesFromLetters(std::string_view text);

// The spelling of bytes in the alphabet: valid UTF-8 for any bytes.
std::string LettersFromBytes(std::string_view bytes);

}  // namespace isobit
