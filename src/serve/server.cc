#include "serve/server.h"

#include "serve/http_server.h"
#include "serve/routes.h"

namespace isobit {

struct Server::Impl {
  Impl(const ServerConfig& server_config, const ServingModel& serving_model, Engine& engine, const Clock& clock)
      : config(server_config), model(serving_model), api(config, model, engine, clock) {}

  const ServerConfig config;
  const ServingModel model;
  Api api;
  std::unique_ptr<HttpServer> http;
};

Result<std::unique_ptr<Server>> Server::Create(const ServerConfig& config, const ServingModel& model, Engine& engine,
                                               const Clock& clock) {
  ISOBIT_CHECK(model.tokenizer != nullptr);
  auto impl = std::make_unique<Impl>(config, model, engine, clock);
  const HttpServerConfig http_config{.host = config.host,
                                     .port = config.port,
                                     .max_body_bytes = config.max_body_bytes,
                                     .max_header_bytes = config.max_header_bytes,
                                     .max_connections = config.max_connections,
                                     .idle_timeout_seconds = config.idle_timeout_seconds};
  ISOBIT_ASSIGN(impl->http, HttpServer::Create(http_config, impl->api, clock));
  HttpServer* const http = impl->http.get();
  Api* const api = &impl->api;
  api->inbox().Open([http, api] { http->Post([api] { api->DeliverEvents(); }); });
  api->SetConnectionCounter([http] { return http->num_connections(); });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { impl_->api.inbox().Close(); }

std::uint16_t Server::port() const { return impl_->http->port(); }
void Server::Run() { impl_->http->Run(); }
void Server::Stop(std::int64_t drain_seconds) { impl_->http->Stop(drain_seconds); }

}  // namespace isobit
