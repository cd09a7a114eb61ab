#include "gate/http_client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/field.hpp>

namespace isobit::gate {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;

constexpr std::size_t kMaxBodyBytes = std::size_t{256} << 20;  // of one answer; a hostile server must not fill our memory
constexpr std::uint32_t kMaxHeaderBytes = 64 << 10;
constexpr std::size_t kReadBytes = 64 << 10;

// Beast's incremental parser, so that body bytes are handed on as they arrive and chunk framing is somebody else's worry.
class ResponseParser final : public http::basic_parser<false> {
 public:
  ResponseParser() {
    eager(true);
    header_limit(kMaxHeaderBytes);
    body_limit(kMaxBodyBytes);
  }

  bool head_seen = false;
  int status = 0;
  bool event_stream = false;
  std::string server;
  std::string body;  // since the last time it was taken

 private:
  using error_code = boost::beast::error_code;
  void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
  void on_response_impl(int code, string_view, int, error_code&) override { status = code; }
  void on_field_impl(http::field name, string_view, string_view value, error_code&) override {
    if (name == http::field::content_type) event_stream = value.find("text/event-stream") != string_view::npos;
    if (name == http::field::server) server = std::string(value.data(), value.size());
  }
  void on_header_impl(error_code&) override { head_seen = true; }
  void on_body_init_impl(boost::optional<std::uint64_t> const&, error_code&) override {}
  std::size_t on_body_impl(string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}
};

}  // namespace

struct HttpClient::Resolved {
  sockaddr_storage address = {};
  socklen_t address_bytes = 0;
};

struct HttpClient::Exchange {
  ExchangeId id = 0;
  int fd = -1;
  bool connected = false;
  std::string out;        // what is still to be sent, from sent on
  std::size_t sent = 0;
  std::string in;         // bytes the parser has not taken yet
  ResponseParser parser;
  bool head_reported = false;
  std::int64_t deadline_nanos = 0;
  std::string failure;    // set once; reported by the next Poll

  ~Exchange() {
    if (fd >= 0) close(fd);
  }
};

std::string HttpAddress::HostHeader() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

Result<HttpAddress> ParseHttpUrl(std::string_view url) {
  const auto bad = [&](std::string_view why) {
    return Fail(ErrorCode::kInvalidArgument, "url", "\"{}\" {}; write it like http://127.0.0.1:8000", url, why);
  };
  if (url.starts_with("https://")) {
    return Fail(ErrorCode::kUnsupported, "url",
                "the gate speaks http:// only; give the server's plain port, or a local tunnel that ends TLS");
  }
  if (!url.starts_with("http://")) return bad("does not begin with http://");
  std::string_view rest = url.substr(7);
  HttpAddress address;
  const std::size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = slash == std::string_view::npos ? "" : rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);
  while (path.ends_with('/')) path.remove_suffix(1);
  address.base_path = std::string(path);
  if (authority.find('@') != std::string_view::npos) return bad("carries a user name; use --api-key");
  if (authority.starts_with('[')) {
    const std::size_t close_bracket = authority.find(']');
    if (close_bracket == std::string_view::npos) return bad("has no ] behind its IPv6 address");
    address.host = std::string(authority.substr(1, close_bracket - 1));
    authority.remove_prefix(close_bracket + 1);
  } else {
    const std::size_t colon = authority.find(':');
    address.host = std::string(authority.substr(0, colon));
    authority = colon == std::string_view::npos ? "" : authority.substr(colon);
  }
  if (address.host.empty()) return bad("names no host");
  if (!authority.empty()) {
    address.port = std::string(authority.substr(1));
    const bool digits = !address.port.empty() && address.port.size() <= 5 &&
                        std::all_of(address.port.begin(), address.port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (authority[0] != ':' || !digits || std::stoi(address.port) > 65535 || std::stoi(address.port) == 0) {
      return bad("has a port that is no number from 1 to 65535");
    }
  }
  for (const char c : address.host + address.base_path) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '?' || c == '#') return bad("holds a character that has no place in it");
  }
  return address;
}

