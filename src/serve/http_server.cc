#include "serve/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <map>

namespace isobit {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
constexpr std::int64_t kLingerSeconds = 2;  // for the client to read a last answer before the socket closes under it
constexpr std::int64_t kMaxRefusals = 64;   // connections above the maximum that are being told so

std::string LowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 && HexDigit(text[i + 2]) >= 0) {
      out += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

const char* StatusText(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 422: return "Unprocessable Entity";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

void AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  // No value, wherever it came from, may end the line it is in.
  for (const char c : value) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  out += "\r\n";
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

namespace {

class Connection;

// What the connections of one server share.
struct Shared {
  HttpServerConfig config;
  HttpHandler& handler;
  const Clock& clock;
  asio::io_context io{1};
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections;
  bool stopping = false;
  std::function<void()> on_connection_closed;
};

class Exchange;

// A socket and where it is in its life: reading a request, answering it, flushing the answer, reading the next.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shared& shared, std::uint64_t id, tcp::socket socket) : shared_(shared), id_(id), socket_(std::move(socket)) {
    last_progress_ = shared_.clock.MonotonicNanos();
  }

  void Start() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    StartRead();
  }

  // Refuses a connection that is one too many.
  void StartRefused() {
    state_ = State::kAnswering;
    keep_alive_ = false;
    SendWhole(shared_.handler.TransportError(503, "the server holds as many connections as it may; try again"));
  }

  void Sweep(std::int64_t now);
  void CloseIfIdle() {
    keep_alive_ = false;
    if (state_ == State::kReading) Close();
  }
  void Abort() {
    error_code ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    Close();
  }

  // From the exchange.
  void SendWhole(const HttpResponse& response);
  void SendStreamHead(const HttpResponse& head);
  void SendStreamPart(std::string_view part);
  void SendStreamEnd();

 private:
  enum class State { kReading, kAnswering, kFlushing, kLingering, kClosed };
  using Parser = http::request_parser<http::string_body>;

  void StartRead();
  void OnRead(const error_code& error, std::size_t count);
  void Process();
  bool ProcessOnce();
  bool OnHeadComplete();
  HttpRequest TakeHead();
  void RefuseAndClose(const HttpResponse& response);
  std::string Head(const HttpResponse& response) const;
  void Send(std::string_view bytes);
  void StartWrite();
  void OnWritten(const error_code& error, std::size_t count);
  void OnFlushed();
  void EndAnswer();
  void Linger();
  void Close();

  Shared& shared_;
  const std::uint64_t id_;
  tcp::socket socket_;
  State state_ = State::kReading;
  std::int64_t last_progress_ = 0;     // of reading or writing, nanoseconds
  std::int64_t request_started_ = -1;  // when the first byte of the request came; -1: none has

  std::array<char, 4 << 10> read_buffer_;
  bool reading_ = false;
  bool input_ended_ = false;
  bool processing_ = false;
  std::string input_;  // read, not yet parsed
  std::optional<Parser> parser_;
  HttpRequest request_;
  bool head_done_ = false;

  bool keep_alive_ = true;
  bool chunked_ = true;
  bool head_only_ = false;
  std::string outbox_, writing_;
  std::size_t write_position_ = 0;
  bool write_pending_ = false;
  std::shared_ptr<Exchange> exchange_;  // while kAnswering
};

class Exchange final : public HttpExchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }
  void DropBody() override { request_.body = std::string(); }
  void Respond(HttpResponse response) override {
    if (auto connection = Take()) connection->SendWhole(response);
  }
  void StartStream(HttpResponse head) override {
    if (auto connection = connection_) connection->SendStreamHead(head);
  }
  void Write(std::string_view part) override {
    if (auto connection = connection_) connection->SendStreamPart(part);
  }
  void Finish() override {
    if (auto connection = Take()) connection->SendStreamEnd();
  }
  void OnClosed(std::function<void()> callback) override { on_closed_ = std::move(callback); }
  bool closed() const override { return closed_; }

  void Closed() {
    connection_.reset();
    closed_ = true;
    if (auto callback = std::move(on_closed_)) callback();
  }

 private:
  // The answer is complete: nothing that happens to the connection concerns this exchange any more.
  std::shared_ptr<Connection> Take() {
    on_closed_ = nullptr;
    return std::move(connection_);
  }

  std::shared_ptr<Connection> connection_;
  HttpRequest request_;
  std::function<void()> on_closed_;
  bool closed_ = false;
};

// Reading never stops while a request is being answered: that is how we learn that the client left.
void Connection::StartRead() {
  if (reading_ || input_ended_ || state_ == State::kClosed) return;
  const auto limit = static_cast<std::size_t>(shared_.config.max_pipelined_bytes);
  if (state_ != State::kReading && state_ != State::kLingering && input_.size() >= limit) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(read_buffer_),
                          [self = shared_from_this()](const error_code& error, std::size_t count) { self->OnRead(error, count); });
}

void Connection::OnRead(const error_code& error, std::size_t count) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) {
    // End of input in the middle of an answer is a client that left. Half-closed clients are not served: they can't be told apart.
    input_ended_ = true;
    if (state_ != State::kFlushing || error != asio::error::eof) Close();
    return;
  }
  last_progress_ = shared_.clock.MonotonicNanos();
  if (state_ != State::kLingering) {
    input_.append(read_buffer_.data(), count);
    Process();
  }
  StartRead();
}

void Connection::Process() {
  if (processing_) return;
  processing_ = true;
  while (state_ == State::kReading && ProcessOnce()) {
  }
  processing_ = false;
}

// Parses what has come; false if more is needed.
bool Connection::ProcessOnce() {
  if (!parser_) {
    // Some clients end a body with an empty line too many.
    const std::size_t start = input_.find_first_not_of("\r\n");
    input_.erase(0, std::min(start, input_.size()));
    if (input_.empty()) return false;
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.config.max_header_bytes));
    parser_->body_limit(static_cast<std::uint64_t>(shared_.config.max_body_bytes));
    head_done_ = false;
    request_started_ = shared_.clock.MonotonicNanos();
  }
  error_code error;
  const std::size_t consumed = parser_->put(asio::buffer(input_), error);
  input_.erase(0, consumed);
  const bool need_more = error == http::error::need_more;
  if (error && !need_more) {
    if (error == http::error::body_limit) {
      RefuseAndClose(shared_.handler.TransportError(
          413, fmt::format("the body is larger than {} bytes", shared_.config.max_body_bytes)));
    } else if (error == http::error::header_limit) {
      RefuseAndClose(shared_.handler.TransportError(
          431, fmt::format("the request line and headers are larger than {} bytes", shared_.config.max_header_bytes)));
    } else {
      RefuseAndClose(shared_.handler.TransportError(400, fmt::format("this is not HTTP/1.1: {}", error.message())));
    }
    return false;
  }
  if (parser_->is_header_done() && !head_done_) {
    head_done_ = true;
    if (!OnHeadComplete()) return false;
  }
  if (parser_->is_done()) {
    request_.body = std::move(parser_->get().body());
    keep_alive_ = parser_->get().keep_alive() && !shared_.stopping;
    chunked_ = parser_->get().version() >= 11;
    head_only_ = request_.method == "HEAD";
    parser_.reset();
    request_started_ = -1;
    state_ = State::kAnswering;
    exchange_ = std::make_shared<Exchange>(shared_from_this(), std::move(request_));
    shared_.handler.Handle(exchange_);
    return true;
  }
  return !need_more && !input_.empty();
}

