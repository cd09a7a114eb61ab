// Api: which path does what. Every answer that is not a generation is made here or in the *_routes.cc files; generations are
// planned here and answered by Generation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/auth.h"
#include "serve/chat_prompt.h"
#include "serve/http_server.h"
#include "serve/request_state.h"

namespace isobit {

class Api final : public HttpHandler {
 public:
  // All arguments outlive the Api.
  Api(const ServerConfig& config, const ServingModel& model, Engine& engine, const Clock& clock);

  // Hands over what the engine said since the last call; to be called when the inbox wakes.
  void DeliverEvents();
  EventInbox& inbox() { return *context_.inbox; }
  void SetConnectionCounter(std::function<std::int64_t()> counter) { num_connections_ = std::move(counter); }

  std::optional<HttpResponse> CheckHead(const HttpRequest& request) override;
  void Handle(std::shared_ptr<HttpExchange> exchange) override;
  HttpResponse TransportError(int status, const std::string& message) override;
  void Tick() override;

 private:
  struct Route;
  static const Route* FindRoute(const HttpRequest& request);
  std::optional<ApiError> Refusal(const HttpRequest& request) const;
  // The header's x-request-id, the body's request_id or a new one.
  static std::string RequestId(const HttpRequest& request, const std::string& field = {});
  HttpHeaders CommonHeaders(const std::string& request_id) const;
  void Answer(HttpExchange& exchange, HttpResponse response);

  // generate_routes.cc
  void Complete(std::shared_ptr<HttpExchange> exchange);
  void Chat(std::shared_ptr<HttpExchange> exchange);
  void Generate(std::shared_ptr<HttpExchange> exchange, bool chat);
  Result<GenerationPlan> Plan(const HttpRequest& http, bool chat, std::int64_t arrival_nanos) const;
  Status PlanPrompts(GenerationPlan& plan) const;
  Status PlanLength(GenerationPlan& plan) const;
  RequestLimits Limits() const;

  // info_routes.cc
  HttpResponse Health() const;
  HttpResponse Version() const;
  HttpResponse Models() const;
  HttpResponse Model(const std::string& id) const;
  HttpResponse TokenizerInfo() const;
  HttpResponse MetricsText() const;

  // tokenize_routes.cc
  HttpResponse Tokenize(const HttpRequest& request) const;
  HttpResponse Detokenize(const HttpRequest& request) const;
  HttpResponse RenderChat(const HttpRequest& request) const;

  ServeContext context_;
  ApiKeys keys_;
  PromptEncoder encoder_;
  std::function<std::int64_t()> num_connections_;
};

}  // namespace isobit
