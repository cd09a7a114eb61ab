#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "serve/version.h"

namespace isobit {
namespace {

// Buckets that dashboards made for vLLM expect.
std::vector<double> FirstTokenBounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
}
std::vector<double> IntervalBounds() {
  return {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}
std::vector<double> LatencyBounds() {
  return {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}
// 1, 2, 5, 10, ... up to max.
std::vector<double> CountBounds(std::int64_t max) {
  std::vector<double> bounds;
  for (std::int64_t power = 1; power <= max; power *= 10) {
    for (const std::int64_t factor : {1, 2, 5}) {
      if (power * factor <= max) bounds.push_back(static_cast<double>(power * factor));
    }
  }
  return bounds;
}

std::string LabelValue(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out;
}

void AppendHead(std::string_view name, std::string_view type, std::string_view help, std::string& out) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

template <class Value>
void AppendOne(std::string_view name, std::string_view type, std::string_view help, std::string_view labels, Value value, std::string& out) {
  AppendHead(name, type, help, out);
  out += fmt::format("{}{{{}}} {}\n", name, labels, value);
}

double Seconds(std::int64_t nanos) { return static_cast<double>(nanos) * 1e-9; }

// Share of KV blocks that sequences hold; blocks kept for the prefix cache only can be taken at any time.
double KvUsage(const EngineStats& stats) {
  if (stats.num_blocks == 0) return 0;
  return static_cast<double>(stats.num_blocks - stats.num_free_blocks - stats.num_cached_blocks) / static_cast<double>(stats.num_blocks);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), buckets_(bounds_.size() + 1) {
  ISOBIT_CHECK(std::is_sorted(bounds_.begin(), bounds_.end()));
}

void Histogram::Observe(double value) {
  ++buckets_[static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin())];
  ++count_;
  sum_ += value;
}

void Histogram::Append(std::string_view name, std::string_view help, std::string_view labels, std::string& out) const {
  AppendHead(name, "histogram", help, out);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    total += buckets_[i];
    out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], total);
  }
  out += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, count_);
  out += fmt::format("{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, sum_, name, labels, count_);
}

Metrics::Metrics(const ServingModel& model, bool vllm_names)
    : vllm_names_(vllm_names),
      labels_(fmt::format("model_name=\"{}\",engine=\"0\"", LabelValue(model.name))),
      contract_labels_(fmt::format("{},version=\"{}\",contract=\"{}\",model_contract=\"{}\",preset=\"{}\",kv_type=\"{}\",device=\"{}\"",
                                   labels_, kVersion, model.contract_id, model.model_contract_id, LabelValue(model.preset),
                                   LabelValue(model.kv_type), LabelValue(model.device))),
      latency_(LatencyBounds()),
      first_token_(FirstTokenBounds()),
      interval_(IntervalBounds()),
      per_token_(IntervalBounds()),
      queue_(LatencyBounds()),
      prefill_(LatencyBounds()),
      decode_(LatencyBounds()),
      inference_(LatencyBounds()),
      prompt_tokens_(CountBounds(model.max_model_len)),
      generated_tokens_(CountBounds(model.max_model_len)),
      max_tokens_(CountBounds(model.max_model_len)),
      params_n_({1, 2, 5, 10, 20}) {
  for (const char* reason : {"stop", "length", "abort", "error"}) ended_[reason] = 0;
}

void Metrics::RequestStarted(std::int64_t n) { params_n_.Observe(static_cast<double>(n)); }
void Metrics::TokenInterval(std::int64_t nanos) { interval_.Observe(Seconds(nanos)); }
void Metrics::HttpAnswered(int status) { ++answers_[status]; }

void Metrics::ChoiceEnded(const ChoiceTimes& times, const std::string& reason) {
  ++ended_[reason];
  if (reason != "stop" && reason != "length") return;
  latency_.Observe(Seconds(times.end));
  prompt_tokens_.Observe(static_cast<double>(times.prompt_tokens));
  generated_tokens_.Observe(static_cast<double>(times.generated_tokens));
  max_tokens_.Observe(static_cast<double>(times.max_tokens));
  if (times.queued >= 0) {
    queue_.Observe(Seconds(times.queued));
    inference_.Observe(Seconds(times.end - times.queued));
  }
  if (times.first_token < 0) return;
  first_token_.Observe(Seconds(times.first_token));
  decode_.Observe(Seconds(times.end - times.first_token));
  if (times.queued >= 0) prefill_.Observe(Seconds(times.first_token - times.queued));
  if (times.generated_tokens > 1) {
    per_token_.Observe(Seconds(times.end - times.first_token) / static_cast<double>(times.generated_tokens - 1));
  }
}

std::string Metrics::Render(const EngineStats& stats, std::int64_t num_connections) const {
  std::string out;
  AppendOwn(stats, num_connections, out);
  if (vllm_names_) AppendVllm(stats, out);
  return out;
}

