#include "gate/fake_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/json.h"
#include "gate/http_client.h"

namespace isobit::gate {
namespace {

using Fault = FakeBehaviour::Fault;

constexpr std::size_t kBlock = 16;
constexpr std::int64_t kVocabulary = 1000;

std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash += value + 0x9E3779B97F4A7C15u;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
  return hash ^ (hash >> 31);
}

std::uint64_t HashIds(const std::vector<std::int64_t>& ids, std::size_t length) {
  std::uint64_t hash = length;
  for (std::size_t i = 0; i < length; ++i) hash = Mix(hash, static_cast<std::uint64_t>(ids[i]));
  return hash;
}

// One id for each word; words never seen in an answer.
std::vector<std::int64_t> Tokenize(const std::string& text) {
  std::vector<std::int64_t> ids = {1};
  std::uint64_t word = 0;
  for (const char c : text + " ") {
    if (c != ' ' && c != '\n') {
      word = Mix(word, static_cast<unsigned char>(c));
    } else if (word != 0) {
      ids.push_back(static_cast<std::int64_t>(kVocabulary + word % kVocabulary));
      word = 0;
    }
  }
  return ids;
}

// The distribution after a history: two candidates and their log-probabilities.
struct Next {
  std::int64_t best, second;
  float best_logprob, margin;
  std::uint64_t hash;
};

Next After(const std::vector<std::int64_t>& history, std::size_t length, std::uint64_t penalties) {
  const std::uint64_t hash = Mix(HashIds(history, length), penalties);
  Next next;
  next.hash = hash;
  next.best = static_cast<std::int64_t>(hash % kVocabulary);
  next.second = (next.best + 1 + static_cast<std::int64_t>((hash >> 16) % (kVocabulary - 1))) % kVocabulary;
  next.best_logprob = -0.05f - static_cast<float>((hash >> 24) % 4096) / 8192.0f;
  next.margin = (hash >> 40) % 4 == 0 ? 0.0031f : 0.4f + static_cast<float>((hash >> 44) % 512) / 512.0f;
  return next;
}

// What scoring or generating says of `id` there; ids that are no candidate get a value of their own.
float LogprobOf(const Next& next, std::int64_t id) {
  if (id == next.best) return next.best_logprob;
  if (id == next.second) return next.best_logprob - next.margin;
  return -3.0f - static_cast<float>(Mix(next.hash, static_cast<std::uint64_t>(id)) % 4096) / 1024.0f;
}

std::string TokenText(std::int64_t id) { return " w" + std::to_string(id); }

double NumberAt(const RawJson& body, const char* key, double otherwise) {
  const RawJson* member = body.Find(key);
  return member != nullptr && member->is_number() ? std::strtod(member->text.c_str(), nullptr) : otherwise;
}

bool FlagAt(const RawJson& body, const char* key) {
  const RawJson* member = body.Find(key);
  return member != nullptr && member->truth;
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void SendWhole(int fd, int status, const std::string& body, const char* type = "application/json") {
  SendAll(fd, fmt::format("HTTP/1.1 {} X\r\nServer: fake\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status, type,
                          body.size(), body));
}

void SendError(int fd, int status, const std::string& message) {
  SendWhole(fd, status, "{\"error\":{\"message\":" + DumpJson(Json(message)) + ",\"type\":\"fake\",\"param\":null,\"code\":null}}");
}

void Sleep(std::int64_t micros) {
  if (micros > 0) std::this_thread::sleep_for(std::chrono::microseconds(micros));
}

}  // namespace

struct FakeServer::Running {
  std::string prompt_text;
  std::atomic<std::int64_t> position = 0;
  std::atomic<bool> disturbed = false;
};

// Log-probability lists in whichever shape is asked for.
struct FakeServer::Reply {
  std::string ids, tokens, values, tops, content;

