// The arms: each changes one circumstance of the same questions and reports what that did to the answers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gate/gate.h"
#include "gate/prompts.h"
#include "gate/subject.h"

namespace isobit::gate {

// What all arms share: the questions and their answers alone on a quiet server.
struct Trial {
  Subject& subject;
  const GateOptions& options;
  std::function<void(const std::string&)> progress;  // may be empty
  std::string nonce;                        // makes the cache salts of this run unlike those of any other run
  std::vector<Question> questions;
  std::vector<std::string> code_words;      // of the questions and of passing neighbours
  std::vector<Answer> first;                // very first asks; only where no salt can force a cold run, else empty
  std::vector<Answer> alone;                // one at a time; [questions]

  std::string Salt(const std::string& purpose, std::size_t index) const;
  // Runs with a progress line "what: 3 of 16".
  std::vector<Answer> Play(const std::string& what, const std::vector<Ask>& asks, std::int64_t max_in_flight) const;
};

// Greedy and sampled questions in turn; all greedy where seeds are not honoured.
std::vector<Question> MakeQuestions(const std::vector<Prompt>& prompts, const GateOptions& options, const Capabilities& capabilities);

// Fills trial.first (where needed) and trial.alone.
void AskAlone(Trial& trial, bool cache_matters);

ArmReport RepeatArm(const Trial& trial);
ArmReport BatchArm(const Trial& trial, std::int64_t concurrency);
// The same at the largest concurrency without asking for ids and log-probabilities: asking may itself choose the kernels.
ArmReport OrdinaryClientArm(const Trial& trial, std::int64_t concurrency);
ArmReport StaggerDepthsArm(const Trial& trial);
ArmReport StaggerNeighboursArm(const Trial& trial);
ArmReport CacheWarmArm(const Trial& trial);
ArmReport CachePartialArm(const Trial& trial);
ArmReport CacheBlockEdgesArm(const Trial& trial);
std::vector<ArmReport> ScoreArms(const Trial& trial);

struct Control {
  bool sees_differences = true;   // every positive check was judged different
  bool sees_no_ghosts = true;     // the negative one was judged identical
  Json checks = Json::array();    // {name, expected, found, ok}
};
// Real answers that must differ, real answers altered in one digit, id or byte, and one compared with itself: judged by the
// comparator of the arms.
Control RunControl(const Trial& trial);

}  // namespace isobit::gate
