// HttpServer: HTTP/1.1 on one thread, with bounded heads, bodies, connections and buffers. Knows no JSON and no model. The only
// file that includes Boost is http_server.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace isobit {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "POST"
  std::string path;     // before '?', percent-decoded
  std::string query;    // after '?', as sent
  HttpHeaders headers;  // names in lower case, in the order sent
  std::string body;

  // The first header of that (lower-case) name; empty if absent.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;
  std::string body;
};

// One request being answered, by exactly one of Respond() and StartStream()...Finish(). To be used on the server's thread only.
// Every call is harmless once the client has left.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;
  virtual void DropBody() = 0;  // frees the request's body, which nobody needs any more
  virtual void Respond(HttpResponse response) = 0;
  virtual void StartStream(HttpResponse head) = 0;   // head.body is the first part
  virtual void Write(std::string_view part) = 0;     // never blocks; a client that lets too much pile up is cut off
  virtual void Finish() = 0;
  // Called once if the client leaves (or is cut off) before its answer was handed over completely.
  virtual void OnClosed(std::function<void()> callback) = 0;
  virtual bool closed() const = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // After the head, before the body is read: an answer refuses the request, and the connection closes after it.
  virtual std::optional<HttpResponse> CheckHead(const HttpRequest& request) = 0;
  virtual void Handle(std::shared_ptr<HttpExchange> exchange) = 0;
  // The answer to bytes that are no request, to a body or head that is too large, and to one connection too many.
  virtual HttpResponse TransportError(int status, const std::string& message) = 0;
  virtual void Tick() = 0;  // once a second
};

struct HttpServerConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one
  std::int64_t max_body_bytes = 16 << 20;
  std::int64_t max_header_bytes = 64 << 10;
  std::int64_t max_connections = 8192;
  std::int64_t idle_timeout_seconds = 120;       // without a request, within a head, without progress of a body or an answer
  std::int64_t max_stream_buffer_bytes = 1 << 20;  // written by Write() and not yet taken by the kernel
  std::int64_t max_pipelined_bytes = 64 << 10;   // read ahead while a request is being answered
};

class HttpServer {
 public:
  // Binds and listens. handler and clock outlive the server.
  static Result<std::unique_ptr<HttpServer>> Create(const HttpServerConfig& config, HttpHandler& handler, const Clock& clock);
  ~HttpServer();

  std::uint16_t port() const;
  void Run();  // until Stop()
  // Thread-safe. Stops accepting, closes idle connections, lets answers in progress finish for at most drain_seconds.
  void Stop(std::int64_t drain_seconds);
  // Thread-safe: runs the function on the server's thread, in the order posted. Dropped after Run() returned.
  void Post(std::function<void()> function);
  std::int64_t num_connections() const;  // on the server's thread

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit
