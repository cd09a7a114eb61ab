// Metrics: counters, gauges and histograms of the server in Prometheus text: our own names, and those of vLLM's dashboards.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "serve/server.h"

namespace isobit {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);  // ascending; the bucket of everything is added
  void Observe(double value);
  // name{labels,le="..."} lines, _sum and _count. labels without braces.
  void Append(std::string_view name, std::string_view help, std::string_view labels, std::string& out) const;
  std::int64_t count() const { return count_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::int64_t> buckets_;  // [bounds + 1], not yet cumulative
  std::int64_t count_ = 0;
  double sum_ = 0;
};

// What is known of one answered choice when it ends. Nanoseconds since its request arrived; -1: did not happen.
struct ChoiceTimes {
  std::int64_t queued = -1;       // until its first row ran
  std::int64_t first_token = -1;
  std::int64_t end = -1;
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t max_tokens = 0;
};

class Metrics {
 public:
  Metrics(const ServingModel& model, bool vllm_names);

  void RequestStarted(std::int64_t n);
  void TokenInterval(std::int64_t nanos);
  // reason: "stop", "length", "abort" or "error".
  void ChoiceEnded(const ChoiceTimes& times, const std::string& reason);
  void HttpAnswered(int status);

  std::string Render(const EngineStats& stats, std::int64_t num_connections) const;

 private:
  void AppendOwn(const EngineStats& stats, std::int64_t num_connections, std::string& out) const;
  void AppendVllm(const EngineStats& stats, std::string& out) const;

  const bool vllm_names_;
  std::string labels_;           // model_name="...",engine="0"
  std::string contract_labels_;
  std::map<int, std::int64_t> answers_;                    // by HTTP status
  std::map<std::string, std::int64_t> ended_;              // by reason
  Histogram latency_, first_token_, interval_, per_token_, queue_, prefill_, decode_, inference_;
  Histogram prompt_tokens_, generated_tokens_, max_tokens_, params_n_;
};

}  // namespace isobit
