#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace isobit {
namespace {

std::vector<std::string> Cut(std::string_view name, std::string_view text) {
  const auto pre = PreTokenizer::Create(name);
  std::vector<std::string_view> pieces;
  pre->Split(text, pieces);
  return {pieces.begin(), pieces.end()};
}

using Pieces = std::vector<std::string>;

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(Cut("gpt-2", "Hello world's 12345  x\n\n y"),
            (Pieces{"Hello", " world", "'s", " 12345", " ", " x", "\n\n", " y"}));
  EXPECT_EQ(Cut("gpt-2", "I'LL  "), (Pieces{"I", "'", "LL", "  "}));
}

TEST(PreTokenizer, SmolLmTakesDigitsOneByOneAndEndsSpaceBeforeThem) {
  EXPECT_EQ(Cut("smollm", "a 12  3  b"), (Pieces{"a", " ", "1", "2", "  ", "3", " ", " b"}));
}

TEST(PreTokenizer, LlamaAndQwen) {
  EXPECT_EQ(Cut("llama-bpe", "x=12345;\n\nI'LL (go)"),
            (Pieces{"x", "=", "123", "45", ";\n\n", "I", "'LL", " (", "go", ")"}));
  EXPECT_EQ(Cut("qwen2", "v 123\n  z"), (Pieces{"v", " ", "1", "2", "3", "\n", " ", " z"}));
  EXPECT_EQ(Cut("llama3", "'re"), Cut("llama-bpe", "'re"));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodesNotPcres) {
  // U+180E has not been white space since Unicode 6.3; U+0085 and U+3000 are.
  EXPECT_EQ(Cut("gpt-2", "a\u180E\u180Eb"), (Pieces{"a", "\u180E\u180E", "b"}));
  EXPECT_EQ(Cut("gpt-2", "a \u0085\u3000b"), (Pieces{"a", " \u0085", "\u3000", "b"}));
}

TEST(PreTokenizer, InvalidBytesArePiecesOfTheirOwn) {
  EXPECT_EQ(Cut("gpt-2", "ab\xFF\xFE cd\xE2\x82"),
            (Pieces{"ab", "\xFF", "\xFE", " cd", "\xE2", "\x82"}));
  EXPECT_EQ(Cut("smollm", "  \xC0x"),
            (Pieces{"  ", "\xC0", "x"}));  // space before an invalid byte ends its stretch
}

TEST(PreTokenizer, PiecesJoinToTheText) {
  std::string every;  // every code point once, in order, and cut between characters only
  for (std::uint32_t c = 1; c < 0x110000; ++c) {
    if (c < 0xD800 || c >= 0xE000) AppendUtf8(c, every);
  }
  for (const char* name : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    std::string joined;
    for (const std::string& piece : Cut(name, every)) {
      ASSERT_TRUE(IsValidUtf8(piece));
      joined += piece;
    }
    EXPECT_EQ(joined, every) << name;
  }
}

TEST(PreTokenizer, LongRunsAreNoProblem) {
  for (const char* name : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    EXPECT_EQ(Cut(name, std::string(1 << 20, ' ')).size(), 1u) << name;
    EXPECT_EQ(Cut(name, std::string(1 << 20, 'a')).size(), 1u) << name;
    EXPECT_EQ(Cut(name, std::string(1 << 20, ' ') + "b").size(), 2u) << name;
  }
}

TEST(PreTokenizer, UnknownNamesAreRefused) {
  for (const char* name : {"", "default", "gpt2", "nonsense"}) {
    const auto pre = PreTokenizer::Create(name);
    ASSERT_FALSE(pre.ok()) << name;
    EXPECT_EQ(pre.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(pre.error().field, "tokenizer.ggml.pre");
    EXPECT_NE(pre.error().message.find("smollm"), std::string::npos) << "says what is known";
  }
}

TEST(PreTokenizer, UnicodeVersionHasThreeNumbers) {
  EXPECT_EQ(PreTokenizer::UnicodeVersion().find_first_not_of("0123456789."), std::string::npos);
  EXPECT_GE(PreTokenizer::UnicodeVersion(), "14");
}

}  // namespace
}  // namespace isobit
