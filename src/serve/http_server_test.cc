#include "serve/http_server.h"

#include <gtest/gtest.h>

#include <future>

#include "serve/test_support.h"

namespace isobit {
namespace {

using serve_test::Client;
using serve_test::HttpAnswer;

// Answers by path: /echo the body, /hold keeps the exchange, /flood streams without end, /slow-stream two parts.
class TestHandler final : public HttpHandler {
 public:
  std::optional<HttpResponse> CheckHead(const HttpRequest& request) override {
    if (request.path == "/refused") return HttpResponse{.status = 401, .body = "no"};
    return std::nullopt;
  }
  void Handle(std::shared_ptr<HttpExchange> exchange) override {
    const HttpRequest& request = exchange->request();
    if (request.path == "/hold") {
      exchange->OnClosed([this] { ++num_left; });
      held.push_back(std::move(exchange));
      ++num_held;
    } else if (request.path == "/flood") {
      exchange->OnClosed([this] { ++num_left; });
      exchange->StartStream({});
      for (int i = 0; i < 1000 && !exchange->closed(); ++i) exchange->Write(std::string(64 << 10, 'x'));
    } else if (request.path == "/stream") {
      exchange->StartStream({.content_type = "text/plain", .body = "one,"});
      exchange->Write("two");
      exchange->Finish();
    } else {
      exchange->Respond({.content_type = "text/plain",
                         .headers = {{"x-evil", "a\r\nset-cookie: b"}},
                         .body = request.method + " " + request.path + "?" + request.query + " " + request.body});
    }
  }
  HttpResponse TransportError(int status, const std::string& message) override { return {.status = status, .body = message}; }
  void Tick() override {}

