// Subject: the seam between the judge and the judged. A run is a script: questions, when each begins, when its asker leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "gate/answer.h"
#include "gate/compare.h"

namespace isobit::gate {

// All of them are always sent, so that no server-side default can decide.
struct Sampling {
  double temperature = 0;
  double top_p = 1;
  std::int64_t top_k = 0;  // 0: off
  double min_p = 0;
  double repetition_penalty = 1;
  double frequency_penalty = 0;
  double presence_penalty = 0;
  std::uint64_t seed = 1;

  bool greedy() const { return temperature == 0; }
};

struct Question {
  std::string label;               // "prompt 3", for evidence lines
  std::string text;                // the prompt, unless ids are given
  std::vector<std::int64_t> ids;   // the prompt as token ids, used verbatim
  std::string code_word;           // stands in this prompt and in no other; may be empty
  Sampling sampling;
  std::int64_t max_tokens = 16;
  enum class Scoring { kNone, kEcho, kPromptLogprobs };
  Scoring scoring = Scoring::kNone;
  bool evidence = true;            // false: ask without ids and log-probabilities, as an ordinary client does
};

struct Ask {
  Question question;
  std::string cache_salt;              // sent only where the server takes it; equal salts may share cached prefixes
  std::int64_t after_ask = -1;         // index of an earlier ask: begin once it has after_tokens tokens, or has ended
  std::int64_t after_tokens = 0;
  std::int64_t cancel_after_ms = 0;    // > 0: leave that long after the start
  std::int64_t cancel_after_tokens = 0;  // > 0: leave after that many tokens
};

// What the server was seen to do; never what it claims.
struct Capabilities {
  bool completions = true;       // false: chat only
  bool stream = false;
  bool token_ids = false;
  bool logprobs = false;
  bool echo = false;
  bool prompt_logprobs = false;
  bool prompt_ids = false;       // takes the prompt as ids, and told us the ids of a text
  bool seed = false;             // same seed same answer, other seed another
  bool cache_salt = false;       // and the cached-token counter moved as it should
  bool cached_tokens = false;    // reports the counter
  std::string running_gauge;     // name of the gauge in /metrics; empty: none

  Level level() const { return {token_ids, logprobs, prompt_logprobs || echo}; }
};

class Subject {
 public:
  virtual ~Subject() = default;
  virtual const Capabilities& capabilities() const = 0;
  // What the server said of itself, how each request field was taken, and the digest of the requests sent so far.
  virtual Json Describe() const = 0;
  // Plays the script; answers[i] belongs to asks[i]. At most max_in_flight at once; asks begin in order as far as their conditions
  // allow. Nothing is retried. on_done is called after each answer and may be empty.
  virtual std::vector<Answer> Run(std::span<const Ask> asks, std::int64_t max_in_flight,
                                  const std::function<void()>& on_done) = 0;
  // The largest value of the running gauge seen during the last Run; -1 without one.
  virtual std::int64_t PeakRunning() const = 0;
};

}  // namespace isobit::gate
