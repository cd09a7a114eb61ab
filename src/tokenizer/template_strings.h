// The string operations of Python that templates call, over UTF-8, counted in code points. Inputs
// are valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::chat {

// The code point at byte i; moves i behind it.
std::uint32_t DecodeAt(std::string_view text, std::size_t& i);

bool IsSpace(
    std::uint32_t code_point);  // str.isspace of one character; also what strip and split take away
bool IsPrintable(std::uint32_t code_point);  // str.isprintable
bool IsAlpha(std::uint32_t code_point);
bool IsDecimal(std::uint32_t code_point);
bool IsAlphanumeric(std::uint32_t code_point);
bool IsLower(std::uint32_t code_point);
bool IsUpper(std::uint32_t code_point);

std::int64_t Length(std::string_view text);
std::vector<std::string_view> Characters(std::string_view text);

struct StripEnds {
  bool left = true, right = true;
};
// chars: strip these characters; nullopt: white space.
std::string_view Strip(std::string_view text, std::optional<std::string_view> chars = std::nullopt,
                       StripEnds ends = {});

// str.split: without a separator at runs of white space. max_splits < 0: no limit. The separator
// must not be empty.
std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    std::int64_t max_splits);
std::vector<std::string_view> SplitFromRight(std::string_view text,
                                             std::optional<std::string_view> separator,
                                             std::int64_t max_splits);
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string Capitalize(std::string_view text);
std::string TitleCase(std::string_view text);  // str.title
std::string SwapCase(std::string_view text);

// max_count < 0: all. An empty `from` matches between all characters.
std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t max_count);
// The length in bytes of what Replace would give.
std::size_t ReplacedSize(std::string_view text, std::string_view from, std::string_view to,
                         std::int64_t max_count);
std::int64_t CountOf(std::string_view text, std::string_view part);  // without overlap

}  // namespace isobit::chat
