// ApiRequest: a completions or chat request, typed and range-checked: JSON in, plain data out, or an error that names the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "sample/sampling_params.h"

namespace isobit {

// What a request is checked against.
struct RequestLimits {
  std::string model_name;
  std::int64_t vocab_size = 0;
  std::int64_t max_model_len = 0;
  std::int64_t max_choices = 128;
  bool strict_fields = false;
};

inline constexpr std::int64_t kMaxLogprobs = 20;
inline constexpr std::size_t kMaxStopStrings = 32;
inline constexpr std::size_t kMaxStopBytes = 1024;

// One prompt of a completions request.
struct PromptInput {
  bool is_text = true;
  std::string text;
  std::vector<std::int32_t> ids;  // used verbatim: no BOS is added
};

// What a chat request renders. Also the input of /tokenize and .../render.
struct ChatInput {
  Json messages;                      // checked: roles and text content; parts joined by line breaks
  Json tools;                         // null: none
  Json documents;                     // null: none
  Json template_kwargs = Json::object();
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

struct ApiRequest {
  bool chat = false;
  std::string model;
  std::vector<PromptInput> prompts;   // completions
  ChatInput conversation;             // chat
  bool add_special_tokens = true;     // BOS as the tokenizer asks; chat: false, templates write their own
  bool parse_special = true;          // control tokens in a completions prompt's text
  std::optional<std::int64_t> truncate_prompt_tokens;  // keep the last so many

  SamplingParams sampling;            // seed and choice not yet set
  std::optional<std::uint64_t> seed;
  std::int64_t n = 1;
  std::optional<std::int64_t> max_tokens;  // completions: 16 if absent; chat: what the context leaves
  std::int64_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;             // none empty
  std::vector<std::int32_t> stop_token_ids;  // the client's, ascending
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;
  std::int32_t logprobs = -1;         // -1: none; else how many alternatives to each token
  std::int32_t prompt_logprobs = -1;  // likewise
  bool echo = false;
  bool return_token_ids = false;
  bool return_tokens_as_token_ids = false;
  bool return_sampling_params = false;

  std::string cache_salt;
  std::string request_id;
  std::vector<std::string> ignored_fields;  // harmless or unknown ones that changed nothing
};

Result<ApiRequest> ParseCompletionRequest(const Json& body, const RequestLimits& limits);
Result<ApiRequest> ParseChatRequest(const Json& body, const RequestLimits& limits);

// messages, tools, chat_template_kwargs, add_generation_prompt, ...: the part of a chat body that makes the prompt.
Result<ChatInput> ParseChatInput(const Json& body);

// A request body: UTF-8 without BOM or NUL, one JSON object.
Result<Json> ParseBody(std::string_view body);

}  // namespace isobit
