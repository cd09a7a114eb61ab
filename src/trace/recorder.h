// TraceRecorder: the record of a run, step by step, so that two runs can be compared and a verdict can be replayed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace isobit {

// One row group of a step: which request, which positions, whether it was prefill.
struct TraceSegment {
  std::uint64_t request_id = 0;
  std::int64_t first_position = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_cached_tokens = 0;  // taken from the prefix cache when the segment began its request
};

struct TraceStep {
  std::int64_t step_index = 0;
  std::vector<TraceSegment> segments;               // in row order
  std::vector<std::uint64_t> preempted;             // request ids
  std::vector<std::pair<std::uint64_t, std::int32_t>> tokens;  // (request, token) committed, in row order
};

// Writes JSON lines to a file: a header (build, contract id, model contract, configuration), then one line a step.
class TraceRecorder {
 public:
  static Result<std::unique_ptr<TraceRecorder>> Open(const std::string& path, const Json& header);
  ~TraceRecorder();
  void Record(const TraceStep& step);
  Status Close();  // flushes; the first error met while writing is returned here

 private:
  struct Impl;
  explicit TraceRecorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads a trace back. Errors name the file and line.
struct Trace {
  Json header;
  std::vector<TraceStep> steps;
};
Result<Trace> ReadTrace(const std::string& path);

}  // namespace isobit
