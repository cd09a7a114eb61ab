#include "gate/http_client.h"

#include <gtest/gtest.h>

#include "gate/fake_server.h"

namespace isobit::gate {
namespace {

TEST(HttpClient, ReadsUrls) {
  const auto plain = ParseHttpUrl("http://127.0.0.1:8000");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->host, "127.0.0.1");
  EXPECT_EQ(plain->port, "8000");
  EXPECT_EQ(plain->base_path, "");
  EXPECT_EQ(ParseHttpUrl("http://host/v1/")->base_path, "");
  EXPECT_EQ(ParseHttpUrl("http://host/v1/")->port, "80");
  EXPECT_EQ(ParseHttpUrl("http://host:1/proxy/v1")->base_path, "/proxy");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:8000")->host, "::1");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:8000")->HostHeader(), "[::1]:8000");
}

TEST(HttpClient, RefusesOtherUrls) {
  for (const char* url : {"", "127.0.0.1:8000", "ftp://x", "http://", "http://:80", "http://h:", "http://h:0", "http://h:65536", "http://h:8x",
                          "http://u@h", "http://[::1", "http://h /v1", "http://h:80\r\nX: y"}) {
    const auto address = ParseHttpUrl(url);
    ASSERT_FALSE(address.ok()) << url;
    EXPECT_EQ(address.error().field, "url");
  }
  EXPECT_EQ(ParseHttpUrl("https://h").error().code, ErrorCode::kUnsupported);
}

TEST(HttpClient, ManyExchangesAtOnceAndCancelledOnesStaySilent) {
  FakeServer server({});
  const SystemClock clock;
  auto client = HttpClient::Create(*ParseHttpUrl(server.url()), clock);
  ASSERT_TRUE(client.ok());
  std::vector<ExchangeId> exchanges;
  for (int i = 0; i < 64; ++i) {
    exchanges.push_back((*client)->Start(
        {"POST", "/v1/completions", "", R"({"prompt":"a b c","max_tokens":8,"temperature":0,"stream":true})"}));
  }
  const ExchangeId cancelled = exchanges[7];
  std::size_t num_ended = 0;
  std::int64_t last_nanos = 0;
  bool cancelled_spoke = false, ordered = true;
  (*client)->Cancel(cancelled);
  while (num_ended < exchanges.size() - 1) {
    for (const HttpEvent& event : (*client)->Poll(1000)) {
      cancelled_spoke |= event.exchange == cancelled;
      ordered &= event.at_nanos >= last_nanos;
      last_nanos = event.at_nanos;
      ASSERT_NE(event.kind, HttpEvent::Kind::kError) << event.bytes;
      if (event.kind == HttpEvent::Kind::kHead) {
        EXPECT_EQ(event.status, 200);
        EXPECT_TRUE(event.event_stream);
      }
      num_ended += event.kind == HttpEvent::Kind::kEnd;
    }
  }
  EXPECT_FALSE(cancelled_spoke);
  EXPECT_TRUE(ordered);
}

TEST(HttpClient, SlowAnswersRunIntoTheirTimeout) {
  FakeBehaviour slow;
  slow.token_micros = 20'000;
  FakeServer server(slow);
  const SystemClock clock;
  auto client = HttpClient::Create(*ParseHttpUrl(server.url()), clock);
  ASSERT_TRUE(client.ok());
  const auto reply = Fetch(**client, {"POST", "/v1/completions", "", R"({"prompt":"a","max_tokens":40})", 60});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().message, "no complete answer within the timeout");
}

}  // namespace
}  // namespace isobit::gate
