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

enum class Verdict { kIdentical, kNearTie, kStructured, kDifferent, kError, kNotExercised, kInconclusive };
const char* VerdictName(Verdict verdict);  // "IDENTICAL", "NEAR-TIE", ..., "NOT-EXERCISED", "INCONCLUSIVE"

struct GateOptions {
  std::string url;                        // "http://127.0.0.1:8000" or with /v1
  std::string api_key;
  std::string model;                      // empty: data[0].id of /v1/models
  std::vector<std::string> arms;          // subset of "repeat", "batch", "stagger", "cache", "score"; empty: all
  std::vector<std::int64_t> concurrency = {2, 8, 16};
  std::int64_t num_prompts = 16;
  std::int64_t max_tokens = 128;
  std::uint64_t seed = 1;                 // of the prompts' choice and of sampled requests
  std::string prompts_file;               // own prompts, one JSON string or id list a line; empty: built-in
  std::int64_t timeout_seconds = 600;     // for one answer
  bool positive_control = true;
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
  std::string level;               // "token ids + log-probability digits", ...
  std::vector<ArmReport> arms;
  Json subject;                    // what the server said of itself, and which capabilities were really honoured
  int exit_code() const;           // 0 holds, 1 does not, 2 usage or environment, 3 inconclusive or not exercised
  Json ToJson() const;             // verdict, level, arms[{name, setting, verdict, identical, total, overlap, ...}], subject
  std::string ToText() const;      // the table a person reads
};

// progress: one line at a time, for a terminal; may be empty.
Result<GateReport> RunGate(const GateOptions& options, const Clock& clock, const std::function<void(const std::string&)>& progress);

}  // namespace isobit::gate
