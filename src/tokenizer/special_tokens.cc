#include "tokenizer/special_tokens.h"

#include <algorithm>

namespace isobit {

SpecialTokens::SpecialTokens(std::vector<std::pair<std::string, std::int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& token) { return token.first.empty(); });
  std::sort(tokens_.begin(), tokens_.end());
  for (const auto& [text, _] : tokens_) can_begin_[static_cast<std::uint8_t>(text[0])] = true;
}

std::optional<SpecialTokens::Match> SpecialTokens::FindNext(std::string_view text,
                                                            std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!can_begin_[static_cast<std::uint8_t>(text[begin])]) continue;
    if (const auto match = LongestAt(text, begin)) return match;
  }
  return std::nullopt;
}

// The sorted list is walked like a trie: each byte of the text narrows the range of tokens that
// still agree with it, so a text full of beginnings of many tokens costs no more than the length of
// the longest token per byte.
std::optional<SpecialTokens::Match> SpecialTokens::LongestAt(std::string_view text,
                                                             std::size_t begin) const {
  std::optional<Match> longest;
  auto low = tokens_.begin();
  auto high = tokens_.end();
  for (std::size_t depth = 0; begin + depth < text.size(); ++depth) {
    const auto byte = static_cast<std::uint8_t>(text[begin + depth]);
    const auto byte_of =
        [depth](const auto& token) {  // -1: the token ends here, before all longer ones
          return token.first.size() <= depth ? -1 : static_cast<std::uint8_t>(token.first[depth]);
        };
    low = std::partition_point(low, high, [&](const auto& token) { return byte_of(token) < byte; });
    high =
        std::partition_point(low, high, [&](const auto& token) { return byte_of(token) <= byte; });
    if (low == high) break;
    if (low->first.size() == depth + 1) longest = Match{begin, begin + depth + 1, low->second};
  }
  return longest;
}

}  // namespace isobit
