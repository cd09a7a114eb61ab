// UTF-8: where characters end, and what to show for bytes that are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace isobit {

// Length of the longest prefix of text that does not end inside a character that more bytes could complete. Bytes that can never
// become a character count as complete. "ab\xF0\x9F" -> 2, "ab\xFF" -> 3.
std::size_t CompleteUtf8Length(std::string_view text);

// Every maximal invalid part (Unicode 14, section 3.9, U+FFFD substitution of maximal subparts) becomes one U+FFFD: what Python's
// bytes.decode("utf-8", errors="replace") gives.
std::string ReplaceInvalidUtf8(std::string_view text);

bool IsValidUtf8(std::string_view text);

// Length of the longest prefix of text that is valid UTF-8.
std::size_t ValidUtf8Length(std::string_view text);

// Number of code points of valid UTF-8.
std::size_t CountCodePoints(std::string_view text);

void AppendUtf8(std::uint32_t code_point, std::string& out);

}  // namespace isobit
