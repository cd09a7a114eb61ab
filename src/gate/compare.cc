#include "gate/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"

namespace isobit::gate {
namespace {

using Kind = Difference::Kind;

std::string TokenName(const Answer& answer, std::size_t position) {
  if (position < answer.ids.size()) return std::to_string(answer.ids[position]);
  if (position < answer.scores.size()) return "'" + ReplaceInvalidUtf8(answer.scores[position].chosen.token) + "'";
  return "end";
}

bool SameToken(const Answer& a, const Answer& b, std::size_t position, bool by_id) {
  if (by_id) return a.ids[position] == b.ids[position];
  return a.scores[position].chosen.token == b.scores[position].chosen.token;
}

// Best minus second best; infinite if the server names fewer than two.
double TopMargin(const Score& score) {
  std::vector<double> values;
  for (const Candidate& candidate : score.top) values.push_back(std::strtod(candidate.digits.c_str(), nullptr));
  std::sort(values.begin(), values.end(), std::greater<>());
  return values.size() < 2 ? INFINITY : values[0] - values[1];
}

bool ChoseAmongBestTwo(const Score& chooser, const Score& other) {
  std::vector<Candidate> ranked = other.top;
  std::stable_sort(ranked.begin(), ranked.end(), [](const Candidate& x, const Candidate& y) {
    return std::strtod(x.digits.c_str(), nullptr) > std::strtod(y.digits.c_str(), nullptr);
  });
  ranked.resize(std::min<std::size_t>(ranked.size(), 2));
  return std::any_of(ranked.begin(), ranked.end(), [&](const Candidate& c) { return c.token == chooser.chosen.token; });
}

void NoteTokenDifference(const Answer& a, const Answer& b, std::size_t position, bool greedy, Difference& difference) {
  difference.kind = Kind::kToken;
  difference.token_position = static_cast<std::int64_t>(position);
  difference.summary = fmt::format("token {}: {} / {}", position, TokenName(a, position), TokenName(b, position));
  if (position >= a.scores.size() || position >= b.scores.size()) return;
  const double margin_a = TopMargin(a.scores[position]), margin_b = TopMargin(b.scores[position]);
  if (!std::isfinite(margin_a) || !std::isfinite(margin_b)) return;
  difference.near_tie = greedy && margin_a <= kNearTieNats && margin_b <= kNearTieNats &&
                        ChoseAmongBestTwo(a.scores[position], b.scores[position]) &&
                        ChoseAmongBestTwo(b.scores[position], a.scores[position]);
  difference.summary += fmt::format(", top-2 margins {:.4g} / {:.4g} nats", margin_a, margin_b);
}

void NoteDigits(const Score& a, const Score& b, std::size_t position, Difference& difference) {
  if (a == b) return;
  const double drift = std::abs(std::strtod(a.chosen.digits.c_str(), nullptr) - std::strtod(b.chosen.digits.c_str(), nullptr));
  if (std::isfinite(drift)) difference.largest_drift = std::max(difference.largest_drift, drift);
  if (difference.digits_position >= 0) return;
  difference.digits_position = static_cast<std::int64_t>(position);
  const bool in_chosen = a.chosen != b.chosen;
  difference.summary = in_chosen ? fmt::format("log-probability at token {}: {} / {}", position, a.chosen.digits, b.chosen.digits)
                                 : fmt::format("log-probabilities of the alternatives at token {}", position);
}

// The first and last thing of a summary is what came first: drift in the digits explains a later token.
void CompareTokens(const Answer& a, const Answer& b, bool greedy, Difference& difference) {
  const bool by_id = !a.ids.empty() && !b.ids.empty();
  const std::size_t len_a = by_id ? a.ids.size() : a.scores.size(), len_b = by_id ? b.ids.size() : b.scores.size();
  for (std::size_t i = 0; i < std::min(len_a, len_b); ++i) {
    if (!SameToken(a, b, i, by_id)) {
      const std::string drifted = difference.summary;
      NoteTokenDifference(a, b, i, greedy, difference);
      if (!drifted.empty()) difference.summary += "; before it " + drifted;
      return;
    }
    if (i < a.scores.size() && i < b.scores.size()) NoteDigits(a.scores[i], b.scores[i], i, difference);
  }
  if (len_a != len_b) {
    difference.kind = Kind::kLength;
    difference.token_position = static_cast<std::int64_t>(std::min(len_a, len_b));
    difference.summary = fmt::format("{} / {} tokens, equal up to the shorter end", len_a, len_b);
  } else if (difference.digits_position >= 0) {
    difference.kind = Kind::kDigits;
    difference.summary += fmt::format(", tokens equal, largest drift {:.3g} nats", difference.largest_drift);
  } else if (a.scores.size() != b.scores.size() || a.ids.size() != b.ids.size()) {
    difference.kind = Kind::kLength;
    difference.summary = fmt::format("one answer carries {} ids and {} log-probabilities, the other {} and {}", a.ids.size(),
                                     a.scores.size(), b.ids.size(), b.scores.size());
  }
}

}  // namespace

Verdict Difference::verdict() const {
  if (kind == Kind::kNone) return Verdict::kIdentical;
  if (kind == Kind::kError) return Verdict::kError;
  return near_tie ? Verdict::kNearTie : Verdict::kDifferent;
}

Difference CompareAnswers(const Answer& a, const Answer& b, bool greedy) {
  Difference difference;
  if (!a.ok() || !b.ok()) {
    const Answer& bad = a.ok() ? b : a;
    difference.kind = Kind::kError;
    difference.summary = bad.cancelled ? "cancelled" : bad.error;
    return difference;
  }
  CompareTokens(a, b, greedy, difference);
  if (!difference.same()) return difference;
  if (a.text != b.text) {
    difference.kind = Kind::kText;
    const auto split = std::mismatch(a.text.begin(), a.text.end(), b.text.begin(), b.text.end());
    difference.byte_position = split.first - a.text.begin();
    difference.summary = fmt::format("text from byte {} on ({} / {} bytes)", difference.byte_position, a.text.size(), b.text.size());
  } else if (a.finish_reason != b.finish_reason) {
    difference.kind = Kind::kFinish;
    difference.summary = fmt::format("finish_reason {} / {}", a.finish_reason, b.finish_reason);
  }
  return difference;
}

GroupComparison CompareGroup(std::span<const Answer* const> answers, bool greedy) {
  GroupComparison group;
  group.agrees.assign(answers.size(), true);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]->ok()) group.agrees[i] = false;
    for (std::size_t j = i + 1; j < answers.size(); ++j) {
      Difference difference = CompareAnswers(*answers[i], *answers[j], greedy);
      if (difference.same()) continue;
      // An answer that failed says nothing about the other one.
      if (answers[i]->ok() && answers[j]->ok()) group.agrees[i] = group.agrees[j] = false;
      if (group.worst.same() || WorstVerdict(group.worst.verdict(), difference.verdict()) != group.worst.verdict()) {
        group.worst = std::move(difference);
        group.worst_a = i;
        group.worst_b = j;
      }
    }
  }
  return group;
}

std::string FindForeignWord(const Answer& answer, std::span<const std::string> foreign) {
  for (const std::string& word : foreign) {
    if (answer.text.find(word) != std::string::npos) return word;
  }
  return "";
}

std::string Level::ToString() const {
  std::string level = ids ? "token ids" : "text";
  if (digits) level += " + log-probability digits";
  if (prompt_digits) level += " + prompt log-probabilities";
  return level;
}

}  // namespace isobit::gate
