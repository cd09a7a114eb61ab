#include "gate/openai_subject.h"

#include <algorithm>
#include <charconv>

#include "base/random.h"
#include "base/sha256.h"

namespace isobit::gate {
namespace {

constexpr std::int64_t kGaugePeriodMs = 40;  // often enough to see a run, rare enough not to be a load of its own
constexpr std::int64_t kProbeTokens = 12;
constexpr std::int64_t kProbeTimeoutMs = 15'000;  // of the small GETs

// Long enough to fill a cache block of 64 tokens, and a question whose continuation is open.
constexpr const char* kProbeText =
    "The ferry to the outer islands leaves at noon, and the captain keeps a small notebook in which every passenger may write one "
    "line. On the first page somebody drew a lighthouse, on the second there is a recipe for bread, and on the third a child has "
    "listed the animals of the harbour: three cats, one heron, a seal that answers to no name, and eleven gulls. Today the page is "
    "still empty, so the next line will be";

// Optional fields, in the order in which they stand in a body. Each is sent unless the server refused it.
constexpr const char* kOptionalFields[] = {"top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
                                           "seed", "ignore_eos", "stream", "stream_options", "logprobs", "return_token_ids",
                                           "cache_salt"};

constexpr const char* kRunningGauges[] = {"isobit_requests_running", "vllm:num_requests_running", "sglang:num_running_reqs",
                                          "llamacpp:requests_processing"};

std::string Number(double value) { return FormatFloat(static_cast<float>(value)); }

// Two answers with the same generated content, by the best evidence both carry, digits left out.
bool SameContent(const Answer& a, const Answer& b) {
  if (!a.ids.empty() && !b.ids.empty()) return a.ids == b.ids;
  return a.text == b.text;
}

}  // namespace

OpenAiSubject::OpenAiSubject(const OpenAiConfig& config, const Clock& clock, std::unique_ptr<HttpClient> client)
    : config_(config), clock_(clock), client_(std::move(client)) {
  for (const char* field : kOptionalFields) fields_[field] = Field::kUntried;
  for (const char* field : {"echo", "prompt_logprobs", "prompt (ids)", "temperature", "max_tokens"}) fields_[field] = Field::kUntried;
}

HttpRequest OpenAiSubject::MakeRequest(const std::string& method, const std::string& path, std::string body) const {
  HttpRequest request{method, path, config_.api_key, std::move(body), kProbeTimeoutMs};
  if (method != "GET") request.timeout_ms = config_.timeout_seconds * 1000;
  return request;
}

bool OpenAiSubject::Sends(const std::string& field) const { return fields_.at(field) != Field::kRefused; }

void OpenAiSubject::Raise(const std::string& field, Field state) { fields_.at(field) = std::max(fields_.at(field), state); }

// One fixed order of fields and one number format: the same question is the same bytes, whatever the arm. Only cache_salt, the
// last field, may differ between two asks.
std::string OpenAiSubject::Body(const Question& question, const std::string& cache_salt) const {
  const bool scoring = question.scoring != Question::Scoring::kNone;
  const bool chat = !capabilities_.completions;
  std::string body = "{\"model\":" + DumpJson(Json(model_));
  const auto add = [&](const std::string& field, const std::string& value) { body += ",\"" + field + "\":" + value; };
  const auto offer = [&](const std::string& field, const std::string& value) {
    if (Sends(field)) add(field, value);
  };
  if (chat) {
    add("messages", "[{\"role\":\"user\",\"content\":" + DumpJson(Json(question.text)) + "}]");
  } else {
    add("prompt", question.ids.empty() ? DumpJson(Json(question.text)) : DumpJson(Json(question.ids)));
  }
  const Sampling& sampling = question.sampling;
  add("max_tokens", std::to_string(question.max_tokens));
  add("temperature", Number(sampling.temperature));
  offer("top_p", Number(sampling.top_p));
  offer("top_k", sampling.top_k == 0 ? top_k_off_ : std::to_string(sampling.top_k));
  offer("min_p", Number(sampling.min_p));
  if (Sends("repetition_penalty")) add(repetition_name_, Number(sampling.repetition_penalty));
  offer("frequency_penalty", Number(sampling.frequency_penalty));
  offer("presence_penalty", Number(sampling.presence_penalty));
  offer("seed", std::to_string(sampling.seed));
  offer("ignore_eos", "true");
  if (!scoring) {
    offer("stream", "true");
    if (Sends("stream")) offer("stream_options", "{\"include_usage\":true}");
  }
  if (question.evidence) {
    if (chat) offer("logprobs", "true,\"top_logprobs\":2");
    else offer("logprobs", scoring ? "1" : "2");
    offer("return_token_ids", "true");
  }
  if (question.scoring == Question::Scoring::kEcho) add("echo", "true");
  if (question.scoring == Question::Scoring::kPromptLogprobs) add("prompt_logprobs", "1");
  if (!cache_salt.empty()) offer("cache_salt", DumpJson(Json(cache_salt)));
  return body + "}";
}

struct OpenAiSubject::InFlight {
  std::size_t index = 0;
  AnswerReader reader;
  std::int64_t started_nanos = 0;
};

std::vector<Answer> OpenAiSubject::Run(std::span<const Ask> asks, std::int64_t max_in_flight, const std::function<void()>& on_done) {
  std::vector<Answer> answers(asks.size());
  std::vector<std::string> digests(asks.size()), question_digests(asks.size());
  std::vector<char> started(asks.size(), 0), ended(asks.size(), 0);
  std::map<ExchangeId, InFlight> flying;
  std::vector<std::int64_t> num_tokens(asks.size(), 0);
  std::size_t num_ended = 0;
  ExchangeId gauge_exchange = -1;
  std::string gauge_body;
  std::int64_t next_gauge_nanos = clock_.MonotonicNanos();
  peak_running_ = capabilities_.running_gauge.empty() ? -1 : 0;

  const auto finish = [&](ExchangeId exchange, InFlight& flight) {
    Answer& answer = flight.reader.answer();
    answer.started_nanos = flight.started_nanos;
    answer.request_sha256 = digests[flight.index];
    answer.question_sha256 = question_digests[flight.index];
    if (!answer.fingerprint.empty()) fingerprint_ = answer.fingerprint;
    answers[flight.index] = std::move(answer);
    ended[flight.index] = 1;
    ++num_ended;
    flying.erase(exchange);
    if (on_done) on_done();
  };
  const auto cancel = [&](ExchangeId exchange, InFlight& flight) {
    client_->Cancel(exchange);
    flight.reader.answer().cancelled = true;
    flight.reader.answer().finished_nanos = clock_.MonotonicNanos();
    finish(exchange, flight);
  };

  while (num_ended < asks.size()) {
    for (std::size_t i = 0; i < asks.size() && static_cast<std::int64_t>(flying.size()) < max_in_flight; ++i) {
      if (started[i]) continue;
      if (asks[i].after_ask >= 0) {
        const auto other = static_cast<std::size_t>(asks[i].after_ask);
        if (!ended[other] && num_tokens[other] < asks[i].after_tokens) continue;
      }
      const std::string body = Body(asks[i].question, asks[i].cache_salt);
      digests[i] = Sha256Hex(body);
      question_digests[i] = Sha256Hex(Body(asks[i].question, ""));
      requests_sha256_ = Sha256Hex(requests_sha256_ + digests[i]);
      ++num_requests_;
      started[i] = 1;
      const std::int64_t now = clock_.MonotonicNanos();
      const ExchangeId exchange = client_->Start(
          MakeRequest("POST", capabilities_.completions ? "/v1/completions" : "/v1/chat/completions", body));
      flying[exchange].index = i;
      flying[exchange].started_nanos = now;
    }
    if (!capabilities_.running_gauge.empty() && max_in_flight > 1 && gauge_exchange < 0 &&
        clock_.MonotonicNanos() >= next_gauge_nanos) {
      gauge_body.clear();
      gauge_exchange = client_->Start(MakeRequest("GET", "/metrics", ""));
    }
    std::int64_t wait_ms = max_in_flight > 1 ? kGaugePeriodMs : 1000;
    for (const auto& [exchange, flight] : flying) {
      if (asks[flight.index].cancel_after_ms > 0) {
        const std::int64_t at = flight.started_nanos + asks[flight.index].cancel_after_ms * 1'000'000;
        wait_ms = std::clamp<std::int64_t>((at - clock_.MonotonicNanos() + 999'999) / 1'000'000, 0, wait_ms);
      }
    }
    for (const HttpEvent& event : client_->Poll(wait_ms)) {
      if (event.exchange == gauge_exchange) {
        if (event.kind == HttpEvent::Kind::kBody) gauge_body += event.bytes;
        if (event.kind == HttpEvent::Kind::kEnd || event.kind == HttpEvent::Kind::kError) {
          peak_running_ = std::max(peak_running_, ReadGauge(gauge_body));
          gauge_exchange = -1;
          next_gauge_nanos = event.at_nanos + kGaugePeriodMs * 1'000'000;
        }
        continue;
      }
      const auto found = flying.find(event.exchange);
      if (found == flying.end()) continue;
      InFlight& flight = found->second;
      switch (event.kind) {
        case HttpEvent::Kind::kHead: flight.reader.Head(event.status, event.event_stream); break;
        case HttpEvent::Kind::kBody: flight.reader.Body(event.bytes, event.at_nanos); break;
        case HttpEvent::Kind::kEnd: flight.reader.End(event.at_nanos); break;
        case HttpEvent::Kind::kError: flight.reader.Broke(event.bytes, event.at_nanos); break;
      }
      num_tokens[flight.index] = static_cast<std::int64_t>(flight.reader.answer().token_nanos.size());
      if (event.kind == HttpEvent::Kind::kEnd || event.kind == HttpEvent::Kind::kError) finish(event.exchange, flight);
    }
    const std::int64_t now = clock_.MonotonicNanos();
    for (auto it = flying.begin(); it != flying.end();) {
      const auto current = it++;
      const Ask& ask = asks[current->second.index];
      const bool late = ask.cancel_after_ms > 0 && now >= current->second.started_nanos + ask.cancel_after_ms * 1'000'000;
      const bool enough = ask.cancel_after_tokens > 0 && num_tokens[current->second.index] >= ask.cancel_after_tokens;
      if (late || enough) cancel(current->first, current->second);
    }
  }
  if (gauge_exchange >= 0) client_->Cancel(gauge_exchange);
  return answers;
}

Answer OpenAiSubject::AskOnce(const Question& question, const std::string& cache_salt) {
  const Ask ask{question, cache_salt};
  return Run(std::span(&ask, 1), 1, {})[0];
}

// Sum over all label sets: one server may report several engines.
std::int64_t OpenAiSubject::ReadGauge(const std::string& metrics) const {
  std::int64_t sum = -1;
  for (std::size_t begin = 0; begin < metrics.size();) {
    const std::size_t end = std::min(metrics.find('\n', begin), metrics.size());
    const std::string_view line(metrics.data() + begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(capabilities_.running_gauge)) continue;
    const char next = line.size() > capabilities_.running_gauge.size() ? line[capabilities_.running_gauge.size()] : '\0';
    if (next != '{' && next != ' ') continue;
    const std::size_t close = next == '{' ? line.rfind('}') : capabilities_.running_gauge.size() - 1;
    if (close == std::string_view::npos) continue;
    const std::size_t value = line.find_first_not_of(' ', close + 1);
    double number = 0;
    if (value == std::string_view::npos) continue;
    if (std::from_chars(line.data() + value, line.data() + line.size(), number).ec != std::errc()) continue;
    sum = std::max<std::int64_t>(sum, 0) + static_cast<std::int64_t>(number);
  }
  return sum;
}

Result<std::unique_ptr<OpenAiSubject>> OpenAiSubject::Connect(const OpenAiConfig& config, const Clock& clock,
                                                              const std::function<void(const std::string&)>& on_probe) {
  ISOBIT_ASSIGN(const HttpAddress address, ParseHttpUrl(config.url));
  ISOBIT_ASSIGN(auto client, HttpClient::Create(address, clock));
  std::unique_ptr<OpenAiSubject> subject(new OpenAiSubject(config, clock, std::move(client)));
  const auto tell = [&](const std::string& what) {
    if (on_probe) on_probe("probing: " + what);
  };
  tell("model");
  ISOBIT_TRY(subject->FindModel());
  ISOBIT_TRY(subject->FindEndpoint());
  tell("request fields");
  subject->ProbeAcceptance();
  tell("ids and log-probabilities");
  subject->ProbeEvidence();
  tell("sampling fields");
  subject->ProbeSampling();
  tell("echo and prompt log-probabilities");
  subject->ProbePromptForms();
  tell("cache");
  subject->ProbeCache();
  subject->ProbeFacts();
  return subject;
}

Status OpenAiSubject::FindModel() {
  ISOBIT_ASSIGN(const HttpReply reply, Fetch(*client_, MakeRequest("GET", "/v1/models", "")));
  server_ = reply.server;
  if (reply.status == 401 || reply.status == 403) {
    return Fail(ErrorCode::kInvalidArgument, "api_key", "the server answers {}: {}; give its key with --api-key", reply.status,
                ErrorMessage(reply.body));
  }
  model_ = config_.model;
  if (!model_.empty()) return {};
  const auto models = ParseRawJson(reply.body);
  const RawJson* data = reply.status == 200 && models.ok() ? models->Find("data") : nullptr;
  if (data == nullptr || !data->is_array() || data->items.empty() || data->items[0].StringAt("id").empty()) {
    return Fail(ErrorCode::kNotFound, "model", "/v1/models names none (HTTP {}: {}); give one with --model-name", reply.status,
                ErrorMessage(reply.body));
  }
  model_ = data->items[0].StringAt("id");
  return {};
}

// A bare question on each endpoint; the first that answers is used.
Status OpenAiSubject::FindEndpoint() {
  std::string why;
  for (const bool completions : {true, false}) {
    const std::string path = completions ? "/v1/completions" : "/v1/chat/completions";
    const std::string prompt = completions ? "\"prompt\":\"Hello\"" : "\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]";
    ISOBIT_ASSIGN(const HttpReply reply,
                  Fetch(*client_, MakeRequest("POST", path, "{\"model\":" + DumpJson(Json(model_)) + "," + prompt +
                                                                ",\"max_tokens\":1,\"temperature\":0}")));
    if (reply.status == 200) {
      capabilities_.completions = completions;
      return {};
    }
    why += fmt::format("{}{}: HTTP {}: {}", why.empty() ? "" : "; ", path, reply.status, ErrorMessage(reply.body));
  }
  return Fail(ErrorCode::kNotFound, "url", "no endpoint answers a one-token question ({})", why);
}

// All optional fields at once; if that is refused, each alone.
void OpenAiSubject::ProbeAcceptance() {
  Question question;
  question.text = "Hello";
  question.max_tokens = 2;
  const auto offered = fields_;
  if (AskOnce(question, "isobit-probe").ok()) {
    for (const char* field : kOptionalFields) Raise(field, Field::kAccepted);
    return;
  }
  std::map<std::string, Field> found = offered;
  for (const char* field : kOptionalFields) {
    for (const char* other : kOptionalFields) fields_[other] = Field::kRefused;
    fields_[field] = Field::kAccepted;
    if (std::string(field) == "stream_options") fields_["stream"] = Field::kAccepted;
    Answer answer = AskOnce(question, "isobit-probe");
    if (!answer.ok() && std::string(field) == "top_k") {
      top_k_off_ = "-1";
      answer = AskOnce(question, "isobit-probe");
    }
    found[field] = answer.ok() ? Field::kAccepted : Field::kRefused;
    if (!answer.ok()) refusals_[field] = answer.error;
  }
  fields_ = found;
}

void OpenAiSubject::ProbeEvidence() {
  Question question;
  question.text = kProbeText;
  question.max_tokens = kProbeTokens;
  plain_ = AskOnce(question, "");
  if (!plain_.ok()) refusals_["all accepted fields together"] = plain_.error;
  capabilities_.stream = plain_.streamed && plain_.token_nanos.size() > 1;
  capabilities_.token_ids = !plain_.ids.empty();
  capabilities_.logprobs = !plain_.scores.empty();
  if (plain_.streamed) Raise("stream", Field::kHonoured);
  if (plain_.streamed && plain_.completion_tokens >= 0) Raise("stream_options", Field::kHonoured);
  if (capabilities_.token_ids) Raise("return_token_ids", Field::kHonoured);
  if (capabilities_.logprobs) Raise("logprobs", Field::kHonoured);
  const std::int64_t length =
      plain_.completion_tokens >= 0 ? plain_.completion_tokens : static_cast<std::int64_t>(plain_.positions());
  if (length > 0 && length <= kProbeTokens) Raise("max_tokens", Field::kHonoured);
  capabilities_.cached_tokens = plain_.cached_tokens >= 0;
}

// A field counts as honoured only when its effect was seen: at temperature 1, top_k = 1, top_p near 0 and min_p = 1 must each give
// the greedy answer back, and a strong penalty must change it.
void OpenAiSubject::ProbeSampling() {
  Question greedy;
  greedy.text = kProbeText;
  greedy.max_tokens = kProbeTokens;
  Question sampled = greedy;
  sampled.sampling.temperature = 1;
  sampled.sampling.seed = 11;
  const Answer first = AskOnce(sampled, "");
  const Answer again = AskOnce(sampled, "");
  sampled.sampling.seed = 12;
  const Answer other = AskOnce(sampled, "");
  sampled.sampling.seed = 11;
  const bool moved = first.ok() && other.ok() && (!SameContent(first, plain_) || !SameContent(other, plain_));
  if (moved) Raise("temperature", Field::kHonoured);
  capabilities_.seed = Sends("seed") && again.ok() && moved && SameContent(first, again) && !SameContent(first, other);
  if (capabilities_.seed) Raise("seed", Field::kHonoured);

  const auto effect = [&](const char* field, const Question& question, bool must_equal_greedy) {
    if (!Sends(field)) return;
    const Answer answer = AskOnce(question, "");
    if (answer.ok() && SameContent(answer, plain_) == must_equal_greedy) Raise(field, Field::kHonoured);
  };
  if (moved) {
    Question question = sampled;
    question.sampling.top_k = 1;
    effect("top_k", question, true);
    question = sampled;
    question.sampling.top_p = 1e-6;
    effect("top_p", question, true);
    question = sampled;
    question.sampling.min_p = 1;
    effect("min_p", question, true);
  }
  Question question = greedy;
  question.sampling.repetition_penalty = 2;
  effect("repetition_penalty", question, false);
  if (fields_["repetition_penalty"] == Field::kAccepted) {
    repetition_name_ = "repeat_penalty";
    effect("repetition_penalty", question, false);
    if (fields_["repetition_penalty"] != Field::kHonoured) repetition_name_ = "repetition_penalty";
  }
  question = greedy;
  question.sampling.frequency_penalty = 2;
  effect("frequency_penalty", question, false);
  question = greedy;
  question.sampling.presence_penalty = 2;
  effect("presence_penalty", question, false);
}

void OpenAiSubject::ProbePromptForms() {
  if (!capabilities_.completions) {
    for (const char* field : {"echo", "prompt_logprobs", "prompt (ids)"}) fields_[field] = Field::kRefused;
    return;
  }
  Question question;
  question.text = kProbeText;
  question.max_tokens = kProbeTokens;
  if (!plain_.prompt_ids.empty()) {
    question.ids = plain_.prompt_ids;
    const Answer answer = AskOnce(question, "");
    fields_["prompt (ids)"] = answer.ok() ? Field::kAccepted : Field::kRefused;
    if (!answer.ok()) refusals_["prompt (ids)"] = answer.error;
    capabilities_.prompt_ids = answer.ok() && SameContent(answer, plain_) &&
                               (answer.prompt_ids.empty() || answer.prompt_ids == plain_.prompt_ids);
    if (capabilities_.prompt_ids) Raise("prompt (ids)", Field::kHonoured);
  }
  question.max_tokens = 1;
  const std::size_t prompt_length =
      plain_.prompt_ids.empty() ? static_cast<std::size_t>(std::max<std::int64_t>(plain_.prompt_tokens, 2)) : plain_.prompt_ids.size();
  for (const auto scoring : {Question::Scoring::kEcho, Question::Scoring::kPromptLogprobs}) {
    const bool is_echo = scoring == Question::Scoring::kEcho;
    question.scoring = scoring;
    const Answer answer = AskOnce(question, "");
    const char* field = is_echo ? "echo" : "prompt_logprobs";
    fields_[field] = answer.ok() ? Field::kAccepted : Field::kRefused;
    if (!answer.ok()) refusals_[field] = answer.error;
    // Exactly prompt + generated entries for echo: a list that is one short shifts every score.
    const bool whole = is_echo ? answer.scores.size() == prompt_length + 1 && answer.scores[1].chosen.digits != "null"
                               : answer.prompt_scores.size() == prompt_length && answer.prompt_scores[1].digits != "null";
    (is_echo ? capabilities_.echo : capabilities_.prompt_logprobs) = answer.ok() && whole;
    if (answer.ok() && whole) Raise(field, Field::kHonoured);
  }
}

// New salt: no hit. Same salt again: a hit. Another salt: no hit. Only a server whose counter moves so can be asked for a cold run.
void OpenAiSubject::ProbeCache() {
  if (!Sends("cache_salt") || !capabilities_.cached_tokens) return;
  Question question;
  question.text = kProbeText;
  question.max_tokens = 1;
  const std::string salt = fmt::format("isobit-probe-{:016x}", SystemEntropy());
  const Answer cold = AskOnce(question, salt + "-a");
  const Answer warm = AskOnce(question, salt + "-a");
  const Answer cold_again = AskOnce(question, salt + "-b");
  capabilities_.cache_salt = cold.ok() && warm.ok() && cold_again.ok() && cold.cached_tokens == 0 && warm.cached_tokens > 0 &&
                             cold_again.cached_tokens == 0;
  if (capabilities_.cache_salt) Raise("cache_salt", Field::kHonoured);
}

void OpenAiSubject::ProbeFacts() {
  if (const auto reply = Fetch(*client_, MakeRequest("GET", "/version", "")); reply.ok() && reply->status == 200) {
    if (const auto parsed = ParseRawJson(reply->body); parsed.ok()) version_ = parsed->StringAt("version");
  }
  const auto reply = Fetch(*client_, MakeRequest("GET", "/metrics", ""));
  if (!reply.ok() || reply->status != 200) return;
  for (const char* gauge : kRunningGauges) {
    capabilities_.running_gauge = gauge;
    if (ReadGauge(reply->body) >= 0) return;
  }
  capabilities_.running_gauge.clear();
}

Json OpenAiSubject::Describe() const {
  constexpr const char* kStates[] = {"untried", "refused", "accepted", "honoured"};
  Json subject;
  subject["url"] = config_.url;
  subject["model"] = model_;
  subject["endpoint"] = capabilities_.completions ? "/v1/completions" : "/v1/chat/completions";
  subject["server"] = server_;
  subject["version"] = version_;
  subject["system_fingerprint"] = fingerprint_;
  subject["stream"] = capabilities_.stream;
  subject["token_ids"] = capabilities_.token_ids;
  subject["logprobs"] = capabilities_.logprobs;
  subject["echo"] = capabilities_.echo;
  subject["prompt_logprobs"] = capabilities_.prompt_logprobs;
  subject["prompt_ids"] = capabilities_.prompt_ids;
  subject["seed"] = capabilities_.seed;
  subject["cache_salt"] = capabilities_.cache_salt;
  subject["cached_tokens"] = capabilities_.cached_tokens;
  subject["running_gauge"] = capabilities_.running_gauge;
  Json fields = Json::object();
  for (const auto& [field, state] : fields_) fields[field] = kStates[static_cast<int>(state)];
  subject["request_fields"] = fields;
  Json refusals = Json::object();
  for (const auto& [field, why] : refusals_) refusals[field] = why;
  subject["refusals"] = refusals;
  subject["repetition_penalty_is_called"] = repetition_name_;
  subject["num_requests"] = num_requests_;
  subject["requests_sha256"] = requests_sha256_;
  return subject;
}

}  // namespace isobit::gate