  void Add(std::int64_t id, const std::string& value, const std::vector<std::pair<std::int64_t, std::string>>& top) {
    const auto join = [](std::string& list, const std::string& item) { list += (list.empty() ? "" : ",") + item; };
    const std::string name = DumpJson(Json(TokenText(id)));
    std::string legacy, modern;
    for (const auto& [other, digits] : top) {
      join(legacy, DumpJson(Json(TokenText(other))) + ":" + digits);
      join(modern, "{\"token\":" + DumpJson(Json(TokenText(other))) + ",\"logprob\":" + digits + "}");
    }
    join(ids, std::to_string(id));
    join(tokens, name);
    join(values, value);
    join(tops, value == "null" ? "null" : "{" + legacy + "}");
    join(content, "{\"token\":" + name + ",\"logprob\":" + value + ",\"top_logprobs\":[" + modern + "]}");
  }

  std::string Logprobs(bool as_content) const {
    return as_content ? "{\"content\":[" + content + "]}"
                      : "{\"tokens\":[" + tokens + "],\"token_logprobs\":[" + values + "],\"top_logprobs\":[" + tops + "]}";
  }
};

FakeServer::FakeServer(FakeBehaviour behaviour) : behaviour_(std::move(behaviour)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ISOBIT_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0);
  ISOBIT_CHECK(listen(listener_, 512) == 0);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  threads_.emplace_back([this] { Accept(); });
}

FakeServer::~FakeServer() {
  stopping_ = true;
  shutdown(listener_, SHUT_RDWR);
  threads_[0].join();
  for (std::size_t i = 1; i < threads_.size(); ++i) threads_[i].join();
  close(listener_);
}

std::string FakeServer::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

std::vector<std::string> FakeServer::bodies() const {
  const std::lock_guard lock(mutex_);
  return bodies_;
}

void FakeServer::Accept() {
  while (!stopping_) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    threads_.emplace_back([this, fd] {
      Serve(fd);
      close(fd);
    });
  }
}

void FakeServer::Serve(int fd) {
  std::string in;
  std::size_t head = std::string::npos, body_bytes = 0;
  char buffer[16384];
  while (head == std::string::npos || in.size() < head + 4 + body_bytes) {
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) return;
    in.append(buffer, static_cast<std::size_t>(n));
    head = in.find("\r\n\r\n");
    if (const std::size_t at = in.find("Content-Length: "); at != std::string::npos) body_bytes = std::stoul(in.substr(at + 16));
  }
  const std::string target = in.substr(0, in.find(" HTTP/1.1"));
  if (!behaviour_.api_key.empty() && in.find("Authorization: Bearer " + behaviour_.api_key + "\r\n") == std::string::npos) {
    return SendError(fd, 401, "no or wrong key");
  }
  if (target == "GET /v1/models") return SendWhole(fd, 200, "{\"object\":\"list\",\"data\":[{\"id\":\"fake-model\"}]}");
  if (target == "GET /version") return SendWhole(fd, 200, "{\"version\":\"1.2.3\"}");
  if (target == "GET /metrics" && behaviour_.gauge) {
    const std::lock_guard lock(mutex_);
    return SendWhole(fd, 200, fmt::format("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running_x 99\n"
                                          "vllm:num_requests_running{{model_name=\"a b\"}} {}.0\n", running_.size()),
                     "text/plain");
  }
  const bool chat = target == "POST /v1/chat/completions";
  if (!chat && (target != "POST /v1/completions" || !behaviour_.completions)) return SendError(fd, 404, "not found");
  const std::string text = in.substr(head + 4);
  const auto body = ParseRawJson(text);
  ISOBIT_CHECK(body.ok(), "the gate sent {}", text);
  ++num_requests_;
  {
    const std::lock_guard lock(mutex_);
    bodies_.push_back(text);
  }
  for (const std::string& key : body->keys) {
    if (behaviour_.refused.contains(key)) return SendWhole(fd, 422, "{\"detail\":\"" + key + " is not permitted\"}");
  }
  if (behaviour_.wants_minus_one && NumberAt(*body, "top_k", -1) == 0) return SendError(fd, 422, "top_k must be -1 or at least 1");
  Answer(fd, *body, chat);
}