Result<std::unique_ptr<HttpClient>> HttpClient::Create(const HttpAddress& address, const Clock& clock) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found); rc != 0) {
    return Fail(ErrorCode::kIo, "url", "host {} cannot be resolved: {}", address.host, gai_strerror(rc));
  }
  // "localhost" has two addresses and servers often listen on one: the first that accepts a connection is taken.
  auto resolved = std::make_unique<Resolved>();
  std::string why = "no address";
  for (const addrinfo* each = found; each != nullptr && resolved->address_bytes == 0; each = each->ai_next) {
    const int fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    int failed = connect(fd, each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
      pollfd waiting = {fd, POLLOUT, 0};
      failed = ETIMEDOUT;
      if (poll(&waiting, 1, 10'000) == 1) {
        socklen_t length = sizeof failed;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length);
      }
    }
    close(fd);
    if (failed == 0) {
      memcpy(&resolved->address, each->ai_addr, each->ai_addrlen);
      resolved->address_bytes = each->ai_addrlen;
    } else {
      why = strerror(failed);
    }
  }
  freeaddrinfo(found);
  if (resolved->address_bytes == 0) {
    return Fail(ErrorCode::kIo, "url", "no connection to {}: {}; is the server up and the port right?", address.HostHeader(), why);
  }
  return std::unique_ptr<HttpClient>(new HttpClient(address, clock, std::move(resolved)));
}

HttpClient::HttpClient(HttpAddress address, const Clock& clock, std::unique_ptr<Resolved> resolved)
    : address_(std::move(address)), clock_(clock), resolved_(std::move(resolved)) {}

HttpClient::~HttpClient() = default;

