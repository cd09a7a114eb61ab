// Server: the OpenAI-compatible HTTP front of one engine. The only room with sockets on the server side.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace isobit {

// What a server says of the model behind it; filled by apps/isobit/loaded_model.cc.
struct ServingModel {
  std::string name;                                   // as clients must spell it
  std::shared_ptr<const Tokenizer> tokenizer;         // never null
  std::shared_ptr<const ChatTemplate> chat_template;  // null: chat answers 400
  std::int64_t max_model_len = 0;
  std::vector<std::int32_t> eos_token_ids;            // ascending
  std::string contract_id;                            // 64 hex digits
  std::string model_contract_id;                      // 64 hex digits: contract, weights, tokenizer, template
  std::string weights_digest;
  std::string preset;                                 // "portable", ...
  std::string kv_type;
  std::string device;                                 // "cpu/avx512", ... : informative only
  std::int64_t created_unix_seconds = 0;
};

struct ServerConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;               // 0: any free one
  std::vector<std::string> api_keys;       // empty: open
  bool open_paths = false;                 // /metrics, /tokenize, /tokenizer_info without a key
  std::int64_t max_body_bytes = 16 << 20;
  std::int64_t max_header_bytes = 64 << 10;
  std::int64_t idle_timeout_seconds = 120;
  std::int64_t max_connections = 8192;
  std::int64_t max_choices = 128;          // prompts x n of one request
  std::optional<std::uint64_t> default_seed;  // --default-seed: for requests without one; else drawn and returned
  bool strict_fields = false;              // 400 for unknown fields instead of listing them in a header
  bool metrics_compat_vllm = true;
  std::function<void(const std::string& line)> log;  // one structured line per request; never prompt text. May be empty
};

class Server {
 public:
  // Binds and listens. The engine must be Start()ed by the caller and outlive the server.
  static Result<std::unique_ptr<Server>> Create(const ServerConfig& config, const ServingModel& model, Engine& engine,
                                                const Clock& clock);
  ~Server();

  std::uint16_t port() const;
  // Serves on the calling thread until Stop(). One thread carries every connection.
  void Run();
  // Thread- and signal-safe enough for a SIGTERM handler thread: stops accepting, lets answers in progress finish for at most
  // drain_seconds, then closes.
  void Stop(std::int64_t drain_seconds = 10);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit
