// Compare: the one comparator of the gate. Token ids first, then the digits of log-probabilities, text bytes last.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gate/answer.h"
#include "gate/gate.h"

namespace isobit::gate {

// A first token difference is a near-tie if in both answers the two best log-probabilities lie at most this far apart and each
// answer chose among the other's best two. Greedy answers only: a sampled choice has no margin in the logits.
inline constexpr double kNearTieNats = 0.05;

struct Difference {
  enum class Kind { kNone, kText, kDigits, kToken, kLength, kFinish, kError };
  Kind kind = Kind::kNone;
  bool near_tie = false;
  std::int64_t token_position = -1;   // first different token; nothing behind it is compared, for its input differs
  std::int64_t digits_position = -1;  // first position with equal tokens and different digits
  std::int64_t byte_position = -1;    // first different byte of the text
  double largest_drift = 0;           // of a log-probability of equal tokens, in nats
  std::string summary;                // "token 17: 284 / 198, top-2 margins 0.83 / 0.79"

  bool same() const { return kind == Kind::kNone; }
  Verdict verdict() const;
};

Difference CompareAnswers(const Answer& a, const Answer& b, bool greedy);

// All pairs of answers to one question.
struct GroupComparison {
  std::vector<bool> agrees;   // [answers]: equal to every other one
  Difference worst;           // kNone if all are equal
  std::size_t worst_a = 0, worst_b = 0;
};
GroupComparison CompareGroup(std::span<const Answer* const> answers, bool greedy);

// A word of `foreign` in the answer's text, or empty. Such words stand in other questions only, so a hit is a leak.
std::string FindForeignWord(const Answer& answer, std::span<const std::string> foreign);

// What a comparison of these answers really looked at.
struct Level {
  bool ids = false, digits = false, prompt_digits = false;
  std::string ToString() const;  // "token ids + log-probability digits", "text"
};

}  // namespace isobit::gate
