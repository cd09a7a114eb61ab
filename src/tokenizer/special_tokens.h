// SpecialTokens: a set of token texts and the search for them inside a text, leftmost first, at one
// place the longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isobit {

class SpecialTokens {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = 0;
  };

  SpecialTokens() = default;
  // (text, id); of equal texts the lowest id counts. Empty texts are left out.
  explicit SpecialTokens(std::vector<std::pair<std::string, std::int32_t>> tokens);

  // The first match that begins at or behind `from`.
  std::optional<Match> FindNext(std::string_view text, std::size_t from) const;

 private:
  std::optional<Match> LongestAt(std::string_view text, std::size_t begin) const;

  std::vector<std::pair<std::string, std::int32_t>> tokens_;  // sorted by text, then id
  bool can_begin_[256] = {};
};

}  // namespace isobit