bool Connection::OnHeadComplete() {
  request_ = TakeHead();
  for (const auto& [name, value] : request_.headers) {
    // Beast passes over codings it does not know; whoever stands in front of us may not, and see other requests in these bytes.
    if (name != "transfer-encoding" || LowerCase(value) == "chunked") continue;
    RefuseAndClose(shared_.handler.TransportError(400, "this is not HTTP/1.1 as read here: the only transfer encoding is chunked"));
    return false;
  }
  if (std::optional<HttpResponse> refusal = shared_.handler.CheckHead(request_)) {
    RefuseAndClose(*refusal);
    return false;
  }
  if (!parser_->is_done() && LowerCase(request_.Header("expect")) == "100-continue") Send("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

HttpRequest Connection::TakeHead() {
  HttpRequest request;
  const auto& message = parser_->get();
  request.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  const std::size_t question = target.find('?');
  request.path = PercentDecode(target.substr(0, question));
  if (question != std::string_view::npos) request.query = std::string(target.substr(question + 1));
  for (const auto& field : message) {
    const auto name = field.name_string(), value = field.value();
    request.headers.emplace_back(LowerCase({name.data(), name.size()}), std::string(value.data(), value.size()));
  }
  return request;
}

void Connection::RefuseAndClose(const HttpResponse& response) {
  keep_alive_ = false;
  head_only_ = false;
  parser_.reset();
  input_.clear();
  request_started_ = -1;
  state_ = State::kAnswering;
  SendWhole(response);
}

std::string Connection::Head(const HttpResponse& response) const {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, StatusText(response.status));
  AppendHeader(head, "content-type", response.content_type);
  for (const auto& [name, value] : response.headers) AppendHeader(head, name, value);
  if (!keep_alive_) AppendHeader(head, "connection", "close");
  return head;
}

void Connection::SendWhole(const HttpResponse& response) {
  if (state_ != State::kAnswering) return;
  std::string head = Head(response);
  AppendHeader(head, "content-length", fmt::format("{}", response.body.size()));
  head += "\r\n";
  if (!head_only_) head += response.body;
  Send(head);
  EndAnswer();
}

void Connection::SendStreamHead(const HttpResponse& response) {
  if (state_ != State::kAnswering) return;
  if (!chunked_) keep_alive_ = false;  // HTTP/1.0: the end of the connection is the end of the body
  std::string head = Head(response);
  if (chunked_) AppendHeader(head, "transfer-encoding", "chunked");
  head += "\r\n";
  Send(head);
  if (!response.body.empty()) SendStreamPart(response.body);
}

void Connection::SendStreamPart(std::string_view part) {
  if (state_ != State::kAnswering || part.empty()) return;
  const std::size_t waiting = outbox_.size() + writing_.size() - write_position_;
  if (waiting + part.size() > static_cast<std::size_t>(shared_.config.max_stream_buffer_bytes)) {
    Abort();  // a reader this slow must not hold memory, let alone the engine
    return;
  }
  if (chunked_) {
    std::string chunk = fmt::format("{:x}\r\n", part.size());
    chunk += part;
    chunk += "\r\n";
    Send(chunk);
  } else {
    Send(part);
  }
}

void Connection::SendStreamEnd() {
  if (state_ != State::kAnswering) return;
  if (chunked_) Send("0\r\n\r\n");
  EndAnswer();
}

void Connection::EndAnswer() {
  if (state_ != State::kAnswering) return;
  exchange_.reset();
  state_ = State::kFlushing;
  if (!write_pending_) StartWrite();
}

void Connection::Send(std::string_view bytes) {
  if (state_ == State::kClosed) return;
  outbox_ += bytes;
  StartWrite();
}

void Connection::StartWrite() {
  if (write_pending_ || state_ == State::kClosed) return;
  if (write_position_ == writing_.size()) {
    writing_.clear();
    write_position_ = 0;
    writing_.swap(outbox_);
  }
  if (writing_.empty()) {
    OnFlushed();
    return;
  }
  write_pending_ = true;
  last_progress_ = shared_.clock.MonotonicNanos();
  socket_.async_write_some(asio::buffer(writing_.data() + write_position_, writing_.size() - write_position_),
                           [self = shared_from_this()](const error_code& error, std::size_t count) { self->OnWritten(error, count); });
}

void Connection::OnWritten(const error_code& error, std::size_t count) {
  write_pending_ = false;
  if (state_ == State::kClosed) return;
  if (error) {
    Close();
    return;
  }
  last_progress_ = shared_.clock.MonotonicNanos();
  write_position_ += count;
  StartWrite();
}

void Connection::OnFlushed() {
  if (state_ != State::kFlushing) return;
  if (!keep_alive_ || shared_.stopping) {
    Linger();
    return;
  }
  state_ = State::kReading;
  Process();
  if (state_ == State::kReading && input_ended_) Close();
  else StartRead();
}

// A socket closed with unread input resets the connection and may take our answer with it: end the sending side, then read on.
void Connection::Linger() {
  if (input_ended_) {
    Close();
    return;
  }
  state_ = State::kLingering;
  input_.clear();
  last_progress_ = shared_.clock.MonotonicNanos();
  request_started_ = last_progress_;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  StartRead();
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const auto self = shared_from_this();
  error_code ignored;
  socket_.close(ignored);
  shared_.connections.erase(id_);
  if (auto exchange = std::move(exchange_)) exchange->Closed();
  shared_.on_connection_closed();
}

void Connection::Sweep(std::int64_t now) {
  const std::int64_t limit = shared_.config.idle_timeout_seconds * kNanosPerSecond;
  switch (state_) {
    case State::kReading:
      if (parser_ && !head_done_ && now - request_started_ > limit) {
        RefuseAndClose(shared_.handler.TransportError(408, "the request head took too long"));
      } else if (now - last_progress_ > limit) {
        Close();
      }
      break;
    case State::kAnswering:
    case State::kFlushing:
      if (write_pending_ && now - last_progress_ > limit) Abort();
      break;
    case State::kLingering:
      if (now - request_started_ > kLingerSeconds * kNanosPerSecond) Close();
      break;
    case State::kClosed: break;
  }
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpServerConfig& config, HttpHandler& handler, const Clock& clock)
      : shared{config, handler, clock}, acceptor(shared.io), accept_retry(shared.io), tick(shared.io), drain(shared.io) {}

  void Accept() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      if (shared.stopping) return;
      if (error) {  // out of descriptors, most likely: let some connections end
        accept_retry.expires_after(std::chrono::milliseconds(100));
        accept_retry.async_wait([this](const error_code& cancelled) {
          if (!cancelled && !shared.stopping) Accept();
        });
        return;
      }
      const std::uint64_t id = next_id++;
      const auto held = static_cast<std::int64_t>(shared.connections.size());
      const bool full = held >= shared.config.max_connections;
      if (held >= shared.config.max_connections + kMaxRefusals) {
        Accept();  // `socket` closes unanswered
        return;
      }
      auto connection = std::make_shared<Connection>(shared, id, std::move(socket));
      shared.connections.emplace(id, connection);
      if (full) connection->StartRefused();
      else connection->Start();
      Accept();
    });
  }

  void ScheduleTick() {
    tick.expires_after(std::chrono::seconds(1));
    tick.async_wait([this](const error_code& cancelled) {
      if (cancelled) return;
      const std::int64_t now = shared.clock.MonotonicNanos();
      for (const auto& connection : Connections()) connection->Sweep(now);
      shared.handler.Tick();
      ScheduleTick();
    });
  }

  // A copy: closing one takes it out of the map.
  std::vector<std::shared_ptr<Connection>> Connections() const {
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [id, connection] : shared.connections) all.push_back(connection);
    return all;
  }

  void BeginStop(std::int64_t drain_seconds) {
    if (!shared.stopping) {
      shared.stopping = true;
      error_code ignored;
      acceptor.close(ignored);
      for (const auto& connection : Connections()) connection->CloseIfIdle();
    }
    drain.expires_after(std::chrono::seconds(drain_seconds));
    drain.async_wait([this](const error_code& cancelled) {
      if (cancelled) return;
      for (const auto& connection : Connections()) connection->Abort();
      EndIfDrained();
    });
    EndIfDrained();
  }

  void EndIfDrained() {
    if (shared.stopping && shared.connections.empty()) shared.io.stop();
  }

  Shared shared;
  tcp::acceptor acceptor;
  asio::steady_timer accept_retry, tick, drain;
  std::uint64_t next_id = 0;
  std::uint16_t port = 0;
};

