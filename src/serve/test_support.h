// What the tests of this room share: a byte tokenizer, a LanguageModel that follows scripts, a blocking HTTP client.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "serve/server.h"
#include "tokenizer/byte_alphabet.h"

namespace isobit::serve_test {

// Ids: 0 to 255 the bytes; 256 ... merged pieces; then control tokens.
inline constexpr std::int32_t kHe = 256, kLl = 257, kHell = 258, kLlo = 259;
inline constexpr std::int32_t kBos = 260, kImStart = 261, kImEnd = 262, kEos = kImEnd;
inline constexpr std::int32_t kScript0 = 263;
inline constexpr std::int32_t kNumScripts = 17;
inline constexpr std::int32_t kVocab = kScript0 + kNumScripts;
inline constexpr std::int32_t kNan = -1;  // in a script: a row of NaN

inline std::shared_ptr<const Tokenizer> MakeTokenizer(bool add_bos = false) {
  TokenizerSpec spec;
  spec.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(LettersFromBytes(std::string(1, static_cast<char>(byte))));
  for (const char* piece : {"he", "ll", "hell", "llo"}) spec.tokens.push_back(piece);
  spec.merges = {"h e", "l l", "he ll", "ll o"};
  spec.token_types.assign(spec.tokens.size(), TokenType::kNormal);
  for (const char* control : {"<s>", "<|im_start|>", "<|im_end|>"}) spec.tokens.push_back(control);
  for (int i = 0; i < kNumScripts; ++i) spec.tokens.push_back("<|script" + std::to_string(i) + "|>");
  spec.token_types.resize(spec.tokens.size(), TokenType::kControl);
  spec.bos_id = kBos;
  spec.eos_id = kEos;
  spec.add_bos = add_bos;
  auto tokenizer = Tokenizer::Create(std::move(spec));
  return tokenizer.ok() ? *tokenizer : (ADD_FAILURE() << tokenizer.error().ToString(), nullptr);
}

inline std::shared_ptr<const ChatTemplate> MakeTemplate() {
  auto parsed = ChatTemplate::Parse(
      "{%- if messages[0].role == 'assistant' %}{{ raise_exception('the first message must not be the assistant\\'s') }}{% endif -%}"
      "{%- for message in messages -%}"
      "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
      "{%- endfor -%}"
      "{%- if tools %}{{ tools | tojson }}{% endif -%}"
      "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}");
  return parsed.ok() ? *parsed : (ADD_FAILURE() << parsed.error().ToString(), nullptr);
}

inline std::vector<std::int32_t> Bytes(std::string_view text) {
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// A KV entry is a hash of its history, so that a wrong block is a wrong token. After a prompt that ends in the token kScript0 + i the
// tokens of script i are by far the likeliest, then EOS; every other row has likelihoods drawn from its hash.
class ScriptModel final : public LanguageModel {
 public:
  explicit ScriptModel(std::int64_t num_blocks = 512, std::int64_t max_model_len = 2048) {
    limits_.max_batch_tokens = 512;
    limits_.max_sequences = 256;
    limits_.max_model_len = max_model_len;
    limits_.num_blocks = num_blocks;
    limits_.block_size = 16;
    entries_.resize(static_cast<std::size_t>(num_blocks * limits_.block_size));
  }

  std::map<std::int32_t, std::vector<std::int32_t>> scripts;  // set before the engine starts
  std::atomic<int> step_microseconds = 0;

  std::int64_t vocab_size() const override { return kVocab; }
  const ModelLimits& limits() const override { return limits_; }

  void Forward(const BatchInputs& batch) override {
    if (step_microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(step_microseconds));
    outputs_.clear();
    std::size_t next_output = 0;
    for (std::size_t row = 0; row < batch.token_ids.size(); ++row) {
      const auto& table = batch.block_tables[static_cast<std::size_t>(batch.sequence_index[row])];
      const std::int32_t position = batch.positions[row];
      const Entry before = position > 0 ? At(table, position - 1) : Entry{};
      At(table, position) = Next(before, batch.token_ids[row]);
      if (next_output < batch.output_rows.size() && batch.output_rows[next_output] == static_cast<std::int32_t>(row)) {
        outputs_.push_back(At(table, position));
        ++next_output;
      }
    }
  }

  std::span<const float> Logits(std::int64_t first, std::int64_t count) override {
    logits_.resize(static_cast<std::size_t>(count * kVocab));
    for (std::int64_t i = 0; i < count; ++i) Fill(outputs_[static_cast<std::size_t>(first + i)], &logits_[static_cast<std::size_t>(i * kVocab)]);
    return logits_;
  }

 private:
  struct Entry {
    std::uint64_t hash = 0x5EED;
    std::int32_t script = -1;
    std::size_t done = 0;  // tokens of the script so far
  };

  static std::uint64_t Mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  Entry& At(const std::vector<std::int32_t>& table, std::int32_t position) {
    const auto size = static_cast<std::int32_t>(limits_.block_size);
    return entries_[static_cast<std::size_t>(table[static_cast<std::size_t>(position / size)] * size + position % size)];
  }

  Entry Next(const Entry& before, std::int32_t token) const {
    Entry entry{Mix(before.hash * 31 + static_cast<std::uint64_t>(token) + 1), -1, 0};
    if (token >= kScript0) {
      entry.script = token - kScript0;
    } else if (const auto script = scripts.find(before.script);
               script != scripts.end() && before.done < script->second.size() && script->second[before.done] == token) {
      entry.script = before.script;
      entry.done = before.done + 1;
    }
    return entry;
  }

  void Fill(const Entry& entry, float* logits) const {
    for (std::int32_t id = 0; id < kVocab; ++id) {
      logits[id] = static_cast<float>(Mix(entry.hash + static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15) >> 44) / 131072.0f;
    }
    for (std::int32_t id = kScript0; id < kVocab; ++id) logits[id] -= 40.0f;  // nobody starts a script by chance
    const auto script = scripts.find(entry.script);
    if (script == scripts.end()) return;
    const std::int32_t next = entry.done < script->second.size() ? script->second[entry.done] : kEos;
    if (next == kNan) std::fill(logits, logits + kVocab, std::numeric_limits<float>::quiet_NaN());
    else logits[next] += 60.0f;
  }

  ModelLimits limits_;
  std::vector<Entry> entries_;
  std::vector<Entry> outputs_;
  std::vector<float> logits_;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;

  Json json() const {
    auto parsed = ParseJson(body, "answer");
    return parsed.ok() ? *parsed : (ADD_FAILURE() << parsed.error().ToString() << "\n" << body, Json());
  }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  // The data of every server-sent event.
  std::vector<std::string> events() const {
    std::vector<std::string> data;
    for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      const std::size_t end = body.find("\n\n", at);
      data.push_back(body.substr(at + 6, end - at - 6));
      at = end;
    }
    return data;
  }
};

// One connection of a client that waits at most 10 s for anything.
class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval timeout{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (receive_buffer_bytes > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    const int yes = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    EXPECT_TRUE(connected_);
  }
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)), buffer_(std::move(other.buffer_)) {}
  ~Client() { Close(); }

  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  static std::string Request(const std::string& method, const std::string& path, const std::string& body, const std::string& headers = "") {
    std::string text = method + " " + path + " HTTP/1.1\r\nHost: test\r\n" + headers;
    if (!body.empty() || method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return text + "\r\n" + body;
  }

  HttpAnswer Post(const std::string& path, const std::string& body, const std::string& headers = "") {
    Send(Request("POST", path, body, headers));
    return Read();
  }
  HttpAnswer Get(const std::string& path, const std::string& headers = "") {
    Send(Request("GET", path, "", headers));
    return Read();
  }

  // The next answer; status 0 if the connection ended or time ran out.
  HttpAnswer Read(bool head_only = false) {
    HttpAnswer answer;
    if (!FillUntil("\r\n\r\n")) return answer;
    const std::size_t end = buffer_.find("\r\n\r\n");
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    answer.status = std::atoi(head.c_str() + 9);
    for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
      const std::size_t line_end = head.find("\r\n", at), colon = head.find(": ", at);
      answer.headers[head.substr(at, colon - at)] = head.substr(colon + 2, line_end - colon - 2);
      at = line_end + 2;
    }
    if (answer.status == 100) return Read(head_only);
    if (head_only) return answer;
    if (answer.header("transfer-encoding") == "chunked") {
      for (;;) {
        if (!FillUntil("\r\n")) return {};
        const std::size_t size = std::strtoul(buffer_.c_str(), nullptr, 16), line = buffer_.find("\r\n") + 2;
        if (!FillTo(line + size + 2)) return {};
        answer.body += buffer_.substr(line, size);
        buffer_.erase(0, line + size + 2);
        if (size == 0) return answer;
      }
    }
    if (answer.headers.contains("content-length")) {
      const std::size_t size = std::strtoul(answer.header("content-length").c_str(), nullptr, 10);
      if (!FillTo(size)) return {};
      answer.body = buffer_.substr(0, size);
      buffer_.erase(0, size);
      return answer;
    }
    while (Fill()) {
    }
    answer.body = std::exchange(buffer_, {});
    return answer;
  }

  // Reads until text has come.
  bool FillUntil(std::string_view text) {
    while (buffer_.find(text) == std::string::npos) {
      if (!Fill()) return false;
    }
    return true;
  }
  // True if the server closes the connection before sending anything more.
  bool AtEnd() {
    char byte;
    if (!buffer_.empty()) return false;
    const ssize_t count = ::recv(socket_, &byte, 1, 0);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }
  const std::string& buffer() const { return buffer_; }
  int socket() const { return socket_; }

 private:
  bool FillTo(std::size_t size) {
    while (buffer_.size() < size) {
      if (!Fill()) return false;
    }
    return true;
  }
  bool Fill() {
    char bytes[16384];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  int socket_;
  bool connected_ = false;
  std::string buffer_;
};

