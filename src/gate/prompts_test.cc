#include "gate/prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/utf8.h"

namespace isobit::gate {
namespace {

TEST(Prompts, EveryCodeWordStandsInItsOwnPromptOnly) {
  std::vector<BuiltInPrompt> all(BuiltInPrompts().begin(), BuiltInPrompts().end());
  all.insert(all.end(), NeighbourPrompts().begin(), NeighbourPrompts().end());
  for (const BuiltInPrompt& owner : all) {
    EXPECT_GE(owner.code_word.size(), 7u);
    for (const BuiltInPrompt& prompt : all) {
      // In whatever case, because a model may capitalise.
      const auto lower = [](std::string_view text) {
        std::string out(text);
        std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
        return out;
      };
      const bool holds = lower(prompt.text).find(lower(owner.code_word)) != std::string::npos;
      EXPECT_EQ(holds, owner.code_word == prompt.code_word) << owner.code_word << " in: " << prompt.text;
    }
    EXPECT_EQ(LongPrompt().find(owner.code_word), std::string_view::npos);
  }
}

TEST(Prompts, LengthsVaryFromAFewWordsToAPage) {
  std::size_t shortest = 10000, longest = 0;
  for (const BuiltInPrompt& prompt : BuiltInPrompts()) {
    EXPECT_TRUE(IsValidUtf8(prompt.text));
    shortest = std::min(shortest, prompt.text.size());
    longest = std::max(longest, prompt.text.size());
  }
  EXPECT_GE(BuiltInPrompts().size(), 16u);
  EXPECT_LT(shortest, 60u);
  EXPECT_GT(longest, 1200u);
  EXPECT_GT(LongPrompt().size(), 600u);
}

TEST(Prompts, SeedChoosesWhereToBegin) {
  const auto first = ChoosePrompts("", 3, 1), second = ChoosePrompts("", 3, 2);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)[1].text, (*second)[0].text);
  EXPECT_EQ(ChoosePrompts("", 16, 1)->size(), 16u);
}

}  // namespace
}  // namespace isobit::gate