Result<std::unique_ptr<HttpServer>> HttpServer::Create(const HttpServerConfig& config, HttpHandler& handler, const Clock& clock) {
  error_code error;
  const auto address = asio::ip::make_address(config.host == "localhost" ? "127.0.0.1" : config.host, error);
  if (error) {
    return Fail(ErrorCode::kInvalidArgument, "--host", "\"{}\" is not an IP address; use 127.0.0.1, 0.0.0.0 or ::", config.host);
  }
  // One descriptor a connection: take what the system grants.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  auto impl = std::make_unique<Impl>(config, handler, clock);
  Impl* const raw = impl.get();
  impl->shared.on_connection_closed = [raw] { raw->EndIfDrained(); };
  const tcp::endpoint endpoint(address, config.port);
  tcp::acceptor& acceptor = impl->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Fail(ErrorCode::kIo, "--port", "cannot listen on {}:{}: {}; choose another port", config.host, config.port,
                error.message());
  }
  impl->port = acceptor.local_endpoint().port();
  impl->Accept();
  impl->ScheduleTick();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  for (const auto& connection : impl_->Connections()) connection->Abort();
}

std::uint16_t HttpServer::port() const { return impl_->port; }
void HttpServer::Run() { impl_->shared.io.run(); }
void HttpServer::Stop(std::int64_t drain_seconds) {
  asio::post(impl_->shared.io, [impl = impl_.get(), drain_seconds] { impl->BeginStop(drain_seconds); });
}
void HttpServer::Post(std::function<void()> function) { asio::post(impl_->shared.io, std::move(function)); }
std::int64_t HttpServer::num_connections() const { return static_cast<std::int64_t>(impl_->shared.connections.size()); }

}  // namespace isobit