  std::vector<std::shared_ptr<HttpExchange>> held;  // on the server's thread
  std::atomic<int> num_held = 0, num_left = 0;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServerConfig config = {}) {
    auto created = HttpServer::Create(config, handler_, clock_);
    ASSERT_TRUE(created.ok()) << created.error().ToString();
    server_ = std::move(created).value();
    thread_ = std::thread([this] { server_->Run(); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->Stop(0);
    thread_.join();
    handler_.held.clear();
  }
  void OnServer(std::function<void()> function) {
    std::promise<void> done;
    server_->Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }
  static bool Reaches(const std::atomic<int>& value, int wanted) {
    for (int i = 0; i < 5000 && value < wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return value >= wanted;
  }
  Client Connect() { return Client(server_->port()); }

  SystemClock clock_;
  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, KeepsConnectionsAndAnswersPipelinedRequestsInOrder) {
  Start();
  Client client = Connect();
  EXPECT_EQ(client.Get("/a%20b/%2fc?x=1").body, "GET /a b//c?x=1 ");
  EXPECT_EQ(client.Post("/echo", "body").body, "POST /echo? body");
  std::string many;
  for (int i = 0; i < 50; ++i) many += Client::Request(i % 2 ? "GET" : "POST", "/" + std::to_string(i), i % 2 ? "" : "b");
  ASSERT_TRUE(client.Send(many));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.Read().body, (i % 2 ? "GET /" : "POST /") + std::to_string(i) + (i % 2 ? "? " : "? b"));
}

TEST_F(HttpServerTest, ReadsBytesAsTheyComeAndChunkedBodies) {
  Start();
  Client client = Connect();
  for (const char c : Client::Request("POST", "/slow", "abc")) ASSERT_TRUE(client.Send(std::string(1, c)));
  EXPECT_EQ(client.Read().body, "POST /slow? abc");
  client.Send("POST /chunked HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.Read().body, "POST /chunked? abcde");
  client.Send("POST /expect HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(client.FillUntil("HTTP/1.1 100 Continue\r\n\r\n"));
  client.Send("ok");
  EXPECT_EQ(client.Read().body, "POST /expect? ok");
}

TEST_F(HttpServerTest, RefusesCodingsThatAProxyMayReadOtherwise) {
  Start();
  for (const char* coding : {"gzip", "identity", "gzip, chunked", "xchunked"}) {
    Client client = Connect();
    client.Send(fmt::format("POST /x HTTP/1.1\r\nTransfer-Encoding: {}\r\nContent-Length: 2\r\n\r\nok", coding));
    EXPECT_EQ(client.Read().status, 400) << coding;
  }
}

TEST_F(HttpServerTest, HeadersCannotBeSplit) {
  Start();
  const HttpAnswer answer = Connect().Get("/");
  EXPECT_EQ(answer.header("x-evil"), "a  set-cookie: b");
  EXPECT_EQ(answer.headers.count("set-cookie"), 0u);
}

TEST_F(HttpServerTest, StreamsInChunksOrToTheEndOfTheConnection) {
  Start();
  Client client = Connect();
  const HttpAnswer chunked = client.Get("/stream");
  EXPECT_EQ(chunked.body, "one,two");
  EXPECT_EQ(chunked.header("transfer-encoding"), "chunked");
  EXPECT_EQ(client.Get("/after").status, 200);
  client.Send("GET /stream HTTP/1.0\r\n\r\n");
  const HttpAnswer old = client.Read();
  EXPECT_EQ(old.body, "one,two");
  EXPECT_EQ(old.header("connection"), "close");
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  Start();
  Client client = Connect();
  client.Send("HEAD /x HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.Read(/*head_only=*/true).header("content-length"), "9");
  EXPECT_EQ(client.Get("/after").body, "GET /after? ");
}

TEST_F(HttpServerTest, RefusesWhatIsNotHttp) {
  Start({.max_body_bytes = 1000, .max_header_bytes = 2000});
  const auto status = [&](const std::string& bytes) {
    Client client = Connect();
    client.Send(bytes);
    const HttpAnswer answer = client.Read();
    EXPECT_EQ(answer.header("connection"), "close") << bytes.substr(0, 40);
    EXPECT_TRUE(client.AtEnd());
    return answer.status;
  };
  for (const char* bytes : {"NONSENSE\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1\r\nBad Header\r\n\r\n", "\x16\x03\x01\x02\x00\x01\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
                            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    EXPECT_EQ(status(bytes), 400) << bytes;
  }
  EXPECT_EQ(status("GET / HTTP/1.1\r\nX: " + std::string(3000, 'a') + "\r\n\r\n"), 431);
  EXPECT_EQ(status("GET /" + std::string(3000, 'a')), 431);
  EXPECT_EQ(status(Client::Request("POST", "/", std::string(1001, 'a'))), 413);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'a') + "\r\n0\r\n\r\n"), 413);
  EXPECT_EQ(status(Client::Request("POST", "/refused", std::string(900, 'a'))), 401);
  EXPECT_EQ(Connect().Post("/", std::string(1000, 'a')).status, 200);
}

TEST_F(HttpServerTest, LearnsThatAClientLeft) {
  Start();
  {
    Client client = Connect();
    client.Send(Client::Request("POST", "/hold", "x"));
    ASSERT_TRUE(Reaches(handler_.num_held, 1));
    EXPECT_EQ(handler_.num_left, 0);
  }
  EXPECT_TRUE(Reaches(handler_.num_left, 1));
  OnServer([&] {
    EXPECT_TRUE(handler_.held[0]->closed());
    handler_.held[0]->Respond({});  // harmless
    EXPECT_EQ(server_->num_connections(), 0);
  });
}

TEST_F(HttpServerTest, AnAnswerGivenIsNoLongerLost) {
  Start();
  {
    Client client = Connect();
    client.Send(Client::Request("GET", "/hold", ""));
    ASSERT_TRUE(Reaches(handler_.num_held, 1));
    OnServer([&] { handler_.held[0]->Respond({.body = "late"}); });
    EXPECT_EQ(client.Read().body, "late");
  }
  OnServer([&] { EXPECT_FALSE(handler_.held[0]->closed()); });
  EXPECT_EQ(handler_.num_left, 0);
}

TEST_F(HttpServerTest, CutsOffAReaderThatLetsTooMuchPileUp) {
  Start({.max_stream_buffer_bytes = 256 << 10});
  Client client(server_->port(), 4096);
  client.Send(Client::Request("GET", "/flood", ""));
  EXPECT_TRUE(Reaches(handler_.num_left, 1));
  EXPECT_EQ(Connect().Get("/next").status, 200);
}

TEST_F(HttpServerTest, BoundsConnections) {
  Start({.max_connections = 3});
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Connect());
    EXPECT_EQ(clients.back().Get("/").status, 200);
  }
  {
    Client refused = Connect();
    EXPECT_EQ(refused.Read().status, 503);
    EXPECT_TRUE(refused.AtEnd());
  }
  clients.pop_back();
  for (int i = 0; i < 100; ++i) {
    Client again = Connect();
    if (again.Get("/").status == 200) return;
  }
  FAIL() << "a place that became free was not given to anyone";
}

TEST_F(HttpServerTest, ClosesIdleConnections) {
  Start({.idle_timeout_seconds = 1});
  Client idle = Connect(), slow = Connect(), busy = Connect();
  slow.Send("GET / HTTP/1.1\r\nX: ");
  busy.Send(Client::Request("GET", "/hold", ""));
  EXPECT_TRUE(idle.AtEnd());
  EXPECT_EQ(slow.Read().status, 408);
  EXPECT_EQ(handler_.num_left, 0);  // waiting for an answer is not idling
  OnServer([&] { handler_.held[0]->Respond({.body = "done"}); });
  EXPECT_EQ(busy.Read().body, "done");
}

TEST_F(HttpServerTest, StopLetsAnswersFinish) {
  Start();
  Client client = Connect(), idle = Connect();
  EXPECT_EQ(idle.Get("/").status, 200);
  client.Send(Client::Request("GET", "/hold", ""));
  ASSERT_TRUE(Reaches(handler_.num_held, 1));
  server_->Stop(10);
  EXPECT_TRUE(idle.AtEnd());
  OnServer([&] { handler_.held[0]->Respond({.body = "last"}); });
  EXPECT_EQ(client.Read().body, "last");
  client.Close();
  thread_.join();
  server_.reset();
}

TEST_F(HttpServerTest, RefusesAddressesItCannotUse) {
  Start();
  EXPECT_EQ(HttpServer::Create({.host = "not an address"}, handler_, clock_).error().field, "--host");
  EXPECT_EQ(HttpServer::Create({.port = server_->port()}, handler_, clock_).error().field, "--port");
}

}  // namespace
}  // namespace isobit
