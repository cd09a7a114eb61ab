#include "gate/compare.h"

#include <gtest/gtest.h>

namespace isobit::gate {
namespace {

using Kind = Difference::Kind;

// ids 10, 11, 12, ... with the best two log-probabilities of each position.
Answer Sample(std::size_t length = 4, const std::string& second = "-1.5") {
  Answer answer;
  for (std::size_t i = 0; i < length; ++i) {
    const std::string token = "t" + std::to_string(i);
    answer.ids.push_back(static_cast<std::int64_t>(10 + i));
    answer.scores.push_back({{token, "-0.25"}, {{token, "-0.25"}, {"other" + std::to_string(i), second}}});
    answer.text += token;
  }
  answer.finish_reason = "length";
  return answer;
}

Answer WithTokenSwapped(Answer answer, std::size_t position, std::int64_t id) {
  Score& score = answer.scores[position];
  answer.ids[position] = id;
  std::swap(score.top[0].token, score.top[1].token);
  score.chosen = score.top[0];
  answer.text += "!";
  return answer;
}

TEST(Compare, EqualAnswersAreEqual) {
  const Difference difference = CompareAnswers(Sample(), Sample(), true);
  EXPECT_TRUE(difference.same());
  EXPECT_EQ(difference.verdict(), Verdict::kIdentical);
}

TEST(Compare, OneDigitIsADifference) {
  Answer other = Sample();
  other.scores[2].chosen.digits = "-0.250";  // the same number in other digits is another answer of the formatter
  const Difference difference = CompareAnswers(Sample(), other, true);
  EXPECT_EQ(difference.kind, Kind::kDigits);
  EXPECT_EQ(difference.digits_position, 2);
  EXPECT_EQ(difference.token_position, -1);
  EXPECT_EQ(difference.verdict(), Verdict::kDifferent);
  EXPECT_NE(difference.summary.find("log-probability at token 2: -0.25 / -0.250"), std::string::npos);
}

TEST(Compare, AlternativesCountToo) {
  Answer other = Sample();
  other.scores[1].top[1].digits = "-1.5000001";
  const Difference difference = CompareAnswers(Sample(), other, true);
  EXPECT_EQ(difference.kind, Kind::kDigits);
  EXPECT_NE(difference.summary.find("alternatives at token 1"), std::string::npos);
}

TEST(Compare, StopsAtTheFirstTokenDifference) {
  Answer other = WithTokenSwapped(Sample(), 1, 99);
  other.scores[3].chosen.digits = "-7";  // behind it: another input, so no evidence
  const Difference difference = CompareAnswers(Sample(), other, true);
  EXPECT_EQ(difference.kind, Kind::kToken);
  EXPECT_EQ(difference.token_position, 1);
  EXPECT_EQ(difference.digits_position, -1);
  EXPECT_FALSE(difference.near_tie);
  EXPECT_EQ(difference.summary, "token 1: 11 / 99, top-2 margins 1.25 / 1.25 nats");
}

TEST(Compare, NearTieNeedsBothMarginsBothTokensAndGreed) {
  const Answer a = Sample(4, "-0.2501");
  Answer b = WithTokenSwapped(a, 2, 99);
  EXPECT_EQ(CompareAnswers(a, b, true).verdict(), Verdict::kNearTie);
  EXPECT_EQ(CompareAnswers(a, b, false).verdict(), Verdict::kDifferent);
  Answer wide = b;
  wide.scores[2].top[1].digits = "-3";
  EXPECT_EQ(CompareAnswers(a, wide, true).verdict(), Verdict::kDifferent);
  Answer stranger = b;
  stranger.scores[2].chosen.token = "stranger";
  EXPECT_EQ(CompareAnswers(a, stranger, true).verdict(), Verdict::kDifferent);
}

TEST(Compare, LengthTextFinishAndErrorsAreDifferences) {
  EXPECT_EQ(CompareAnswers(Sample(4), Sample(3), true).kind, Kind::kLength);
  Answer other = Sample();
  other.text[3] = 'z';
  Difference difference = CompareAnswers(Sample(), other, true);
  EXPECT_EQ(difference.kind, Kind::kText);
  EXPECT_EQ(difference.byte_position, 3);
  other = Sample();
  other.finish_reason = "stop";
  EXPECT_EQ(CompareAnswers(Sample(), other, true).kind, Kind::kFinish);
  other = Sample();
  other.error = "HTTP 500";
  difference = CompareAnswers(Sample(), other, true);
  EXPECT_EQ(difference.verdict(), Verdict::kError);
  EXPECT_EQ(difference.summary, "HTTP 500");
  other = Sample();
  other.scores.clear();
  EXPECT_EQ(CompareAnswers(Sample(), other, true).kind, Kind::kLength);  // less evidence is not the same answer
}

TEST(Compare, WithoutIdsTokenTextsAreCompared) {
  Answer a = Sample(), b = Sample();
  a.ids.clear();
  b.ids.clear();
  EXPECT_TRUE(CompareAnswers(a, b, true).same());
  b.scores[3].chosen.token = "u";
  EXPECT_EQ(CompareAnswers(a, b, true).token_position, 3);
}

TEST(Compare, AllPairsFindTheOddOneWhereverItStands) {
  const Answer a = Sample(), b = Sample();
  Answer odd = Sample();
  odd.ids[0] = 77;
  for (const auto& group : {std::vector<const Answer*>{&odd, &a, &b}, {&a, &odd, &b}, {&a, &b, &odd}}) {
    const GroupComparison result = CompareGroup(group, true);
    EXPECT_EQ(std::count(result.agrees.begin(), result.agrees.end(), true), 0);  // nobody equals every other one
    EXPECT_EQ(result.worst.kind, Kind::kToken);
  }
  const std::vector<const Answer*> equal = {&a, &b};
  EXPECT_TRUE(CompareGroup(equal, true).worst.same());
}

TEST(Compare, AFailedAnswerDoesNotDiscreditTheOthers) {
  const Answer a = Sample(), b = Sample();
  Answer failed = Sample();
  failed.error = "gone";
  const std::vector<const Answer*> group = {&a, &failed, &b};
  const GroupComparison result = CompareGroup(group, true);
  EXPECT_EQ(result.agrees, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(result.worst.verdict(), Verdict::kError);
}

TEST(Compare, ForeignWordsAreFound) {
  Answer answer;
  answer.text = "and then Brimtaxel said";
  const std::vector<std::string> words = {"Velmorin", "Brimtaxel"};
  EXPECT_EQ(FindForeignWord(answer, words), "Brimtaxel");
  answer.text = "nothing";
  EXPECT_EQ(FindForeignWord(answer, words), "");
}

TEST(Compare, VerdictsAreOrderedFromBestToWorst) {
  EXPECT_EQ(WorstVerdict(Verdict::kIdentical, Verdict::kNotExercised), Verdict::kNotExercised);
  EXPECT_EQ(WorstVerdict(Verdict::kError, Verdict::kNearTie), Verdict::kNearTie);
  EXPECT_EQ(WorstVerdict(Verdict::kStructured, Verdict::kDifferent), Verdict::kStructured);
  EXPECT_STREQ(VerdictName(Verdict::kNearTie), "NEAR-TIE");
  EXPECT_STREQ(VerdictName(Verdict::kNotExercised), "NOT-EXERCISED");
}

TEST(Compare, LevelSaysWhatWasLookedAt) {
  EXPECT_EQ((Level{false, false, false}).ToString(), "text");
  EXPECT_EQ((Level{true, true, false}).ToString(), "token ids + log-probability digits");
}

}  // namespace
}  // namespace isobit::gate
