// Tally: counts the answers of one setting that equal every other answer to the same question, and keeps what differed first.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gate/compare.h"
#include "gate/gate.h"
#include "gate/subject.h"

namespace isobit::gate {

struct Member {
  std::string where;       // "alone", "concurrency 16"
  const Answer* answer;    // never null
  bool counted = true;     // false: a reference from another setting
};

class Tally {
 public:
  // code_words: every word that stands in exactly one prompt of the gate.
  Tally(std::string arm, std::string setting, Level level, std::vector<std::string> code_words);

  // Compares all pairs, and searches every counted answer for the code words of other questions.
  void AddGroup(const Question& question, std::span<const Member> members);
  // Something beside the compared answers failed.
  void AddError(std::string evidence);

  // exercised = false turns IDENTICAL into NOT-EXERCISED; circumstances is said in either case. A difference stays one.
  ArmReport Finish(bool exercised, double overlap, const std::string& circumstances);

  Json& details() { return report_.details; }

 private:
  void Note(Verdict verdict, std::string evidence);

  ArmReport report_;
  Level level_;
  std::vector<std::string> code_words_;
  std::string first_evidence_;  // of the worst verdict so far
  std::int64_t num_near_ties_ = 0, num_errors_ = 0;
};

}  // namespace isobit::gate