ExchangeId HttpClient::Start(const HttpRequest& request) {
  auto exchange = std::make_unique<Exchange>();
  exchange->id = next_exchange_++;
  exchange->deadline_nanos = clock_.MonotonicNanos() + request.timeout_ms * 1'000'000;
  exchange->out = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAccept: */*\r\n", request.method,
                              address_.base_path, request.path, address_.HostHeader());
  if (!request.bearer.empty()) exchange->out += fmt::format("Authorization: Bearer {}\r\n", request.bearer);
  if (request.method != "GET") {
    exchange->out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", request.body.size());
  }
  exchange->out += "\r\n" + request.body;
  OpenSocket(*exchange);
  const ExchangeId id = exchange->id;
  exchanges_.emplace(id, std::move(exchange));
  return id;
}

void HttpClient::OpenSocket(Exchange& exchange) {
  exchange.fd = socket(resolved_->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (exchange.fd < 0) {
    exchange.failure = fmt::format("no socket: {}", strerror(errno));
    return;
  }
  const int on = 1;
  setsockopt(exchange.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(exchange.fd, reinterpret_cast<const sockaddr*>(&resolved_->address), resolved_->address_bytes) != 0 &&
      errno != EINPROGRESS) {
    exchange.failure = fmt::format("no connection: {}", strerror(errno));
  }
}

void HttpClient::Cancel(ExchangeId exchange) { exchanges_.erase(exchange); }

void HttpClient::Send(Exchange& exchange) {
  if (!exchange.connected) {
    int failed = 0;
    socklen_t length = sizeof failed;
    getsockopt(exchange.fd, SOL_SOCKET, SO_ERROR, &failed, &length);
    if (failed != 0) {
      exchange.failure = fmt::format("no connection: {}", strerror(failed));
      return;
    }
    exchange.connected = true;
  }
  while (exchange.sent < exchange.out.size()) {
    const ssize_t n = send(exchange.fd, exchange.out.data() + exchange.sent, exchange.out.size() - exchange.sent, MSG_NOSIGNAL);
    if (n < 0) {
      // A server may answer (413, 401) and close before it has read the whole body: what it said is still to be read.
      if (errno == EPIPE || errno == ECONNRESET) exchange.sent = exchange.out.size();
      else if (errno != EAGAIN && errno != EINTR) exchange.failure = fmt::format("sending failed: {}", strerror(errno));
      return;
    }
    exchange.sent += static_cast<std::size_t>(n);
  }
}

void HttpClient::Receive(Exchange& exchange, std::vector<HttpEvent>& events) {
  char buffer[kReadBytes];
  const ssize_t n = recv(exchange.fd, buffer, sizeof buffer, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const std::int64_t now = clock_.MonotonicNanos();
  ResponseParser& parser = exchange.parser;
  boost::beast::error_code failed;
  if (n < 0) {
    exchange.failure = fmt::format("connection broke: {}", strerror(errno));
  } else if (n == 0) {
    if (parser.got_some()) parser.put_eof(failed);
    if (!parser.is_done() || failed) exchange.failure = "the server closed the connection before the answer was complete";
  } else {
    exchange.in.append(buffer, static_cast<std::size_t>(n));
    while (!exchange.in.empty() && !parser.is_done()) {
      const std::size_t used = parser.put(boost::asio::buffer(exchange.in), failed);
      exchange.in.erase(0, used);
      if (failed == http::error::need_more) {
        failed = {};
        break;
      }
      if (failed) {
        exchange.failure = fmt::format("not an HTTP answer: {}", failed.message());
        break;
      }
      if (used == 0) break;
    }
  }
  if (parser.head_seen && !exchange.head_reported) {
    exchange.head_reported = true;
    events.push_back({HttpEvent::Kind::kHead, exchange.id, now, parser.status, parser.event_stream, parser.server, {}});
  }
  if (!parser.body.empty()) {
    events.push_back({HttpEvent::Kind::kBody, exchange.id, now, parser.status, parser.event_stream, {}, std::move(parser.body)});
    parser.body.clear();
  }
  if (exchange.failure.empty() && parser.is_done()) {
    events.push_back({HttpEvent::Kind::kEnd, exchange.id, now, parser.status, parser.event_stream, {}, {}});
    close(exchange.fd);
    exchange.fd = -1;
  }
}

std::vector<HttpEvent> HttpClient::Poll(std::int64_t wait_ms) {
  std::vector<HttpEvent> events;
  std::vector<pollfd> waiting;
  std::vector<Exchange*> order;
  std::int64_t wake_nanos = clock_.MonotonicNanos() + wait_ms * 1'000'000;
  for (auto& [id, exchange] : exchanges_) {
    wake_nanos = exchange->failure.empty() ? std::min(wake_nanos, exchange->deadline_nanos) : 0;
    if (!exchange->failure.empty()) continue;
    const bool sending = !exchange->connected || exchange->sent < exchange->out.size();
    waiting.push_back({exchange->fd, static_cast<short>(sending ? POLLIN | POLLOUT : POLLIN), 0});
    order.push_back(exchange.get());
  }
  const std::int64_t left_nanos = std::max<std::int64_t>(0, wake_nanos - clock_.MonotonicNanos());
  poll(waiting.data(), waiting.size(), static_cast<int>((left_nanos + 999'999) / 1'000'000));
  for (std::size_t i = 0; i < order.size(); ++i) {
    Exchange& exchange = *order[i];
    if ((waiting[i].revents & (POLLOUT | POLLERR)) != 0) Send(exchange);
    if (exchange.failure.empty() && exchange.connected && (waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      Receive(exchange, events);
    }
  }
  const std::int64_t now = clock_.MonotonicNanos();
  for (auto it = exchanges_.begin(); it != exchanges_.end();) {
    Exchange& exchange = *it->second;
    if (exchange.failure.empty() && exchange.fd >= 0 && now >= exchange.deadline_nanos) {
      exchange.failure = "no complete answer within the timeout";
    }
    if (!exchange.failure.empty()) {
      events.push_back({HttpEvent::Kind::kError, exchange.id, now, 0, false, {}, exchange.failure});
    }
    it = !exchange.failure.empty() || exchange.fd < 0 ? exchanges_.erase(it) : std::next(it);
  }
  return events;
}

Result<HttpReply> Fetch(HttpClient& client, const HttpRequest& request) {
  const ExchangeId exchange = client.Start(request);
  HttpReply reply;
  while (true) {
    for (HttpEvent& event : client.Poll(1000)) {
      if (event.exchange != exchange) continue;
      switch (event.kind) {
        case HttpEvent::Kind::kHead:
          reply.status = event.status;
          reply.server = event.server;
          break;
        case HttpEvent::Kind::kBody: reply.body += event.bytes; break;
        case HttpEvent::Kind::kEnd: return reply;
        case HttpEvent::Kind::kError: return Fail(ErrorCode::kIo, request.path, "{}", event.bytes);
      }
    }
  }
}

}  // namespace isobit::gate
