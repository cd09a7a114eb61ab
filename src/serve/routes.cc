#include "serve/routes.h"

#include <algorithm>

#include "base/random.h"
#include "serve/version.h"

namespace isobit {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 256;
constexpr std::size_t kMaxLoggedPathBytes = 256;
constexpr std::string_view kModelPrefix = "/v1/models/";

enum class Access { kKey, kFreeIfAsked, kFree };  // with a key; without where --open-paths says so; always without

bool IsHeaderWord(std::string_view text) {
  return !text.empty() && text.size() <= kMaxRequestIdBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

std::string Api::RequestId(const HttpRequest& request, const std::string& field) {
  const std::string_view header = request.Header("x-request-id");
  if (IsHeaderWord(header)) return std::string(header);
  return IsHeaderWord(field) ? field : fmt::format("req-{:016x}", SystemEntropy());
}

struct Api::Route {
  const char* method;
  const char* path;
  Access access;
  // One of: an answer made at once from the request, or one that takes the exchange.
  HttpResponse (*answer)(const Api&, const HttpRequest&);
  void (*start)(Api&, std::shared_ptr<HttpExchange>);
};

const Api::Route* Api::FindRoute(const HttpRequest& request) {
  constexpr auto health = [](const Api& api, const HttpRequest&) { return api.Health(); };
  constexpr auto tokenize = [](const Api& api, const HttpRequest& http) { return api.Tokenize(http); };
  constexpr auto detokenize = [](const Api& api, const HttpRequest& http) { return api.Detokenize(http); };
  constexpr auto render = [](const Api& api, const HttpRequest& http) { return api.RenderChat(http); };
  static const Route kRoutes[] = {
      {"POST", "/v1/completions", Access::kKey, nullptr, [](Api& api, std::shared_ptr<HttpExchange> e) { api.Complete(std::move(e)); }},
      {"POST", "/v1/chat/completions", Access::kKey, nullptr, [](Api& api, std::shared_ptr<HttpExchange> e) { api.Chat(std::move(e)); }},
      {"POST", "/v1/chat/completions/render", Access::kKey, render, nullptr},
      {"POST", "/apply-template", Access::kKey, render, nullptr},
      {"POST", "/tokenize", Access::kFreeIfAsked, tokenize, nullptr},
      {"POST", "/v1/tokenize", Access::kFreeIfAsked, tokenize, nullptr},
      {"POST", "/detokenize", Access::kKey, detokenize, nullptr},
      {"POST", "/v1/detokenize", Access::kKey, detokenize, nullptr},
      {"GET", "/tokenizer_info", Access::kFreeIfAsked, [](const Api& api, const HttpRequest&) { return api.TokenizerInfo(); }, nullptr},
      {"GET", "/v1/models", Access::kKey, [](const Api& api, const HttpRequest&) { return api.Models(); }, nullptr},
      {"GET", "/metrics", Access::kFreeIfAsked, [](const Api& api, const HttpRequest&) { return api.MetricsText(); }, nullptr},
      {"GET", "/version", Access::kKey, [](const Api& api, const HttpRequest&) { return api.Version(); }, nullptr},
      {"GET", "/health", Access::kFree, health, nullptr},
      {"GET", "/v1/health", Access::kFree, health, nullptr},
      {"GET", "/ping", Access::kFree, health, nullptr},
  };
  static const Route kModelRoute = {
      "GET", "/v1/models/{id}", Access::kKey,
      [](const Api& api, const HttpRequest& http) { return api.Model(http.path.substr(kModelPrefix.size())); }, nullptr};
  if (request.path.size() > kModelPrefix.size() && request.path.compare(0, kModelPrefix.size(), kModelPrefix) == 0) return &kModelRoute;
  for (const Route& route : kRoutes) {
    if (request.path == route.path) return &route;
  }
  return nullptr;
}

Api::Api(const ServerConfig& config, const ServingModel& model, Engine& engine, const Clock& clock)
    : context_{.config = config,
               .model = model,
               .engine = engine,
               .clock = clock,
               .inbox = std::make_shared<EventInbox>(),
               .metrics = Metrics(model, config.metrics_compat_vllm),
               .fingerprint = fmt::format("isobit-{}-{}", kVersion, model.model_contract_id.substr(0, 12))},
      keys_(config.api_keys),
      encoder_(model.tokenizer, model.chat_template) {}

void Api::DeliverEvents() {
  for (InboxEvent& event : context_.inbox->Take()) {
    const auto found = context_.active.find(event.generation);
    if (found == context_.active.end()) continue;
    const std::shared_ptr<Generation> generation = found->second;
    generation->OnEvent(event.choice, std::move(event.event), event.nanos);
    if (generation->retired()) context_.active.erase(event.generation);
  }
}

void Api::Tick() {
  const std::int64_t now = context_.clock.MonotonicNanos();
  std::vector<std::shared_ptr<Generation>> generations;  // a copy: a write may find a client gone
  for (const auto& [key, generation] : context_.active) generations.push_back(generation);
  for (const auto& generation : generations) generation->Tick(now);
}

// Why a request is not for us at all: who asks, what path, what method.
std::optional<ApiError> Api::Refusal(const HttpRequest& request) const {
  const Route* route = FindRoute(request);
  const bool open = route != nullptr && (route->access == Access::kFree ||
                                         (route->access == Access::kFreeIfAsked && context_.config.open_paths));
  if (!open && !keys_.Allows(request.Header("authorization"))) {
    return ApiError{401, "invalid_api_key", "", "this server needs an API key: send \"Authorization: Bearer KEY\" with a valid one"};
  }
  if (route == nullptr) return ApiError{404, "not_found", "", fmt::format("there is no {} here; see /v1/models, /v1/completions", request.path)};
  const bool head = request.method == "HEAD" && std::string_view(route->method) == "GET";
  if (request.method != route->method && !head) {
    return ApiError{405, "method_not_allowed", "", fmt::format("{} answers {} only", request.path, route->method)};
  }
  return std::nullopt;
}

std::optional<HttpResponse> Api::CheckHead(const HttpRequest& request) {
  // Without a body there is nothing to spare: Handle says the same and keeps the connection.
  const std::string_view length = request.Header("content-length");
  const bool has_body = (!length.empty() && length != "0") || !request.Header("transfer-encoding").empty();
  if (!has_body) return std::nullopt;
  std::optional<ApiError> refusal = Refusal(request);
  if (!refusal) return std::nullopt;
  HttpResponse response = ErrorResponse(*refusal);
  for (auto& header : CommonHeaders(RequestId(request))) response.headers.push_back(std::move(header));
  if (refusal->status == 405) response.headers.emplace_back("allow", FindRoute(request)->method);
  context_.metrics.HttpAnswered(response.status);
  return response;
}

HttpHeaders Api::CommonHeaders(const std::string& request_id) const {
  return {{"server", fmt::format("isobit/{}", kVersion)}, {"x-request-id", request_id}, {"x-isobit-contract", context_.model.contract_id}};
}

void Api::Answer(HttpExchange& exchange, HttpResponse response) {
  const std::string request_id = RequestId(exchange.request());
  for (auto& header : CommonHeaders(request_id)) response.headers.push_back(std::move(header));
  context_.metrics.HttpAnswered(response.status);
  JsonWriter line;
  line.BeginObject().Key("event").String("request").Key("request_id").String(request_id);
  line.Key("path").String(std::string_view(exchange.request().path).substr(0, kMaxLoggedPathBytes)).Key("status").Int(response.status);
  line.EndObject();
  context_.Log(line.text());
  exchange.Respond(std::move(response));
}

void Api::Handle(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  if (const std::optional<ApiError> refusal = Refusal(request)) {
    HttpResponse response = ErrorResponse(*refusal);
    if (refusal->status == 405) response.headers.emplace_back("allow", FindRoute(request)->method);
    Answer(*exchange, std::move(response));
    return;
  }
  const Route* route = FindRoute(request);
  if (route->start != nullptr) route->start(*this, std::move(exchange));
  else Answer(*exchange, route->answer(*this, request));
}

HttpResponse Api::TransportError(int status, const std::string& message) {
  const char* code = status == 413   ? "payload_too_large"
                     : status == 431 ? "headers_too_large"
                     : status == 408 ? "request_timeout"
                     : status == 503 ? "too_many_connections"
                                     : "invalid_http";
  context_.metrics.HttpAnswered(status);
  HttpResponse response = ErrorResponse({status, code, "", message});
  for (auto& header : CommonHeaders(RequestId({}))) response.headers.push_back(std::move(header));
  return response;
}

}  // namespace isobit
