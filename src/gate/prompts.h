// The gate's own prompts: varied in length, language and form, each with an invented code word that stands in no other, so that
// foreign text in an answer can be recognised.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isobit::gate {

struct BuiltInPrompt {
  std::string_view code_word;
  std::string_view text;
};

std::span<const BuiltInPrompt> BuiltInPrompts();

// A paragraph of plain words, long enough for every length at which a cache block may end; and what passing neighbours ask, with
// their code words.
std::string_view LongPrompt();
std::span<const BuiltInPrompt> NeighbourPrompts();

struct Prompt {
  std::string label;               // "prompt 3"
  std::string text;                // empty if ids are given
  std::vector<std::int64_t> ids;
  std::string code_word;           // empty for a user's prompts
};

// num_prompts of the built-in ones, beginning at a place that seed chooses, or the first num_prompts of the file: one JSON string or
// list of ids a line. Errors name the field (num_prompts, prompts_file with the line).
Result<std::vector<Prompt>> ChoosePrompts(const std::string& prompts_file, std::int64_t num_prompts, std::uint64_t seed);

}  // namespace isobit::gate
