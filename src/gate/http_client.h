// HttpClient: many HTTP/1.1 exchanges on one thread over poll(2), every arrival stamped by the Clock. http:// only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace isobit::gate {

struct HttpAddress {
  std::string host;          // "127.0.0.1", "::1", "localhost"
  std::string port = "80";
  std::string base_path;     // what stands before /v1: "" or "/proxy"; never ends in '/'

  std::string HostHeader() const;
};

// "http://host:port", with or without a path or a closing /v1. https is kUnsupported and says what to do instead.
Result<HttpAddress> ParseHttpUrl(std::string_view url);

struct HttpRequest {
  std::string method = "GET";
  std::string path;          // "/v1/models", appended to base_path
  std::string bearer;        // empty: no Authorization header
  std::string body;          // JSON; empty for GET
  std::int64_t timeout_ms = 30'000;  // for the whole exchange
};

using ExchangeId = std::int64_t;

// In order: kHead, kBody..., then kEnd or kError; kError may come at any time and is the last.
struct HttpEvent {
  enum class Kind { kHead, kBody, kEnd, kError };
  Kind kind = Kind::kHead;
  ExchangeId exchange = 0;
  std::int64_t at_nanos = 0;   // when the bytes were read
  int status = 0;              // of kHead
  bool event_stream = false;   // of kHead: Content-Type is text/event-stream
  std::string server;          // of kHead: the Server header
  std::string bytes;           // of kBody, chunk framing removed; of kError, what happened
};

class HttpClient {
 public:
  // Resolves the host once. Errors: kIo with field "url". clock outlives the client.
  static Result<std::unique_ptr<HttpClient>> Create(const HttpAddress& address, const Clock& clock);
  ~HttpClient();

  // Never fails: what goes wrong arrives as an event.
  ExchangeId Start(const HttpRequest& request);
  // Closes the connection at once, as a client that leaves; no further events of this exchange. Unknown ids are ignored.
  void Cancel(ExchangeId exchange);
  // Waits until something happens, at most wait_ms, and returns it in order of arrival.
  std::vector<HttpEvent> Poll(std::int64_t wait_ms);

 private:
  struct Exchange;
  struct Resolved;
  HttpClient(HttpAddress address, const Clock& clock, std::unique_ptr<Resolved> resolved);
  void OpenSocket(Exchange& exchange);
  void Send(Exchange& exchange);
  void Receive(Exchange& exchange, std::vector<HttpEvent>& events);

  const HttpAddress address_;
  const Clock& clock_;
  const std::unique_ptr<Resolved> resolved_;
  std::map<ExchangeId, std::unique_ptr<Exchange>> exchanges_;
  ExchangeId next_exchange_ = 1;
};

// One whole exchange, for questions outside an arm. Errors: kIo with the path as field.
struct HttpReply {
  int status = 0;
  std::string server;
  std::string body;
};
Result<HttpReply> Fetch(HttpClient& client, const HttpRequest& request);

}  // namespace isobit::gate
