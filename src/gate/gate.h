// The gate: asks a server the same things alone and in company, compares every answer with every other, and says IDENTICAL only
// where it has proved that the circumstances really differed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"

namespace isobit::gate {

// From best to worst; WorstVerdict relies on the order.
enum class Verdict { kIdentical, kNotExercised, kInconclusive, kError, kNearTie, kDifferent, kStructured };
const char* VerdictName(Verdict verdict);  // "IDENTICAL", "NEAR-TIE", ..., "NOT-EXERCISED", "INCONCLUSIVE"
Verdict WorstVerdict(Verdict a, Verdict b);

// "repeat", "batch", "stagger", "cache", "score": in the order they run.
const std::vector<std::string>& ArmNames();

struct GateOptions {
  std::string url;                        // "http://127.0.0.1:8000" or with /v1
  std::string api_key;
  std::string model;                      // empty: data[0].id of /v1/models
  std::vector<std::string> arms;          // subset of ArmNames(); empty: all
  std::vector<std::int64_t> concurrency = {2, 8, 16};
  std::int64_t num_prompts = 16;
  std::int64_t max_tokens = 128;
  std::uint64_t seed = 1;                 // of the prompts' choice and of sampled requests
  std::string prompts_file;               // own prompts, one JSON string or id list a line; empty: built-in
  std::int64_t timeout_seconds = 600;     // for one answer
  bool positive_control = true;           // false: nothing can be IDENTICAL any more
  std::string rerun_as;                   // how next commands name the subject, like "--model PATH"; empty: the url
};

struct ArmReport {
  std::string name;          // "batch"
  std::string setting;       // "concurrency 16"
  Verdict verdict = Verdict::kInconclusive;
  std::int64_t identical = 0;  // answers equal to every other answer to the same question
  std::int64_t total = 0;
  double overlap = 0;          // 1 = alone; the mean number of answers in progress together, as proved by interleaved events
  std::string evidence;        // one line: the level reached, what differed first and where
  std::string next_command;    // what to run next, if not IDENTICAL
  Json details;
};

struct GateReport {
  Verdict verdict = Verdict::kInconclusive;
  std::string reason;              // why the verdict is not simply the worst of the arms; may be empty
  std::string level;               // "token ids + log-probability digits", ...
  std::vector<ArmReport> arms;
  std::vector<std::string> notes;  // what could not be exercised, and what the server does not honour
  Json options;                    // {num_prompts, sampled_prompts, max_tokens, concurrency, seed, cache_salt_nonce}
  Json control;                    // {qualified, checks: [{name, expected, found, ok}]}
  Json subject;                    // what the server said of itself, and which capabilities were really honoured
  int exit_code() const;           // 0 holds, 1 does not, 2 usage or environment, 3 inconclusive or not exercised
  Json ToJson() const;             // verdict, level, arms[{name, setting, verdict, identical, total, overlap, ...}], subject
  std::string ToText() const;      // the table a person reads
};

// Errors: bad options, a server that cannot be reached or does not speak the API (exit code 2).
// progress: one line at a time, for a terminal; may be empty.
Result<GateReport> RunGate(const GateOptions& options, const Clock& clock, const std::function<void(const std::string&)>& progress);

}  // namespace isobit::gate