void Metrics::AppendOwn(const EngineStats& stats, std::int64_t num_connections, std::string& out) const {
  const auto gauge = [&](const char* name, const char* help, auto value) { AppendOne(name, "gauge", help, labels_, value, out); };
  const auto counter = [&](const char* name, const char* help, auto value) { AppendOne(name, "counter", help, labels_, value, out); };
  AppendOne("isobit_contract_info", "gauge", "The numeric contract that answers.", contract_labels_, 1, out);
  gauge("isobit_connections", "Open connections.", num_connections);
  gauge("isobit_requests_running", "Sequences that take part in steps.", stats.num_running);
  gauge("isobit_requests_waiting", "Sequences that wait for a place.", stats.num_waiting);
  gauge("isobit_kv_blocks", "KV blocks in all.", stats.num_blocks);
  gauge("isobit_kv_blocks_free", "KV blocks held by nothing.", stats.num_free_blocks);
  gauge("isobit_kv_blocks_cached", "KV blocks kept for the prefix cache only.", stats.num_cached_blocks);
  counter("isobit_steps_total", "Steps of the engine.", stats.num_steps);
  counter("isobit_preemptions_total", "Sequences put back and computed again.", stats.num_preemptions);
  counter("isobit_prompt_tokens_total", "Prompt tokens taken in.", stats.prompt_tokens);
  counter("isobit_generated_tokens_total", "Tokens generated.", stats.generated_tokens);
  counter("isobit_prefix_query_tokens_total", "Prompt tokens looked up in the prefix cache.", stats.prefix_query_tokens);
  counter("isobit_prefix_hit_tokens_total", "Prompt tokens found in the prefix cache.", stats.prefix_hit_tokens);
  AppendHead("isobit_requests_finished_total", "counter", "Sequences that ended, by the engine's reason.", out);
  const std::pair<const char*, std::int64_t> finished[] = {{"stop", stats.finished_stop},
                                                           {"length", stats.finished_length},
                                                           {"cancelled", stats.finished_cancelled},
                                                           {"error", stats.finished_error}};
  for (const auto& [reason, count] : finished) {
    out += fmt::format("isobit_requests_finished_total{{{},reason=\"{}\"}} {}\n", labels_, reason, count);
  }
  AppendHead("isobit_http_answers_total", "counter", "Answers by HTTP status; 499: the client left before its answer.", out);
  for (const auto& [status, count] : answers_) {
    out += fmt::format("isobit_http_answers_total{{{},status=\"{}\"}} {}\n", labels_, status, count);
  }
}

void Metrics::AppendVllm(const EngineStats& stats, std::string& out) const {
  const auto gauge = [&](const char* name, const char* help, auto value) { AppendOne(name, "gauge", help, labels_, value, out); };
  const auto counter = [&](const char* name, const char* help, auto value) { AppendOne(name, "counter", help, labels_, value, out); };
  const auto histogram = [&](const char* name, const char* help, const Histogram& values) { values.Append(name, help, labels_, out); };
  gauge("vllm:num_requests_running", "Number of requests in model execution batches.", stats.num_running);
  gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", stats.num_waiting);
  gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", KvUsage(stats));
  gauge("vllm:gpu_cache_usage_perc", "KV-cache usage, under its older name.", KvUsage(stats));
  AppendOne("vllm:cache_config_info", "gauge", "Information of the cache.", fmt::format("{},block_size=\"{}\",num_gpu_blocks=\"{}\"", labels_, stats.block_size, stats.num_blocks),
            1, out);
  counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", stats.prompt_tokens);
  counter("vllm:generation_tokens_total", "Number of generation tokens processed.", stats.generated_tokens);
  counter("vllm:num_preemptions_total", "Cumulative number of preemptions.", stats.num_preemptions);
  counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in tokens.", stats.prefix_query_tokens);
  counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in tokens.", stats.prefix_hit_tokens);
  AppendHead("vllm:request_success_total", "counter", "Count of processed requests.", out);
  for (const auto& [reason, count] : ended_) {
    out += fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", labels_, reason, count);
  }
  histogram("vllm:e2e_request_latency_seconds", "End to end request latency.", latency_);
  histogram("vllm:time_to_first_token_seconds", "Time to first token.", first_token_);
  histogram("vllm:inter_token_latency_seconds", "Time between two tokens of a request.", interval_);
  histogram("vllm:time_per_output_token_seconds", "Time between two tokens of a request, under its older name.", interval_);
  histogram("vllm:request_time_per_output_token_seconds", "Mean time per output token of a request.", per_token_);
  histogram("vllm:request_queue_time_seconds", "Time spent waiting.", queue_);
  histogram("vllm:request_prefill_time_seconds", "Time spent in prefill.", prefill_);
  histogram("vllm:request_decode_time_seconds", "Time spent in decode.", decode_);
  histogram("vllm:request_inference_time_seconds", "Time spent running.", inference_);
  histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", prompt_tokens_);
  histogram("vllm:request_generation_tokens", "Tokens generated for a request.", generated_tokens_);
  histogram("vllm:request_max_num_generation_tokens", "Most tokens a request was allowed.", max_tokens_);
  histogram("vllm:request_params_n", "The n of a request.", params_n_);
  histogram("vllm:request_params_max_tokens", "The max_tokens of a request.", max_tokens_);
}

}  // namespace isobit
