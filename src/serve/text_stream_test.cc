#include "serve/text_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "serve/test_support.h"

namespace isobit {
namespace {

using serve_test::Bytes;
using serve_test::kEos;
using serve_test::kHell;
using serve_test::kLlo;

std::string Shown(const std::vector<std::int32_t>& ids, TextStreamOptions options, std::string* stop = nullptr, std::size_t* used = nullptr) {
  TextStream stream(serve_test::MakeTokenizer(), std::move(options));
  std::string text;
  std::size_t count = 0;
  for (const std::int32_t id : ids) {
    text += stream.Append(id);
    ++count;
    if (stream.stopped()) break;
  }
  text += stream.Finish();
  if (stop) *stop = stream.stopped() ? stream.stop_string() : "";
  if (used) *used = count;
  return text;
}

TEST(TextStream, CutsExactlyAtAStopStringOverSeveralTokens) {
  std::string stop;
  std::size_t used = 0;
  EXPECT_EQ(Shown(Bytes("alpha beta gamma delta"), {.stops = {"beta gamma"}}, &stop, &used), "alpha ");
  EXPECT_EQ(stop, "beta gamma");
  EXPECT_EQ(used, 16u);  // up to the token that completed it
  EXPECT_EQ(Shown(Bytes("the brown fox"), {.stops = {"own fox"}}), "the br");
  EXPECT_EQ(Shown({kHell, 'o', '!'}, {.stops = {"llo"}}), "he");
  EXPECT_EQ(Shown({kHell, 'o', '!'}, {.include_stop = true, .stops = {"llo"}}), "hello");
}

TEST(TextStream, DeliversHeldTextAtTheEnd) {
  EXPECT_EQ(Shown(Bytes("answer: beta gam"), {.stops = {"beta gamma"}}), "answer: beta gam");
  TextStream stream(serve_test::MakeTokenizer(), {.stops = {"ab"}});
  EXPECT_EQ(stream.Append('x'), "x");
  EXPECT_EQ(stream.Append('a'), "");
  EXPECT_EQ(stream.Append('a'), "a");
  EXPECT_EQ(stream.Finish(), "a");
}

TEST(TextStream, FirstCompletedStringWinsAndTheLongestOfThose) {
  std::string stop;
  EXPECT_EQ(Shown(Bytes("xabcd"), {.stops = {"abcd", "bc"}}, &stop), "xa");
  EXPECT_EQ(stop, "bc");
  EXPECT_EQ(Shown(Bytes("xabcd"), {.stops = {"bc", "abc"}}, &stop), "x");
  EXPECT_EQ(stop, "abc");
}

TEST(TextStream, NeverSplitsACharacter) {
  TextStream stream(serve_test::MakeTokenizer(), {});
  const std::string euro = "\xE2\x82\xAC";
  EXPECT_EQ(stream.Append(0xE2), "");
  EXPECT_EQ(stream.Append(0x82), "");
  EXPECT_EQ(stream.num_code_points(), 0);
  EXPECT_EQ(stream.Append(0xAC), euro);
  EXPECT_EQ(stream.num_code_points(), 1);
  EXPECT_EQ(stream.Append(0xE2), "");
  EXPECT_EQ(stream.Finish(), "\xEF\xBF\xBD");  // S03: what never completes shows as a replacement
  EXPECT_EQ(Shown({0xF0, 0x9F, 'a', 0xC0, 0xAF, 0xED, 0xA0, 0x80}, {}), ReplaceInvalidUtf8("\xF0\x9F" "a\xC0\xAF\xED\xA0\x80"));
  EXPECT_EQ(Shown(Bytes("caf\xC3\xA9!"), {.stops = {"\xC3\xA9"}}), "caf");
}

TEST(TextStream, MinTokensMakesEarlyStopStringsOrdinaryText) {
  std::size_t used = 0;
  EXPECT_EQ(Shown(Bytes("a.b.c.d"), {.stops = {"."}, .min_tokens = 2}, nullptr, &used), "a.b");
  EXPECT_EQ(used, 4u);
  EXPECT_EQ(Shown(Bytes("a.b"), {.stops = {"."}, .min_tokens = 1}), "a");
}

TEST(TextStream, SkipsControlTokensOnlyIfAsked) {
  EXPECT_EQ(Shown({'a', kEos, 'b'}, {}), "ab");
  EXPECT_EQ(Shown({'a', kEos, 'b'}, {.skip_special = false}), "a<|im_end|>b");
  EXPECT_EQ(Shown({'a', kEos, 'b'}, {.skip_special = false, .stops = {"im_end"}}), "a<|");
}

// The definition, without cleverness: of all ends at which a string is complete the first, of those strings the longest.
std::string Naive(const std::string& text, const std::vector<std::string>& stops, bool include, std::string* stop) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    stop->clear();
    for (const std::string& candidate : stops) {
      if (candidate.size() <= end && text.compare(end - candidate.size(), candidate.size(), candidate) == 0 && candidate.size() > stop->size()) {
        *stop = candidate;
      }
    }
    if (!stop->empty()) return text.substr(0, include ? end : end - stop->size());
  }
  return text;
}

TEST(TextStream, AnyCutIntoTokensGivesTheNaiveAnswer) {
  // Tokens: every text of one to three letters of a small alphabet that contains a two-byte character.
  const std::vector<std::string> letters = {"a", "b", "\xC3\xA9"};
  TokenizerSpec spec;
  spec.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(LettersFromBytes(std::string(1, static_cast<char>(byte))));
  std::vector<std::string> pieces;
  for (const auto& x : letters) {
    for (const auto& y : letters) {
      pieces.push_back(x + y);
      for (const auto& z : letters) pieces.push_back(x + y + z);
    }
  }
  for (const auto& piece : pieces) spec.tokens.push_back(LettersFromBytes(piece));
  const auto tokenizer = *Tokenizer::Create(spec);

  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int num_stopped = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t i = below(4); i > 0; --i) {
      std::string stop;
      for (std::size_t k = 1 + below(5); k > 0; --k) stop += letters[below(letters.size())];
      stops.push_back(stop);
    }
    std::vector<std::int32_t> ids;
    std::string all;
    for (std::size_t i = below(12); i > 0; --i) {
      const bool byte = below(3) == 0;
      const auto id = byte ? static_cast<std::int32_t>(static_cast<unsigned char>("ab\xC3\xA9"[below(4)]))
                           : static_cast<std::int32_t>(256 + below(pieces.size()));
      ids.push_back(id);
      all += tokenizer->TokenBytes(id);
    }
    const bool include = below(2) == 0;
    std::string want_stop, text;
    const std::string want = Naive(ReplaceInvalidUtf8(all), stops, include, &want_stop);
    TextStream stream(tokenizer, {.include_stop = include, .stops = stops});
    for (const std::int32_t id : ids) {
      text += stream.Append(id);
      ASSERT_TRUE(IsValidUtf8(text)) << "round " << round;
      ASSERT_EQ(want.compare(0, text.size(), text), 0) << "round " << round << ": \"" << text << "\" is no start of \"" << want << "\"";
      if (stream.stopped()) break;
    }
    text += stream.Finish();
    ASSERT_EQ(text, want) << "round " << round;
    ASSERT_EQ(stream.stopped() ? stream.stop_string() : "", want_stop) << "round " << round;
    num_stopped += stream.stopped();
  }
  EXPECT_GT(num_stopped, 1000);
}

}  // namespace
}  // namespace isobit
