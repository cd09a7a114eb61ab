#include "base/utf8.h"

#include <gtest/gtest.h>

namespace isobit {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

TEST(Utf8, CompleteLengthHoldsBackOnlyWhatMayStillBecomeACharacter) {
  EXPECT_EQ(CompleteUtf8Length(""), 0u);
  EXPECT_EQ(CompleteUtf8Length("ab\xF0\x9F"), 2u);
  EXPECT_EQ(CompleteUtf8Length("ab\xF0\x9F\x98"), 2u);
  EXPECT_EQ(CompleteUtf8Length("ab\xF0\x9F\x98\x80"), 6u);
  EXPECT_EQ(CompleteUtf8Length("ab\xFF"), 3u);
  EXPECT_EQ(CompleteUtf8Length("\xC3"), 0u);
  EXPECT_EQ(CompleteUtf8Length("\xE0\x80"), 2u);       // can never be completed: overlong
  EXPECT_EQ(CompleteUtf8Length("\xED\xA0"), 2u);       // a surrogate
  EXPECT_EQ(CompleteUtf8Length("\x80\x80\x80\x80"), 4u);
}

// The values are Python's bytes.decode("utf-8", errors="replace").
TEST(Utf8, ReplacesMaximalInvalidParts) {
  EXPECT_EQ(ReplaceInvalidUtf8("a\xF0\x9F" "b"), "a" + kReplacement + "b");
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\xAF"), kReplacement + kReplacement);
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), kReplacement + kReplacement + kReplacement);
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\x98\x80!"), "\xF0\x9F\x98\x80!");
  EXPECT_EQ(ReplaceInvalidUtf8("\xE2\x82"), kReplacement);
}

TEST(Utf8, ValidityCountAndAppend) {
  std::string text;
  for (const std::uint32_t code_point : {0x41u, 0xE9u, 0x20ACu, 0x1F600u}) AppendUtf8(code_point, text);
  EXPECT_EQ(text, "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_TRUE(IsValidUtf8(text));
  EXPECT_FALSE(IsValidUtf8(text.substr(0, text.size() - 1)));
  EXPECT_FALSE(IsValidUtf8("\xF4\x90\x80\x80"));
  EXPECT_EQ(CountCodePoints(text), 4u);
}

}  // namespace
}  // namespace isobit
