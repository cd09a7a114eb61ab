#include "tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace isobit {
namespace {

TEST(ByteAlphabet, NamesBytesAsGpt2Does) {
  EXPECT_EQ(ByteLetter('A'), 'A');
  EXPECT_EQ(ByteLetter(' '), 0x120u);   // Ġ
  EXPECT_EQ(ByteLetter('\n'), 0x10Au);  // Ċ
  EXPECT_EQ(ByteLetter(0), 0x100u);
  EXPECT_EQ(ByteLetter(0x7F), 0x121u);
  EXPECT_EQ(ByteLetter(0xA0), 0x142u);
  EXPECT_EQ(ByteLetter(0xAD), 0x143u);  // the last one
  EXPECT_EQ(ByteLetter(0xFF), 0xFFu);
}

TEST(ByteAlphabet, EveryByteHasItsOwnLetterAndComesBack) {
  std::set<std::uint32_t> letters;
  std::string all;
  for (int b = 0; b < 256; ++b) {
    letters.insert(ByteLetter(static_cast<std::uint8_t>(b)));
    all += static_cast<char>(b);
  }
  EXPECT_EQ(letters.size(), 256u);
  EXPECT_EQ(BytesFromLetters(LettersFromBytes(all)), all);
}

TEST(ByteAlphabet, RefusesWhatIsNoLetter) {
  EXPECT_EQ(BytesFromLetters("Ġhé"), std::string(" h\xE9"));
  EXPECT_EQ(BytesFromLetters("a b"), std::nullopt);  // a plain space is no letter
  EXPECT_EQ(BytesFromLetters("日"), std::nullopt);
  EXPECT_EQ(BytesFromLetters("\xC5\x84"), std::nullopt);  // U+0144, one behind the last letter
  EXPECT_EQ(BytesFromLetters("\xC4"), std::nullopt);      // cut off
  EXPECT_EQ(BytesFromLetters("\xC4z"), std::nullopt);
  EXPECT_EQ(BytesFromLetters(""), "");
}

}  // namespace
}  // namespace isobit
