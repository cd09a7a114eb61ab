// Generation: one completions or chat request while it is being answered: its engine requests (prompts x n), the text and scores of
// each choice so far, and what has been sent. Lives on the server's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "serve/api_error.h"
#include "serve/chat_prompt.h"
#include "serve/event_inbox.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/openai_request.h"
#include "serve/openai_response.h"
#include "serve/server.h"
#include "serve/text_stream.h"

namespace isobit {

class Generation;

// What every request shares; outlives them all.
struct ServeContext {
  const ServerConfig& config;
  const ServingModel& model;
  Engine& engine;
  const Clock& clock;
  std::shared_ptr<EventInbox> inbox;
  Metrics metrics;
  std::string fingerprint;                      // "isobit-0.1.0-" and 12 digits of the model contract
  std::map<std::uint64_t, std::shared_ptr<Generation>> active;  // until answered and done with the engine
  std::uint64_t next_generation = 0;

  void Log(const std::string& line) const {
    if (config.log) config.log(line);
  }
};

struct GenerationPlan {
  ApiRequest request;
  std::vector<EncodedPrompt> prompts;  // lengths checked
  std::vector<std::int64_t> max_new_tokens;  // [prompts]
  std::uint64_t seed = 0;
  HttpHeaders headers;     // of the answer
  std::string request_id;  // as logged and echoed
  std::int64_t arrival_nanos = 0;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(ServeContext& context, GenerationPlan plan, std::shared_ptr<HttpExchange> exchange);

  // Enters itself into the context and hands every choice to the engine; answers itself if the engine refuses one.
  void Start();
  void OnEvent(std::size_t choice_index, EngineEvent event, std::int64_t nanos);
  // Answered, and nothing of it left in the engine.
  bool retired() const { return over_ && num_in_engine_ == 0; }
  // Once a second: opens a silent stream after a while and keeps it from being taken for dead.
  void Tick(std::int64_t now_nanos);

 private:
  struct Choice {
    Choice(std::shared_ptr<const Tokenizer> tokenizer, TextStreamOptions options) : text(std::move(tokenizer), std::move(options)) {}

    RequestId engine_id = 0;
    std::size_t prompt_index = 0;
    bool submitted = false;
    bool engine_done = false;
    TextStream text;
    ChoicePart part;                 // not yet sent
    std::int64_t num_tokens = 0;     // up to the one that completed a stop string
    std::int64_t echo_code_points = 0;
    std::vector<PromptScore> prompt_scores;
    bool begun = false;              // the prompt's share of the part is in it
    std::int64_t cached_tokens = 0;
    std::int64_t first_token_nanos = -1, last_token_nanos = -1;
  };

  GenerationRequest EngineRequest(const Choice& choice) const;
  void Begin(Choice& choice);
  void EchoPrompt(Choice& choice);
  void OnToken(Choice& choice, EngineEvent& event, std::int64_t nanos);
  void OnFinish(Choice& choice, const EngineEvent& event);
  void CountFinish(const Choice& choice, const EngineEvent& event, std::int64_t nanos);
  void SendChunk(Choice& choice);
  void Complete();
  void FailWith(const ApiError& error);
  void Abandon();       // the client left
  void End(int status); // nothing more will be sent
  void CancelRest();
  void OpenStream();
  void WriteHead(JsonWriter& json) const;
  void WriteChatPrompt(JsonWriter& json) const;
  void WriteRequested(JsonWriter& json) const;
  std::string UsageChunk() const;
  std::string WholeAnswer() const;
  Usage TotalUsage(bool with_cached) const;

  ServeContext& context_;
  GenerationPlan plan_;
  std::shared_ptr<HttpExchange> exchange_;
  const std::uint64_t key_;
  AnswerFormat format_;
  std::vector<std::int32_t> stop_ids_;  // the client's and EOS, ascending
  std::string answer_id_;               // "cmpl-..." or "chatcmpl-..."
  std::int64_t created_ = 0;
  std::vector<Choice> choices_;         // prompts x n, by index
  std::size_t num_unfinished_ = 0;
  std::size_t num_in_engine_ = 0;
  bool stream_open_ = false;
  bool any_chunk_sent_ = false;
  bool over_ = false;
  std::int64_t last_write_nanos_ = 0;
  int status_ = 0;
};

}  // namespace isobit
