// OpenAiSubject: any OpenAI-compatible server over HTTP. Probes at start what is honoured and sends the same bytes for the same
// question ever after.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gate/http_client.h"
#include "gate/subject.h"

namespace isobit::gate {

struct OpenAiConfig {
  std::string url;
  std::string api_key;
  std::string model;                    // empty: the first of /v1/models
  std::int64_t timeout_seconds = 600;
};

class OpenAiSubject final : public Subject {
 public:
  // Connects, finds the model and probes: about 20 short requests, one at a time. on_probe says what is probed next; may be empty.
  // Errors: kInvalidArgument or kUnsupported (url), kIo (no connection), kNotFound (no model, no endpoint), with what to do.
  static Result<std::unique_ptr<OpenAiSubject>> Connect(const OpenAiConfig& config, const Clock& clock,
                                                        const std::function<void(const std::string&)>& on_probe);

  const Capabilities& capabilities() const override { return capabilities_; }
  Json Describe() const override;
  std::vector<Answer> Run(std::span<const Ask> asks, std::int64_t max_in_flight, const std::function<void()>& on_done) override;
  std::int64_t PeakRunning() const override { return peak_running_; }

 private:
  enum class Field { kUntried, kRefused, kAccepted, kHonoured };
  struct InFlight;

  OpenAiSubject(const OpenAiConfig& config, const Clock& clock, std::unique_ptr<HttpClient> client);
  HttpRequest MakeRequest(const std::string& method, const std::string& path, std::string body) const;
  std::string Body(const Question& question, const std::string& cache_salt) const;
  bool Sends(const std::string& field) const;
  void Raise(const std::string& field, Field state);
  Answer AskOnce(const Question& question, const std::string& cache_salt);
  std::int64_t ReadGauge(const std::string& metrics) const;

  Status FindModel();
  Status FindEndpoint();
  void ProbeAcceptance();
  void ProbeEvidence();
  void ProbeSampling();
  void ProbePromptForms();
  void ProbeCache();
  void ProbeFacts();

  const OpenAiConfig config_;
  const Clock& clock_;
  const std::unique_ptr<HttpClient> client_;
  std::string model_;
  Capabilities capabilities_;
  std::map<std::string, Field> fields_;  // every optional request field we know
  std::map<std::string, std::string> refusals_;
  Answer plain_;                         // the probe question, greedy, with all evidence
  std::string version_, server_, fingerprint_;
  std::int64_t peak_running_ = -1;
  std::string top_k_off_ = "0";          // older servers want -1
  std::string repetition_name_ = "repetition_penalty";  // llama.cpp calls it repeat_penalty
  std::string requests_sha256_;          // chained over every body in the order of asking
  std::int64_t num_requests_ = 0;
};

}  // namespace isobit::gate