// The machine's clock, and as much later as the test says.
class LaterClock final : public Clock {
 public:
  std::int64_t MonotonicNanos() const override { return clock_.MonotonicNanos() + later_nanos; }
  std::int64_t UnixSeconds() const override { return clock_.UnixSeconds(); }
  std::atomic<std::int64_t> later_nanos = 0;

 private:
  SystemClock clock_;
};

// A server over a ScriptModel on a free port of the loopback, with its engine; stopped at the end.
struct TestServer {
  explicit TestServer(ServerConfig config = {}, EngineConfig engine_config = {.max_sequences = 32}, bool add_bos = false,
                      std::int64_t num_blocks = 512)
      : model(num_blocks) {
    config.port = 0;
    serving.name = "tiny";
    serving.tokenizer = MakeTokenizer(add_bos);
    serving.chat_template = MakeTemplate();
    serving.max_model_len = model.limits().max_model_len;
    serving.eos_token_ids = {kEos};
    serving.contract_id = std::string(64, 'c');
    serving.model_contract_id = "0123456789abcdef" + std::string(48, '0');
    serving.created_unix_seconds = 1700000000;
    server_config = std::move(config);
    this->engine_config = engine_config;
  }
  ~TestServer() { Stop(); }

  TestServer& Start() {
    auto made = Engine::Create(engine_config, model, clock, nullptr);
    EXPECT_TRUE(made.ok());
    engine = std::move(made).value();
    auto created = Server::Create(server_config, serving, *engine, clock);
    EXPECT_TRUE(created.ok());
    server = std::move(created).value();
    engine->Start();
    thread = std::thread([this] { server->Run(); });
    return *this;
  }
  void Stop(std::int64_t drain_seconds = 0) {
    if (!server) return;
    server->Stop(drain_seconds);
    thread.join();
    server.reset();
    engine->Stop();
  }