void FakeServer::Answer(int fd, const RawJson& body, bool chat) {
  std::vector<std::int64_t> prompt;
  std::string prompt_text;
  if (chat) {
    prompt_text = body.Find("messages")->items[0].StringAt("content");
    prompt = Tokenize(prompt_text);
  } else if (const RawJson* given = body.Find("prompt"); given->is_array()) {
    if (!behaviour_.takes_ids) return SendError(fd, 400, "prompt must be a string");
    for (const RawJson& id : given->items) prompt.push_back(*id.Integer());
  } else {
    prompt_text = given->text;
    prompt = Tokenize(prompt_text);
  }
  Running self;
  self.prompt_text = prompt_text;
  const bool queued_first = behaviour_.serialise && behaviour_.early_chunk && FlagAt(body, "stream");
  if (queued_first) {
    // The trap: everybody gets headers and one token at once, and then waits for a turn.
    SendAll(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    SendAll(fd, "data: {\"choices\":[{\"index\":0,\"text\":\" w7\"}]}\n\n");
  }
  std::unique_lock<std::mutex> turn(turn_, std::defer_lock);
  if (behaviour_.serialise) turn.lock();
  bool company = false;
  {
    const std::lock_guard lock(mutex_);
    for (Running* other : running_) {
      if (behaviour_.fault == Fault::kJoinDigits && other->position > 4) other->disturbed = true;
    }
    company = !running_.empty();
    running_.push_back(&self);
  }
  const bool refused = behaviour_.fault == Fault::kBatchErrors && company;
  if (!refused) Generate(fd, body, chat, prompt, self);
  {
    const std::lock_guard lock(mutex_);
    running_.remove(&self);
  }
  if (refused) SendError(fd, 500, "out of slots");
}

void FakeServer::Generate(int fd, const RawJson& body, bool chat, const std::vector<std::int64_t>& prompt, Running& self) {
  const std::string& prompt_text = self.prompt_text;
  const Fault fault = behaviour_.fault;
  const auto max_tokens = static_cast<std::int64_t>(NumberAt(body, "max_tokens", 16));
  const bool streams = behaviour_.stream && FlagAt(body, "stream");
  const bool headed = behaviour_.serialise && behaviour_.early_chunk && FlagAt(body, "stream");
  const RawJson* logprobs = body.Find("logprobs");
  const bool wants_logprobs = behaviour_.logprobs && logprobs != nullptr && !logprobs->is_null() && (logprobs->is_number() || logprobs->truth);
  const bool wants_ids = behaviour_.token_ids && FlagAt(body, "return_token_ids");
  const double temperature = NumberAt(body, "temperature", 1);
  const auto seed = static_cast<std::uint64_t>(NumberAt(body, "seed", 0));
  const bool forced = NumberAt(body, "top_k", 0) == 1 || NumberAt(body, "top_p", 1) < 1e-3 || NumberAt(body, "min_p", 0) == 1;
  const auto penalties = static_cast<std::uint64_t>(1000 * (NumberAt(body, "repetition_penalty", 1) - 1) + 7 * NumberAt(body, "frequency_penalty", 0) +
                                                    11 * NumberAt(body, "presence_penalty", 0));
  std::int64_t num_asks = 0;
  std::size_t cached = 0;
  const std::string salt = behaviour_.salts ? body.StringAt("cache_salt") : "";
  {
    const std::lock_guard lock(mutex_);
    num_asks = ++asks_[prompt_text];
    auto& blocks = cached_blocks_[salt];
    if (behaviour_.cache) {
      while (cached + kBlock < prompt.size() && blocks.contains(HashIds(prompt, cached + kBlock))) cached += kBlock;
    }
    for (std::size_t length = kBlock; length <= prompt.size(); length += kBlock) blocks.insert(HashIds(prompt, length));
  }
  Sleep(static_cast<std::int64_t>(prompt.size() - cached) * behaviour_.prefill_micros);

  std::string prompt_ids, prompt_scores = "null";
  for (const std::int64_t id : prompt) prompt_ids += (prompt_ids.empty() ? "" : ",") + std::to_string(id);
  Reply echoed;
  const bool echo = behaviour_.echo && FlagAt(body, "echo");
  const bool scores_prompt = behaviour_.prompt_logprobs && body.Find("prompt_logprobs") != nullptr;
  if (echo || scores_prompt) {
    echoed.Add(prompt[0], "null", {});
    for (std::size_t i = 1; i < prompt.size(); ++i) {
      const Next next = After(prompt, i, 0);
      float value = LogprobOf(next, prompt[i]);
      if (fault == Fault::kScoreDigits && i + 3 == prompt.size()) value = std::nextafter(value, 0.0f);
      echoed.Add(prompt[i], FormatFloat(value), {{prompt[i], FormatFloat(value)}});
      prompt_scores += fmt::format(",{{\"{}\":{{\"logprob\":{}}},\"5000\":{{\"logprob\":-9.5}}}}", prompt[i], FormatFloat(value));
    }
  }
  const auto send_event = [&](const std::string& json) {
    std::string event = "data: " + json + "\n\n";
    if (!behaviour_.chunked || headed) return SendAll(fd, event);
    // In two chunks, so that events do not begin where reads begin.
    const std::size_t half = event.size() / 2;
    return SendAll(fd, fmt::format("{:x}\r\n{}\r\n", half, event.substr(0, half))) &&
           SendAll(fd, fmt::format("{:x}\r\n{}\r\n", event.size() - half, event.substr(half)));
  };
  if (streams && !headed) {
    SendAll(fd, std::string("HTTP/1.1 200 OK\r\nServer: fake\r\nContent-Type: text/event-stream; charset=utf-8\r\n") +
                    (behaviour_.chunked ? "Transfer-Encoding: chunked\r\n" : "") + "Connection: close\r\n\r\n");
  }

  std::vector<std::int64_t> history = prompt;
  Reply whole = echoed;
  std::string all_text, all_ids;
  for (std::int64_t k = 0; k < max_tokens && !stopping_; ++k) {
    Sleep(behaviour_.token_micros);
    std::string foreign;
    bool company = false;
    {
      const std::lock_guard lock(mutex_);
      company = running_.size() > 1;
      for (Running* other : running_) {
        if (other != &self && !other->prompt_text.empty() && other->prompt_text != prompt_text) foreign = other->prompt_text;
      }
    }
    self.position = k;
    const Next next = After(fault == Fault::kConstant ? std::vector<std::int64_t>{k} : history,
                            fault == Fault::kConstant ? 1 : history.size(), penalties);
    std::int64_t id = next.best;
    if (temperature > 0 && !forced) {
      const std::uint64_t draw = behaviour_.seeds ? Mix(next.hash, seed) : Mix(next.hash, static_cast<std::uint64_t>(++draws_));
      if (draw % 3 == 0) id = next.second;
      if (draw % 7 == 0) id = static_cast<std::int64_t>((draw >> 32) % kVocabulary);
    }
    float drift = 0;
    if ((fault == Fault::kBatchDigits && company && k > 2) || (fault == Fault::kCacheDigits && cached > 0) ||
        (fault == Fault::kCacheEdgeDigits && cached == kBlock) ||
        ((fault == Fault::kJoinDigits || fault == Fault::kCancelDigits) && self.disturbed)) {
      drift = 0.0001f;
    }
    if ((fault == Fault::kBatchTokens && company && k == 5) || (fault == Fault::kRepeatTokens && num_asks % 2 == 0 && k == 3) ||
        (fault == Fault::kPlainTokens && company && !wants_logprobs && k == 5)) {
      id = id == next.second ? next.best : next.second;
    }
    const bool flips = fault == Fault::kBatchNearTies && company && next.margin < 0.01f && temperature == 0;
    if (flips) id = next.second;
    const float first = LogprobOf(next, next.best) + drift, second = LogprobOf(next, next.second) + drift;
    const std::string own = FormatFloat(flips ? first : LogprobOf(next, id) + drift);
    Reply piece;
    piece.Add(id, own, {{flips ? next.second : next.best, FormatFloat(first)}, {flips ? next.best : next.second, FormatFloat(second)}});
    whole.Add(id, own, {{next.best, FormatFloat(first)}, {next.second, FormatFloat(second)}});
    history.push_back(id);
    std::string text = TokenText(id);
    if (fault == Fault::kLeak && k == 4 && !foreign.empty()) text += " " + foreign;
    all_text += text;
    all_ids += (all_ids.empty() ? "" : ",") + std::to_string(id);
    if (fault == Fault::kDisconnects && company && k == 4) return;
    if (!streams) continue;
    const std::string shown = chat ? "\"delta\":{\"content\":" + DumpJson(Json(text)) + "}" : "\"text\":" + DumpJson(Json(text));
    std::string event = "{\"choices\":[{\"index\":0," + shown + ",\"finish_reason\":" + (k + 1 == max_tokens ? "\"length\"" : "null");
    if (wants_logprobs) event += ",\"logprobs\":" + piece.Logprobs(chat || behaviour_.content_list);
    if (wants_ids) event += ",\"token_ids\":[" + piece.ids + "]" + (k == 0 ? ",\"prompt_token_ids\":[" + prompt_ids + "]" : "");
    if (!send_event(event + "}]}")) {
      const std::lock_guard lock(mutex_);
      for (Running* other : running_) other->disturbed = fault == Fault::kCancelDigits;
      return;
    }
  }
  {
    // Gone before the asker can see the end, or the next one would find company that is none.
    const std::lock_guard lock(mutex_);
    running_.remove(&self);
  }
  const std::int64_t reported = behaviour_.cached_tokens_lie >= 0 ? behaviour_.cached_tokens_lie : static_cast<std::int64_t>(cached);
  const std::string usage =
      behaviour_.usage ? fmt::format("\"usage\":{{\"prompt_tokens\":{},\"completion_tokens\":{},\"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
                                     prompt.size(), max_tokens, reported)
                       : "\"usage\":null";
  if (streams) {
    send_event("{\"choices\":[]," + usage + ",\"system_fingerprint\":\"fake-1\"}");
    if (!behaviour_.chunked || headed) SendAll(fd, "data: [DONE]\n\n");
    else SendAll(fd, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    return;
  }
  std::string choice = "{\"index\":0,\"finish_reason\":\"length\",";
  choice += chat ? "\"message\":{\"role\":\"assistant\",\"content\":" + DumpJson(Json(all_text)) + "}" : "\"text\":" + DumpJson(Json(all_text));
  if (wants_logprobs) choice += ",\"logprobs\":" + whole.Logprobs(chat || behaviour_.content_list);
  if (wants_ids) choice += ",\"token_ids\":[" + all_ids + "],\"prompt_token_ids\":[" + prompt_ids + "]";
  if (scores_prompt) choice += ",\"prompt_logprobs\":[" + prompt_scores + "]";
  SendWhole(fd, 200, "{\"object\":\"text_completion\",\"choices\":[" + choice + "}]," + usage + "}");
}

namespace {

TEST(FakeServer, AnswersAreAFunctionOfTheBody) {
  FakeServer server({});
  const auto address = ParseHttpUrl(server.url());
  const SystemClock clock;
  auto client = HttpClient::Create(*address, clock);
  ASSERT_TRUE(client.ok());
  const HttpRequest ask{"POST", "/v1/completions", "", R"({"prompt":"a b","max_tokens":3,"temperature":0})"};
  const auto first = Fetch(**client, ask), second = Fetch(**client, ask);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(first->server, "fake");
  EXPECT_EQ(first->body, second->body);
  EXPECT_NE(first->body.find("\"text\":\" w"), std::string::npos);
}

}  // namespace
}  // namespace isobit::gate
