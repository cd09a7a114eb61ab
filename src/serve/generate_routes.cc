// POST /v1/completions and /v1/chat/completions: from the body to a GenerationPlan, or an error that names the field.
#include <algorithm>

#include "base/random.h"
#include "base/utf8.h"
#include "serve/routes.h"

namespace isobit {
namespace {

constexpr std::int64_t kDefaultCompletionTokens = 16;  // OpenAI's
constexpr std::size_t kMaxIgnoredHeaderBytes = 1024;

// Names as a header may carry them.
std::string IgnoredFieldsHeader(const std::vector<std::string>& names) {
  std::string value;
  for (const std::string& name : names) {
    if (!value.empty()) value += ", ";
    for (const char c : name) value += c > ' ' && c < 0x7F && c != ',' ? c : '?';
    if (value.size() > kMaxIgnoredHeaderBytes) return value.substr(0, kMaxIgnoredHeaderBytes) + "...";
  }
  return value;
}

Error ContextLengthError(const char* field, std::int64_t max_len, std::int64_t prompt, std::int64_t answer) {
  return Fail(ErrorCode::kInvalidArgument, field,
              "this model's maximum context length is {} tokens, but {} were asked for ({} of the prompt, {} to generate); shorten the "
              "prompt or lower max_tokens",
              max_len, prompt + answer, prompt, answer);
}

}  // namespace

RequestLimits Api::Limits() const {
  return {.model_name = context_.model.name,
          .vocab_size = context_.model.tokenizer->vocab_size(),
          .max_model_len = context_.model.max_model_len,
          .max_choices = context_.config.max_choices,
          .strict_fields = context_.config.strict_fields};
}

void Api::Complete(std::shared_ptr<HttpExchange> exchange) { Generate(std::move(exchange), false); }
void Api::Chat(std::shared_ptr<HttpExchange> exchange) { Generate(std::move(exchange), true); }

void Api::Generate(std::shared_ptr<HttpExchange> exchange, bool chat) {
  Result<GenerationPlan> plan = Plan(exchange->request(), chat, context_.clock.MonotonicNanos());
  if (!plan.ok()) {
    Answer(*exchange, ErrorResponse(ApiErrorFrom(plan.error())));
    return;
  }
  exchange->DropBody();  // a stream may live long, and its body be long
  std::make_shared<Generation>(context_, std::move(plan).value(), std::move(exchange))->Start();
}

Result<GenerationPlan> Api::Plan(const HttpRequest& http, bool chat, std::int64_t arrival_nanos) const {
  GenerationPlan plan;
  plan.arrival_nanos = arrival_nanos;
  {
    ISOBIT_ASSIGN(const Json body, ParseBody(http.body));
    ISOBIT_ASSIGN(plan.request, chat ? ParseChatRequest(body, Limits()) : ParseCompletionRequest(body, Limits()));
  }
  ISOBIT_TRY(PlanPrompts(plan));
  ISOBIT_TRY(PlanLength(plan));
  ApiRequest& request = plan.request;
  request.conversation = {};
  for (PromptInput& input : request.prompts) input = {.is_text = input.is_text};
  // 53 bits, so that a client whose numbers are doubles can send the seed back.
  plan.seed = request.seed ? *request.seed : context_.config.default_seed ? *context_.config.default_seed : SystemEntropy() >> 11;
  plan.request_id = RequestId(http, request.request_id);
  plan.headers = CommonHeaders(plan.request_id);
  plan.headers.emplace_back("x-isobit-seed", fmt::format("{}", plan.seed));
  if (!request.ignored_fields.empty()) plan.headers.emplace_back("x-isobit-ignored-fields", IgnoredFieldsHeader(request.ignored_fields));
  return plan;
}

Status Api::PlanPrompts(GenerationPlan& plan) const {
  const ApiRequest& request = plan.request;
  const std::int64_t max_len = context_.model.max_model_len;
  const auto too_much_text = [&](const char* field, std::size_t bytes) {
    return Fail(ErrorCode::kInvalidArgument, field,
                "this model's maximum context length is {} tokens, and {} bytes of text are more; shorten the prompt", max_len, bytes);
  };
  if (request.chat) {
    const std::size_t bytes = PromptEncoder::TextBytes(request.conversation);
    if (!encoder_.CanFit(bytes, max_len)) return too_much_text("messages", bytes);
    ISOBIT_ASSIGN(RenderedChat rendered, encoder_.Render(request.conversation, request.add_special_tokens));
    plan.prompts.push_back({.ids = std::move(rendered.ids)});
  }
  for (const PromptInput& input : request.prompts) {
    if (!input.is_text) {
      plan.prompts.push_back({.ids = input.ids});
      continue;
    }
    // Text to be truncated may be longer, but not without limit: it is encoded first.
    const bool fits = encoder_.CanFit(input.text.size(), max_len) ||
                      (request.truncate_prompt_tokens && input.text.size() <= kMaxTokenizeBytes);
    if (!fits) return too_much_text("prompt", input.text.size());
    plan.prompts.push_back(encoder_.Encode(input.text, request.add_special_tokens, request.parse_special));
  }
  for (EncodedPrompt& prompt : plan.prompts) {
    const auto length = static_cast<std::int64_t>(prompt.ids.size());
    if (request.truncate_prompt_tokens && length > *request.truncate_prompt_tokens) {
      prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - *request.truncate_prompt_tokens);
      prompt.num_prefix = 0;
      prompt.num_suffix = std::min(prompt.num_suffix, prompt.ids.size());
    }
    if (prompt.ids.empty()) {
      return Fail(ErrorCode::kInvalidArgument, request.chat ? "messages" : "prompt", "has no tokens; send at least one");
    }
  }
  return {};
}

Status Api::PlanLength(GenerationPlan& plan) const {
  const ApiRequest& request = plan.request;
  const std::int64_t max_len = context_.model.max_model_len;
  const char* prompt_field = request.chat ? "messages" : "prompt";
  const EngineStats stats = context_.engine.Stats();
  for (const EncodedPrompt& prompt : plan.prompts) {
    const auto length = static_cast<std::int64_t>(prompt.ids.size());
    const std::int64_t room = max_len - length;
    if (room < 0) return ContextLengthError(prompt_field, max_len, length, request.max_tokens.value_or(1));
    // A default asks for no more than the KV cache can ever hold; the last token needs no place in it.
    const std::int64_t kv_room = std::max<std::int64_t>(stats.num_blocks * stats.block_size + 1 - length, 1);
    const std::int64_t default_room = std::min(room, kv_room);
    const std::int64_t max_new =
        request.max_tokens.value_or(request.chat ? default_room : std::min(kDefaultCompletionTokens, default_room));
    if (request.max_tokens && max_new > room) return ContextLengthError("max_tokens", max_len, length, max_new);
    if (!request.max_tokens && room == 0) return ContextLengthError(prompt_field, max_len, length, 1);
    if (request.min_tokens > max_new) {
      return Fail(ErrorCode::kInvalidArgument, "min_tokens", "is {}, more than the {} tokens that may be generated", request.min_tokens,
                  max_new);
    }
    plan.max_new_tokens.push_back(max_new);
  }
  return {};
}

}  // namespace isobit
