#include "serve/request_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "base/utf8.h"
#include "serve/sse.h"

namespace isobit {
namespace {

// A proxy may drop a connection that says nothing; until then an error can still have its own HTTP status.
constexpr std::int64_t kKeepAliveNanos = 15'000'000'000;

std::vector<std::int32_t> StopIds(const ApiRequest& request, const ServingModel& model) {
  std::vector<std::int32_t> ids = request.stop_token_ids;
  if (!request.ignore_eos) ids.insert(ids.end(), model.eos_token_ids.begin(), model.eos_token_ids.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

AnswerFormat FormatOf(const ApiRequest& request) {
  return {.chat = request.chat,
          .stream = request.stream,
          .logprobs = request.logprobs,
          .prompt_logprobs = request.prompt_logprobs,
          .return_token_ids = request.return_token_ids,
          .tokens_as_ids = request.return_tokens_as_token_ids};
}

}  // namespace

Generation::Generation(ServeContext& context, GenerationPlan plan, std::shared_ptr<HttpExchange> exchange)
    : context_(context),
      plan_(std::move(plan)),
      exchange_(std::move(exchange)),
      key_(context.next_generation++),
      format_(FormatOf(plan_.request)),
      stop_ids_(StopIds(plan_.request, context.model)),
      answer_id_(fmt::format("{}-{:016x}{:016x}", plan_.request.chat ? "chatcmpl" : "cmpl", SystemEntropy(), SystemEntropy())),
      created_(context.clock.UnixSeconds()) {
  const ApiRequest& request = plan_.request;
  const TextStreamOptions options{.skip_special = request.skip_special_tokens,
                                  .include_stop = request.include_stop_str_in_output,
                                  .stops = request.stop,
                                  .min_tokens = request.min_tokens};
  for (std::size_t p = 0; p < plan_.prompts.size(); ++p) {
    for (std::int64_t i = 0; i < request.n; ++i) {
      Choice& choice = choices_.emplace_back(context.model.tokenizer, options);
      choice.prompt_index = p;
      choice.part.index = static_cast<std::int64_t>(choices_.size()) - 1;
    }
  }
  num_unfinished_ = choices_.size();
  last_write_nanos_ = plan_.arrival_nanos;
}

GenerationRequest Generation::EngineRequest(const Choice& choice) const {
  const ApiRequest& request = plan_.request;
  const auto choice_of_prompt = static_cast<std::uint32_t>(choice.part.index % request.n);
  GenerationRequest engine_request;
  engine_request.prompt_ids = plan_.prompts[choice.prompt_index].ids;
  engine_request.sampling = request.sampling;
  engine_request.sampling.seed = plan_.seed;
  engine_request.sampling.choice = choice_of_prompt;
  engine_request.max_new_tokens = plan_.max_new_tokens[choice.prompt_index];
  engine_request.min_new_tokens = request.min_tokens;
  engine_request.stop_token_ids = stop_ids_;
  engine_request.num_logprobs = request.logprobs;
  // Chat states the prompt's scores once for all choices, completions in each choice.
  if (!request.chat || choice_of_prompt == 0) engine_request.num_prompt_logprobs = request.prompt_logprobs;
  if (request.echo) engine_request.num_prompt_logprobs = std::max(engine_request.num_prompt_logprobs, request.logprobs);
  engine_request.cache_salt = request.cache_salt;
  return engine_request;
}

void Generation::Start() {
  context_.metrics.RequestStarted(plan_.request.n);
  context_.active[key_] = shared_from_this();
  exchange_->OnClosed([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Abandon();
  });
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    auto sink = [inbox = context_.inbox, key = key_, i, &clock = context_.clock](EngineEvent event) {
      inbox->Push({key, i, clock.MonotonicNanos(), std::move(event)});
    };
    Result<RequestId> id = context_.engine.Submit(EngineRequest(choices_[i]), std::move(sink));
    if (!id.ok()) {
      FailWith(ApiErrorFrom(id.error()));
      if (retired()) context_.active.erase(key_);
      return;
    }
    ++num_in_engine_;
    choices_[i].engine_id = *id;
    choices_[i].submitted = true;
  }
}

void Generation::OnEvent(std::size_t choice_index, EngineEvent event, std::int64_t nanos) {
  Choice& choice = choices_[choice_index];
  if (event.finish) {
    choice.engine_done = true;
    --num_in_engine_;
    CountFinish(choice, event, nanos);
  }
  if (over_) return;
  if (event.has_prompt_scores) choice.prompt_scores = std::move(event.prompt_scores);
  if (event.token) OnToken(choice, event, nanos);
  if (event.finish) OnFinish(choice, event);
}

// The first thing known of a choice's answer: what it owes of the prompt goes in front.
void Generation::Begin(Choice& choice) {
  if (choice.begun) return;
  choice.begun = true;
  choice.part.prompt_ids = &plan_.prompts[choice.prompt_index].ids;
  if (format_.prompt_logprobs >= 0) choice.part.prompt_scores = &choice.prompt_scores;
  if (plan_.request.echo) EchoPrompt(choice);
}

// The prompt as text, with the scores of its tokens. Of a prompt sent as text everything is shown but what the server added (BOS);
// of one sent as ids, what skip_special_tokens says.
void Generation::EchoPrompt(Choice& choice) {
  const EncodedPrompt& prompt = plan_.prompts[choice.prompt_index];
  const PromptInput& input = plan_.request.prompts[choice.prompt_index];
  Detokenizer detokenizer(context_.model.tokenizer, !input.is_text && plan_.request.skip_special_tokens);
  std::string text;
  std::int64_t code_points = 0;
  for (std::size_t i = 0; i < prompt.ids.size(); ++i) {
    const bool added = i < prompt.num_prefix || i >= prompt.ids.size() - prompt.num_suffix;
    if (format_.logprobs >= 0) {
      ScoredToken token{.id = prompt.ids[i], .scored = false, .text_offset = code_points};
      if (i > 0 && i - 1 < choice.prompt_scores.size()) {
        token.scored = true;
        token.logprob = choice.prompt_scores[i - 1].actual.logprob;
        token.top = choice.prompt_scores[i - 1].top;
      }
      choice.part.scores.push_back(std::move(token));
    }
    if (added) continue;
    const std::string delta = detokenizer.Append(prompt.ids[i]);
    code_points += static_cast<std::int64_t>(CountCodePoints(delta));
    text += delta;
  }
  text += detokenizer.Finish();
  choice.echo_code_points = static_cast<std::int64_t>(CountCodePoints(text));
  choice.part.text = std::move(text);
}

void Generation::OnToken(Choice& choice, EngineEvent& event, std::int64_t nanos) {
  if (choice.text.stopped()) return;  // made before the engine heard that a stop string was complete
  if (choice.last_token_nanos >= 0) context_.metrics.TokenInterval(nanos - choice.last_token_nanos);
  else choice.first_token_nanos = nanos;
  choice.last_token_nanos = nanos;
  Begin(choice);
  const std::int32_t id = *event.token;
  const bool ends = std::binary_search(stop_ids_.begin(), stop_ids_.end(), id);
  const bool hidden = ends && !plan_.request.include_stop_str_in_output;
  ++choice.num_tokens;
  choice.part.token_ids.push_back(id);
  if (event.logprob) {
    const bool special = plan_.request.skip_special_tokens && context_.model.tokenizer->IsSpecial(id);
    choice.part.scores.push_back({.id = id,
                                  .shown = !hidden && !special,
                                  .logprob = event.logprob->logprob,
                                  .top = std::move(event.top),
                                  .text_offset = choice.echo_code_points + choice.text.num_code_points()});
  }
  if (hidden) choice.text.AppendHidden();
  else choice.part.text += choice.text.Append(id);
  if (choice.text.stopped() && !choice.engine_done) context_.engine.Cancel(choice.engine_id);
  // The last token waits for the engine's finish and goes out with it: where chunks are cut never depends on timing.
  const bool last = ends || choice.text.stopped() || choice.num_tokens == plan_.max_new_tokens[choice.prompt_index];
  if (plan_.request.stream && !last) SendChunk(choice);
}

void Generation::OnFinish(Choice& choice, const EngineEvent& event) {
  if (!choice.text.stopped()) {
    if (*event.finish == FinishReason::kError) {
      FailWith(ApiErrorFrom(event.error.value_or(Error{ErrorCode::kInternal, "", "the engine failed without a reason"})));
      return;
    }
    if (*event.finish == FinishReason::kCancelled) {
      FailWith(ApiErrorFrom(Error{ErrorCode::kCancelled, "", "the server is shutting down; ask again elsewhere or later"}));
      return;
    }
  }
  Begin(choice);
  choice.cached_tokens = event.cached_tokens;
  choice.part.text += choice.text.Finish();
  if (choice.text.stopped()) {
    choice.part.finish_reason = "stop";
    choice.part.stop_string = choice.text.stop_string();
  } else if (*event.finish == FinishReason::kStop) {
    choice.part.finish_reason = "stop";
    const auto& eos = context_.model.eos_token_ids;
    const bool is_eos = !plan_.request.ignore_eos && std::binary_search(eos.begin(), eos.end(), event.stop_token_id);
    if (!is_eos) choice.part.stop_token_id = event.stop_token_id;
  } else {
    choice.part.finish_reason = "length";
  }
  if (plan_.request.stream) SendChunk(choice);
  if (--num_unfinished_ == 0) Complete();
}

void Generation::CountFinish(const Choice& choice, const EngineEvent& event, std::int64_t nanos) {
  const std::int64_t arrival = plan_.arrival_nanos;
  const auto since = [&](std::int64_t at) { return at < 0 ? -1 : std::max<std::int64_t>(at - arrival, 0); };
  const ChoiceTimes times{.queued = since(event.first_row_nanos),
                          .first_token = since(choice.first_token_nanos),
                          .end = since(nanos),
                          .prompt_tokens = static_cast<std::int64_t>(plan_.prompts[choice.prompt_index].ids.size()),
                          .generated_tokens = choice.num_tokens,
                          .max_tokens = plan_.max_new_tokens[choice.prompt_index]};
  const bool stopped = choice.text.stopped() || *event.finish == FinishReason::kStop;
  const char* reason = *event.finish == FinishReason::kError ? "error"
                       : stopped                             ? "stop"
                       : *event.finish == FinishReason::kLength ? "length"
                                                                : "abort";
  context_.metrics.ChoiceEnded(times, reason);
}

void Generation::WriteHead(JsonWriter& json) const {
  const char* object = !plan_.request.chat ? "text_completion" : plan_.request.stream ? "chat.completion.chunk" : "chat.completion";
  json.BeginObject().Key("id").String(answer_id_).Key("object").String(object).Key("created").Int(created_);
  json.Key("model").String(context_.model.name);
}

void Generation::WriteChatPrompt(JsonWriter& json) const {
  if (!plan_.request.chat) return;
  if (format_.return_token_ids) {
    json.Key("prompt_token_ids").BeginArray();
    for (const std::int32_t id : plan_.prompts[0].ids) json.Int(id);
    json.EndArray();
  }
  if (format_.prompt_logprobs >= 0) {
    json.Key("prompt_logprobs");
    WritePromptLogprobs(format_, *context_.model.tokenizer, choices_[0].prompt_scores, json);
  }
}

// What the first chunk, or the whole answer, says of the request itself.
void Generation::WriteRequested(JsonWriter& json) const {
  json.Key("seed").Uint(plan_.seed);
  if (!plan_.request.return_sampling_params) return;
  json.Key("effective_sampling");
  WriteEffectiveSampling({plan_.request, plan_.seed, plan_.max_new_tokens[0], stop_ids_}, json);
}

void Generation::OpenStream() {
  if (stream_open_) return;
  stream_open_ = true;
  HttpResponse head;
  head.content_type = std::string(kSseContentType);
  head.headers = plan_.headers;
  head.headers.emplace_back("cache-control", "no-cache");
  head.headers.emplace_back("x-accel-buffering", "no");
  exchange_->StartStream(std::move(head));
}

void Generation::SendChunk(Choice& choice) {
  JsonWriter json;
  WriteHead(json);
  if (!any_chunk_sent_) WriteChatPrompt(json);
  json.Key("choices").BeginArray();
  WriteChoice(format_, *context_.model.tokenizer, choice.part, json);
  json.EndArray().Key("system_fingerprint").String(context_.fingerprint);
  if (plan_.request.continuous_usage_stats) {
    json.Key("usage");
    WriteUsage(TotalUsage(false), json);
  } else if (plan_.request.include_usage) {
    json.Key("usage").Null();
  }
  if (!any_chunk_sent_) WriteRequested(json);
  json.EndObject();
  any_chunk_sent_ = true;
  choice.part = ChoicePart{.index = choice.part.index, .first = false};
  last_write_nanos_ = context_.clock.MonotonicNanos();
  OpenStream();
  exchange_->Write(SseEvent(json.text()));  // may find the client gone and call Abandon
}

std::string Generation::UsageChunk() const {
  JsonWriter json;
  WriteHead(json);
  json.Key("choices").BeginArray().EndArray().Key("system_fingerprint").String(context_.fingerprint).Key("usage");
  WriteUsage(TotalUsage(true), json);
  json.EndObject();
  return json.Take();
}

std::string Generation::WholeAnswer() const {
  JsonWriter json;
  WriteHead(json);
  json.Key("choices").BeginArray();
  for (const Choice& choice : choices_) WriteChoice(format_, *context_.model.tokenizer, choice.part, json);
  json.EndArray().Key("usage");
  WriteUsage(TotalUsage(true), json);
  json.Key("system_fingerprint").String(context_.fingerprint);
  WriteChatPrompt(json);
  WriteRequested(json);
  json.EndObject();
  return json.Take();
}

Usage Generation::TotalUsage(bool with_cached) const {
  Usage usage;
  if (with_cached) usage.cached_tokens = 0;
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.num_tokens;
    if (choice.part.index % plan_.request.n != 0) continue;  // a prompt counts once, however many answers it gets
    usage.prompt_tokens += static_cast<std::int64_t>(plan_.prompts[choice.prompt_index].ids.size());
    if (with_cached) usage.cached_tokens += choice.cached_tokens;
  }
  return usage;
}

void Generation::Complete() {
  if (over_) return;
  const std::shared_ptr<HttpExchange> exchange = exchange_;
  if (plan_.request.stream) {
    std::string tail;
    if (plan_.request.include_usage) tail += SseEvent(UsageChunk());
    tail += kSseDone;
    End(200);
    exchange->Write(tail);
    exchange->Finish();
    return;
  }
  HttpResponse response;
  response.headers = plan_.headers;
  response.body = WholeAnswer();
  End(200);
  exchange->Respond(std::move(response));
}

void Generation::FailWith(const ApiError& error) {
  if (over_) return;
  const std::shared_ptr<HttpExchange> exchange = exchange_;
  CancelRest();
  End(error.status);
  if (stream_open_) {
    exchange->Write(SseEvent(ErrorBody(error)) + std::string(kSseDone));
    exchange->Finish();
    return;
  }
  HttpResponse response = ErrorResponse(error);
  response.headers.insert(response.headers.end(), plan_.headers.begin(), plan_.headers.end());
  exchange->Respond(std::move(response));
}

void Generation::Abandon() {
  if (over_) return;
  CancelRest();
  End(499);
}

void Generation::CancelRest() {
  for (const Choice& choice : choices_) {
    if (choice.submitted && !choice.engine_done) context_.engine.Cancel(choice.engine_id);
  }
}

void Generation::End(int status) {
  over_ = true;
  status_ = status;
  exchange_->OnClosed(nullptr);
  context_.metrics.HttpAnswered(status);
  const Usage usage = TotalUsage(true);
  const std::int64_t now = context_.clock.MonotonicNanos();
  JsonWriter line;
  line.BeginObject().Key("event").String("request").Key("request_id").String(plan_.request_id).Key("answer_id").String(answer_id_);
  line.Key("path").String(plan_.request.chat ? "/v1/chat/completions" : "/v1/completions").Key("status").Int(status);
  line.Key("stream").Bool(plan_.request.stream).Key("choices").Int(static_cast<std::int64_t>(choices_.size()));
  line.Key("prompt_tokens").Int(usage.prompt_tokens).Key("cached_tokens").Int(usage.cached_tokens);
  line.Key("completion_tokens").Int(usage.completion_tokens).Key("seed").Uint(plan_.seed);
  line.Key("milliseconds").Int((now - plan_.arrival_nanos) / 1'000'000).EndObject();
  context_.Log(line.text());
}

void Generation::Tick(std::int64_t now_nanos) {
  if (over_ || !plan_.request.stream || now_nanos - last_write_nanos_ < kKeepAliveNanos) return;
  last_write_nanos_ = now_nanos;
  OpenStream();
  exchange_->Write(kSseKeepAlive);
}

}  // namespace isobit