  // Waits until nothing runs, nothing waits and every block is back.
  bool Idle(int milliseconds = 5000) const {
    for (int i = 0; i < milliseconds; ++i) {
      const EngineStats stats = engine->Stats();
      if (stats.num_running == 0 && stats.num_waiting == 0 && stats.num_free_blocks + stats.num_cached_blocks == stats.num_blocks) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  template <class Condition>
  bool Eventually(const Condition& condition, int milliseconds = 5000) const {
    for (int i = 0; i < milliseconds; ++i) {
      if (condition(engine->Stats())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  Client Connect(int receive_buffer_bytes = 0) const { return Client(server->port(), receive_buffer_bytes); }

  ScriptModel model;
  ServingModel serving;
  ServerConfig server_config;
  EngineConfig engine_config;
  LaterClock clock;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Server> server;
  std::thread thread;
};

// Joined text of a streamed choice; checks that finish_reason comes exactly once.
struct StreamedChoice {
  std::string text, finish_reason;
  std::vector<std::int32_t> token_ids;
  int num_finishes = 0;
};
inline std::map<int, StreamedChoice> JoinStream(const HttpAnswer& answer) {
  std::map<int, StreamedChoice> choices;
  for (const std::string& event : answer.events()) {
    if (event == "[DONE]") continue;
    const Json chunk = *ParseJson(event, "event");
    if (!chunk.contains("choices")) continue;
    for (const Json& choice : chunk["choices"]) {
      StreamedChoice& joined = choices[choice["index"].get<int>()];
      if (choice.contains("text")) joined.text += choice["text"].get<std::string>();
      if (choice.contains("delta") && choice["delta"].contains("content")) joined.text += choice["delta"]["content"].get<std::string>();
      if (choice.contains("token_ids")) {
        for (const Json& id : choice["token_ids"]) joined.token_ids.push_back(id.get<std::int32_t>());
      }
      if (!choice["finish_reason"].is_null()) {
        joined.finish_reason = choice["finish_reason"].get<std::string>();
        ++joined.num_finishes;
      }
    }
  }
  return choices;
}

}  // namespace isobit::serve_test
