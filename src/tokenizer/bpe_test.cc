#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace isobit {
namespace {

// The definition: look for the best pair, leftmost first, merge it, start over.
std::vector<std::int32_t> MergeSlowly(std::vector<std::int32_t> symbols,
                                      const std::vector<MergeRule>& rules) {
  while (true) {
    std::size_t best_rule = rules.size(), best_at = 0;
    for (std::size_t at = 0; at + 1 < symbols.size(); ++at) {
      for (std::size_t rule = 0; rule < best_rule; ++rule) {
        if (rules[rule].left == symbols[at] && rules[rule].right == symbols[at + 1]) {
          best_rule = rule;
          best_at = at;
          break;
        }
      }
    }
    if (best_rule == rules.size()) return symbols;
    symbols[best_at] = rules[best_rule].merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

// A small generator of our own: tests need repeatable numbers, not good ones.
struct Numbers {
  std::uint64_t state;
  std::int32_t Below(std::int32_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(bound));
  }
};

TEST(BpeMerges, LowestRankFirstThenLeftmost) {
  const std::vector<MergeRule> rules = {{1, 2, 10}, {0, 1, 11}, {11, 2, 12}};
  BpeMerges::Scratch scratch;
  std::vector<std::int32_t> symbols = {0, 1, 2};
  BpeMerges(rules).Apply(symbols, scratch);
  EXPECT_EQ(symbols, (std::vector<std::int32_t>{0, 10}));
  symbols = {5, 5, 5};
  BpeMerges(std::vector<MergeRule>{{5, 5, 6}}).Apply(symbols, scratch);
  EXPECT_EQ(symbols, (std::vector<std::int32_t>{6, 5}));
}

TEST(BpeMerges, OfTwoRulesForOnePairTheBetterCounts) {
  BpeMerges::Scratch scratch;
  std::vector<std::int32_t> symbols = {1, 1};
  BpeMerges(std::vector<MergeRule>{{1, 1, 2}, {1, 1, 3}}).Apply(symbols, scratch);
  EXPECT_EQ(symbols, std::vector<std::int32_t>{2});
}

TEST(BpeMerges, WithoutRulesOrSymbolsNothingChanges) {
  BpeMerges::Scratch scratch;
  std::vector<std::int32_t> symbols;
  BpeMerges().Apply(symbols, scratch);
  EXPECT_TRUE(symbols.empty());
  symbols = {3, 4};
  BpeMerges().Apply(symbols, scratch);
  EXPECT_EQ(symbols, (std::vector<std::int32_t>{3, 4}));
}

TEST(BpeMerges, EqualsTheDefinitionOnRandomRulesAndTexts) {
  BpeMerges::Scratch scratch;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Numbers numbers{seed};
    const std::int32_t num_letters = 1 + numbers.Below(4);
    std::int32_t num_tokens = num_letters;
    std::vector<MergeRule> rules;
    std::map<std::pair<std::int32_t, std::int32_t>, bool> taken;
    for (int i = 0, count = numbers.Below(30); i < count; ++i) {
      const MergeRule rule{numbers.Below(num_tokens), numbers.Below(num_tokens), num_tokens};
      if (!taken.emplace(std::pair{rule.left, rule.right}, true).second) continue;
      rules.push_back(rule);
      ++num_tokens;
    }
    for (std::size_t i = rules.size(); i > 1; --i)
      std::swap(rules[i - 1],
                rules[static_cast<std::size_t>(numbers.Below(static_cast<std::int32_t>(i)))]);
    std::vector<std::int32_t> symbols(static_cast<std::size_t>(numbers.Below(60)));
    for (std::int32_t& symbol : symbols) symbol = numbers.Below(num_letters);
    const std::vector<std::int32_t> expected = MergeSlowly(symbols, rules);
    BpeMerges(rules).Apply(symbols, scratch);
    ASSERT_EQ(symbols, expected) << "seed " << seed;
  }
}

TEST(BpeMerges, ALongRunOfOneLetterIsNotQuadratic) {
  // 2^20 letters merge pairwise into one token over 20 rules: a quadratic algorithm would need
  // hours.
  std::vector<MergeRule> rules;
  for (std::int32_t i = 0; i < 20; ++i) rules.push_back({i, i, i + 1});
  std::vector<std::int32_t> symbols(1 << 20, 0);
  BpeMerges::Scratch scratch;
  BpeMerges(rules).Apply(symbols, scratch);
  EXPECT_EQ(symbols, std::vector<std::int32_t>{20});
}

}  // namespace
}  // namespace isobit
