#include "serve/openai_request.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "serve/field_reader.h"

namespace isobit {
namespace {

constexpr std::int64_t kMaxTokensLimit = std::int64_t{1} << 40;  // any larger is a mistake, not a context length error
constexpr std::uint64_t kMaxKeyComparisons = std::uint64_t{1} << 25;

// Fields that change no answer: accepted, listed as ignored, never refused.
constexpr const char* kHarmlessFields[] = {
    "user",     "priority",          "metadata",         "store",    "service_tier",
    "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls",
};

// Fields that would change an answer if we knew how, and the value at which they change nothing. Any other value is refused: to
// ignore it would be to answer another question.
struct UnsupportedField {
  const char* name;
  const char* neutral;  // JSON; "" : none but null
};
constexpr UnsupportedField kUnsupportedFields[] = {
    {"best_of", "1"},
    {"use_beam_search", "false"},
    {"length_penalty", "1.0"},
    {"early_stopping", "false"},
    {"suffix", "\"\""},
    {"bad_words", "[]"},
    {"logprob_token_ids", "[]"},
    {"structured_outputs", ""},
    {"guided_json", ""},
    {"guided_regex", ""},
    {"guided_choice", ""},
    {"guided_grammar", ""},
    {"json_schema", ""},
    {"regex", ""},
    {"ebnf", ""},
    {"grammar", ""},
    {"structural_tag", ""},
    {"logits_processors", "[]"},
    {"custom_logit_processor", ""},
    {"custom_params", ""},
    {"vllm_xargs", "{}"},
    {"typical_p", "1.0"},
    {"tfs_z", "1.0"},
    {"top_a", "0"},
    {"top_n_sigma", "-1"},
    {"epsilon_cutoff", "0"},
    {"eta_cutoff", "0"},
    {"mirostat", "0"},
    {"dynatemp_range", "0"},
    {"xtc_probability", "0"},
    {"dry_multiplier", "0"},
    {"repeat_penalty", "1.0"},
    {"no_repeat_ngram_size", "0"},
    {"thinking_token_budget", ""},
    {"spaces_between_special_tokens", "true"},
    {"lora_path", ""},
    {"kv_transfer_params", ""},
    {"prompt_embeds", ""},
    {"input_ids", ""},
    {"modalities", "[\"text\"]"},
    {"audio", ""},
    {"prediction", ""},
    {"functions", "[]"},
    {"function_call", "\"none\""},
    {"web_search_options", ""},
    {"mm_processor_kwargs", ""},
    {"chat_template", ""},
    {"verbosity", "\"medium\""},
    {"receipt", "false"},
};

bool IsNeutral(const Json& value, const char* neutral) {
  if (*neutral == '\0') return false;
  const Json reference = Json::parse(neutral);
  if (value.is_number() && reference.is_number()) return value.get<double>() == reference.get<double>();
  return value == reference;
}

void RefuseUnsupported(FieldReader& fields) {
  for (const UnsupportedField& field : kUnsupportedFields) {
    const Json* value = fields.Find(field.name);
    if (value && !IsNeutral(*value, field.neutral)) {
      fields.Fail(ErrorCode::kUnsupported, field.name, "is not supported by this server; leave it out");
    }
  }
}

void ReadModel(FieldReader& fields, const RequestLimits& limits, ApiRequest& request) {
  request.model = limits.model_name;
  fields.String("model", 4096, &request.model);
  if (request.model != limits.model_name) {
    fields.Fail(ErrorCode::kNotFound, "model",
                fmt::format("no model of the name \"{}\" is served here; use \"{}\"", request.model, limits.model_name));
  }
}

// -1 is "no seed" to vLLM and llama.cpp, whose clients send it.
void ReadSeed(FieldReader& fields, ApiRequest& request) {
  const Json* value = fields.Find("seed");
  if (!value) return;
  if (!value->is_number_integer()) {
    fields.Fail(ErrorCode::kInvalidArgument, "seed",
                fmt::format("must be an integer from -2^63 to 2^64 - 1, not {}", JsonTypeName(*value)));
  } else if (value->is_number_unsigned()) {
    request.seed = value->get<std::uint64_t>();
  } else if (value->get<std::int64_t>() != -1) {
    request.seed = static_cast<std::uint64_t>(value->get<std::int64_t>());
  }
}

void ReadLogitBias(FieldReader& fields, std::int64_t vocab_size, SamplingParams& sampling) {
  const Json* value = fields.Find("logit_bias");
  if (!value) return;
  if (!value->is_object()) {
    fields.Fail(ErrorCode::kInvalidArgument, "logit_bias",
                fmt::format("must be an object of token id to number, not {}", JsonTypeName(*value)));
    return;
  }
  for (const auto& [key, bias] : value->items()) {
    std::int64_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
    if (!whole || id < 0 || id >= vocab_size || key != fmt::format("{}", id)) {
      fields.Fail(ErrorCode::kInvalidArgument, "logit_bias",
                  fmt::format("the key \"{}\" is no token id; use 0 to {}", ReplaceInvalidUtf8(key.substr(0, 64)), vocab_size - 1));
      return;
    }
    const double number = bias.is_number() ? bias.get<double>() : 1e9;
    if (!(number >= -100 && number <= 100)) {
      fields.Fail(ErrorCode::kInvalidArgument, "logit_bias", fmt::format("the bias of token {} must be a number from -100 to 100", id));
      return;
    }
    sampling.logit_bias.emplace_back(static_cast<std::int32_t>(id), static_cast<float>(number));
  }
  std::sort(sampling.logit_bias.begin(), sampling.logit_bias.end());
}

void ReadSampling(FieldReader& fields, const RequestLimits& limits, ApiRequest& request) {
  SamplingParams& sampling = request.sampling;
  fields.Float("temperature", &sampling.temperature);
  if (sampling.temperature == 0.0f) sampling.temperature = 0.0f;  // -0.0 too
  fields.Float("top_p", &sampling.top_p);
  std::int64_t top_k = 0;
  fields.Int("top_k", -1, INT32_MAX, &top_k);
  sampling.top_k = top_k <= 0 || top_k >= limits.vocab_size ? 0 : static_cast<std::int32_t>(top_k);
  fields.Float("min_p", &sampling.min_p);
  fields.Float("repetition_penalty", &sampling.repetition_penalty);
  fields.Float("frequency_penalty", &sampling.frequency_penalty);
  fields.Float("presence_penalty", &sampling.presence_penalty);
  ReadLogitBias(fields, limits.vocab_size, sampling);
  fields.IdSet("allowed_token_ids", limits.vocab_size, &sampling.allowed_token_ids);
  const Json* allowed = fields.Find("allowed_token_ids");
  if (allowed && allowed->is_array() && allowed->empty()) {
    fields.Fail(ErrorCode::kInvalidArgument, "allowed_token_ids", "is empty: nothing could be chosen; leave it out to allow every token");
  }
  ReadSeed(fields, request);
  if (fields.failed()) return;
  if (const Status status = ValidateSamplingParams(sampling, limits.vocab_size); !status.ok()) fields.Fail(status.error());
}

void ReadStop(FieldReader& fields, std::vector<std::string>& stops) {
  const Json* value = fields.Find("stop");
  if (!value) return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMaxStopStrings) {
    fields.Fail(ErrorCode::kInvalidArgument, "stop", fmt::format("has {} strings; at most {} are allowed", list.size(), kMaxStopStrings));
    return;
  }
  for (const Json& item : list) {
    if (!item.is_string()) {
      fields.Fail(ErrorCode::kInvalidArgument, "stop", fmt::format("must be a string or a list of strings, not {}", JsonTypeName(item)));
      return;
    }
    const auto& text = item.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) {
      fields.Fail(ErrorCode::kInvalidArgument, "stop", fmt::format("each string must have 1 to {} bytes", kMaxStopBytes));
      return;
    }
    if (std::find(stops.begin(), stops.end(), text) == stops.end()) stops.push_back(text);
  }
}

void ReadStopping(FieldReader& fields, const RequestLimits& limits, ApiRequest& request) {
  fields.Int("min_tokens", 0, kMaxTokensLimit, &request.min_tokens);
  fields.Bool("ignore_eos", &request.ignore_eos);
  ReadStop(fields, request.stop);
  fields.IdSet("stop_token_ids", limits.vocab_size, &request.stop_token_ids);
  fields.Bool("include_stop_str_in_output", &request.include_stop_str_in_output);
  fields.Bool("skip_special_tokens", &request.skip_special_tokens);
}

void ReadStream(FieldReader& fields, ApiRequest& request) {
  fields.Bool("stream", &request.stream);
  const Json* value = fields.Find("stream_options");
  if (!value) return;
  if (!value->is_object()) {
    fields.Fail(ErrorCode::kInvalidArgument, "stream_options", fmt::format("must be an object, not {}", JsonTypeName(*value)));
    return;
  }
  FieldReader options(*value, "stream_options.");
  bool include_obfuscation = false;  // padding against traffic analysis; we send none
  options.Bool("include_usage", &request.include_usage);
  options.Bool("continuous_usage_stats", &request.continuous_usage_stats);
  options.Bool("include_obfuscation", &include_obfuscation);
  if (options.failed()) fields.Fail(options.status().error());
  if (!request.stream) {  // nothing to apply it to, as everywhere; guidellm and others send it always
    request.include_usage = request.continuous_usage_stats = false;
  }
}

void ReadReporting(FieldReader& fields, ApiRequest& request) {
  std::int64_t prompt_logprobs = -1;
  fields.Int("prompt_logprobs", 0, kMaxLogprobs, &prompt_logprobs);
  request.prompt_logprobs = static_cast<std::int32_t>(prompt_logprobs);
  if (request.prompt_logprobs >= 0 && request.stream) {
    fields.Fail(ErrorCode::kInvalidArgument, "prompt_logprobs", "cannot be streamed; set stream to false or leave it out");
  }
  fields.Bool("return_token_ids", &request.return_token_ids);
  fields.Bool("return_tokens_as_token_ids", &request.return_tokens_as_token_ids);
  fields.Bool("return_sampling_params", &request.return_sampling_params);
  fields.String("cache_salt", 1024, &request.cache_salt);
  fields.String("request_id", 256, &request.request_id);
}

void ReadDeterminism(FieldReader& fields) {
  const Json* value = fields.Find("determinism");
  if (!value || *value == "strict") return;
  if (*value == "verified" || *value == "fast") {
    fields.Fail(ErrorCode::kUnsupported, "determinism", "only \"strict\" is served here, and it is the default; leave it out");
  } else {
    fields.Fail(ErrorCode::kInvalidArgument, "determinism", "must be \"strict\"");
  }
}

void ReadResponseFormat(FieldReader& fields) {
  const Json* value = fields.Find("response_format");
  if (!value) return;
  const auto type = value->is_object() ? value->find("type") : value->end();
  if (!value->is_object() || type == value->end() || !type->is_string()) {
    fields.Fail(ErrorCode::kInvalidArgument, "response_format", "must be an object with a \"type\", such as {\"type\": \"text\"}");
  } else if (*type != "text") {
    fields.Fail(ErrorCode::kUnsupported, "response_format", "only {\"type\": \"text\"} is supported by this server");
  }
}

// Fields of both kinds of request, in the order in which errors are reported.
void ReadCommon(FieldReader& fields, const RequestLimits& limits, ApiRequest& request) {
  ReadModel(fields, limits, request);
  fields.Int("n", 1, limits.max_choices, &request.n);
  fields.OptionalInt("max_tokens", 0, kMaxTokensLimit, &request.max_tokens);
  ReadStream(fields, request);
  ReadSampling(fields, limits, request);
  ReadStopping(fields, limits, request);
  ReadReporting(fields, request);
  ReadDeterminism(fields);
  ReadResponseFormat(fields);
  fields.OptionalInt("truncate_prompt_tokens", 1, kMaxTokensLimit, &request.truncate_prompt_tokens);
  fields.Bool("add_special_tokens", &request.add_special_tokens);
  RefuseUnsupported(fields);
}

Result<ApiRequest> Conclude(FieldReader& fields, const RequestLimits& limits, ApiRequest request) {
  if (request.max_tokens && request.min_tokens > *request.max_tokens) {
    fields.Fail(ErrorCode::kInvalidArgument, "min_tokens", "is larger than max_tokens");
  }
  for (const std::string& name : fields.Unread()) {
    const bool harmless = std::find(std::begin(kHarmlessFields), std::end(kHarmlessFields), name) != std::end(kHarmlessFields);
    if (!harmless && limits.strict_fields) {
      const std::string shown = ReplaceInvalidUtf8(name.substr(0, 64));
      fields.Fail(ErrorCode::kUnsupported, shown, "is not a field of this server, which was started with --strict-fields");
    }
    request.ignored_fields.push_back(name);
  }
  ISOBIT_TRY(fields.status());
  return request;
}

Error PromptError(std::string message) { return Error{ErrorCode::kInvalidArgument, "prompt", std::move(message)}; }

Result<PromptInput> ParsePromptIds(const Json& list, std::int64_t vocab_size) {
  PromptInput prompt;
  prompt.is_text = false;
  prompt.ids.reserve(list.size());
  for (const Json& item : list) {
    ISOBIT_ASSIGN(const std::int32_t id, JsonTokenId(item, vocab_size, "prompt"));
    prompt.ids.push_back(id);
  }
  if (prompt.ids.empty()) return PromptError("is empty; send at least one token");
  return prompt;
}

PromptInput TextPrompt(const Json& text) { return PromptInput{true, text.get<std::string>(), {}}; }

// "text", ["text", ...], [1, 2, ...] or [[1, 2, ...], ...]
Result<std::vector<PromptInput>> ParsePrompts(const Json* value, const RequestLimits& limits) {
  std::vector<PromptInput> prompts;
  if (!value) return PromptError("is missing; send a string, a list of strings, a list of token ids or a list of such lists");
  if (value->is_string()) {
    prompts.push_back(TextPrompt(*value));
    return prompts;
  }
  if (!value->is_array()) return PromptError(fmt::format("must be text or token ids, not {}", JsonTypeName(*value)));
  if (value->empty()) return PromptError("is an empty list; send at least one prompt");
  if (value->front().is_number()) {
    ISOBIT_ASSIGN(PromptInput prompt, ParsePromptIds(*value, limits.vocab_size));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  if (static_cast<std::int64_t>(value->size()) > limits.max_choices) {
    return PromptError(fmt::format("holds {} prompts; at most {} answers are allowed to one request", value->size(), limits.max_choices));
  }
  const bool text = value->front().is_string();
  for (const Json& item : *value) {
    if (text ? !item.is_string() : !item.is_array()) {
      return PromptError(fmt::format("all prompts must be of one kind, {}, not {}", text ? "text" : "lists of token ids", JsonTypeName(item)));
    }
    if (text) {
      prompts.push_back(TextPrompt(item));
    } else {
      ISOBIT_ASSIGN(PromptInput prompt, ParsePromptIds(item, limits.vocab_size));
      prompts.push_back(std::move(prompt));
    }
  }
  return prompts;
}

// Text of a message: a string, or text parts joined by line breaks. Null stays null.
Result<Json> ParseContent(const Json& content, const std::string& field) {
  if (content.is_null() || content.is_string()) return content;
  if (!content.is_array()) {
    return Fail(ErrorCode::kInvalidArgument, field, "must be a string or a list of text parts, not {}", JsonTypeName(content));
  }
  std::string joined;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string part_field = fmt::format("{}[{}]", field, i);
    if (i > 0) joined += '\n';
    if (part.is_string()) {
      joined += part.get_ref<const std::string&>();
      continue;
    }
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string()) {
      return Fail(ErrorCode::kInvalidArgument, part_field, "must be an object such as {{\"type\": \"text\", \"text\": \"...\"}}");
    }
    if (*type != "text" && *type != "input_text" && *type != "output_text") {
      return Fail(ErrorCode::kUnsupported, part_field + ".type", "only text parts are supported by this server");
    }
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) {
      return Fail(ErrorCode::kInvalidArgument, part_field + ".text", "must be a string");
    }
    joined += text->get_ref<const std::string&>();
  }
  return Json(joined);
}

// Parsed objects keep their keys in a list, so looking up each of k keys takes k * k comparisons: the sum over all objects, found in one
// pass over the text.
std::uint64_t KeyComparisons(std::string_view text) {
  std::vector<std::uint64_t> open;  // keys so far of each open object or list
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
        break;
      case '{':
      case '[': open.push_back(0); break;
      case ':':
        if (!open.empty()) total += ++open.back();
        break;
      case '}':
      case ']':
        if (!open.empty()) open.pop_back();
        break;
      default: break;
    }
  }
  return total;
}

// Templates read a call's arguments as an object; clients send the text of one. key_comparisons: those of all such texts so far, which
// ParseBody() took for strings.
Status ParseToolCalls(Json& calls, const std::string& field, std::uint64_t& key_comparisons) {
  if (!calls.is_array()) return Fail(ErrorCode::kInvalidArgument, field, "must be a list, not {}", JsonTypeName(calls));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string function_field = fmt::format("{}[{}].function", field, i);
    if (!calls[i].is_object() || !calls[i].contains("function") || !calls[i]["function"].is_object()) {
      return Fail(ErrorCode::kInvalidArgument, function_field, "must be an object with a name and arguments");
    }
    Json& function = calls[i]["function"];
    if (!function.contains("name") || !function["name"].is_string()) {
      return Fail(ErrorCode::kInvalidArgument, function_field + ".name", "must be a string");
    }
    if (!function.contains("arguments") || function["arguments"].is_null()) function["arguments"] = Json::object();
    if (function["arguments"].is_string()) {
      const std::string text = function["arguments"].get<std::string>();
      key_comparisons += KeyComparisons(text);
      if (key_comparisons > kMaxKeyComparisons) {
        return Fail(ErrorCode::kInvalidArgument, function_field + ".arguments", "brings too many keys; send fewer in one object");
      }
      Result<Json> arguments = ParseJson(text.empty() ? "{}" : text, function_field + ".arguments");
      if (!arguments.ok()) return arguments.error();
      function["arguments"] = std::move(arguments).value();
    }
    if (!function["arguments"].is_object()) {
      return Fail(ErrorCode::kInvalidArgument, function_field + ".arguments", "must be an object, or the JSON text of one");
    }
  }
  return {};
}

Status ParseMessage(Json& message, const std::string& field, std::uint64_t& key_comparisons) {
  constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  if (!message.is_object()) return Fail(ErrorCode::kInvalidArgument, field, "must be an object, not {}", JsonTypeName(message));
  const auto role = message.find("role");
  const auto known = [&] {
    return std::any_of(std::begin(kRoles), std::end(kRoles), [&](const char* name) { return *role == name; });
  };
  if (role == message.end() || !role->is_string() || !known()) {
    return Fail(ErrorCode::kInvalidArgument, field + ".role", "must be one of system, developer, user, assistant and tool");
  }
  const bool assistant = *role == "assistant";
  for (const char* name : {"name", "tool_call_id", "reasoning", "reasoning_content"}) {
    const auto value = message.find(name);
    if (value != message.end() && !value->is_null() && !value->is_string()) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}.{}", field, name), "must be a string, not {}", JsonTypeName(*value));
    }
  }
  bool calls = false;
  if (const auto value = message.find("tool_calls"); value != message.end() && !value->is_null()) {
    ISOBIT_TRY(ParseToolCalls(*value, field + ".tool_calls", key_comparisons));
    calls = !value->empty();
  }
  if (!message.contains("content")) message["content"] = nullptr;
  ISOBIT_ASSIGN(message["content"], ParseContent(message["content"], field + ".content"));
  if (message["content"].is_null()) {
    if (!assistant) return Fail(ErrorCode::kInvalidArgument, field + ".content", "is missing; send a string");
    if (!calls) message["content"] = "";
  }
  return {};
}

Status ParseTools(Json& tools) {
  if (!tools.is_array()) return Fail(ErrorCode::kInvalidArgument, "tools", "must be a list, not {}", JsonTypeName(tools));
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Json& tool = tools[i];
    const std::string field = fmt::format("tools[{}]", i);
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) {
      return Fail(ErrorCode::kInvalidArgument, field + ".function", "must be an object with a name");
    }
    const auto name = tool["function"].find("name");
    if (name == tool["function"].end() || !name->is_string()) {
      return Fail(ErrorCode::kInvalidArgument, field + ".function.name", "must be a string");
    }
  }
  return {};
}

// Calls are parsed by a later version; until then a tool choice that must be obeyed is refused.
Result<std::string> ParseToolChoice(const Json* value) {
  if (!value) return std::string("auto");
  if (*value == "none" || *value == "auto") return value->get<std::string>();
  return Fail(ErrorCode::kUnsupported, "tool_choice", "only \"none\" and \"auto\" are supported by this server");
}

Status ParseKwargs(FieldReader& fields, ChatInput& chat) {
  constexpr const char* kReserved[] = {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "bos_token",
                                       "eos_token"};
  if (const Json* value = fields.Find("chat_template_kwargs")) {
    if (!value->is_object()) {
      return Fail(ErrorCode::kInvalidArgument, "chat_template_kwargs", "must be an object, not {}", JsonTypeName(*value));
    }
    for (const char* name : kReserved) {
      if (value->contains(name)) {
        return Fail(ErrorCode::kInvalidArgument, "chat_template_kwargs", "may not set \"{}\"; use the request's own field", name);
      }
    }
    chat.template_kwargs = *value;
  }
  if (const Json* value = fields.Find("reasoning_effort")) {
    if (!value->is_string()) {
      return Fail(ErrorCode::kInvalidArgument, "reasoning_effort", "must be a string, not {}", JsonTypeName(*value));
    }
    chat.template_kwargs["reasoning_effort"] = *value;
  }
  return {};
}

Status ReadChatInput(FieldReader& fields, ChatInput& chat) {
  const Json* messages = fields.Find("messages");
  if (!messages || !messages->is_array() || messages->empty()) {
    return Fail(ErrorCode::kInvalidArgument, "messages", "must be a list of at least one message");
  }
  chat.messages = *messages;
  std::uint64_t key_comparisons = 0;
  for (std::size_t i = 0; i < chat.messages.size(); ++i) {
    ISOBIT_TRY(ParseMessage(chat.messages[i], fmt::format("messages[{}]", i), key_comparisons));
  }
  ISOBIT_ASSIGN(const std::string choice, ParseToolChoice(fields.Find("tool_choice")));
  if (const Json* tools = fields.Find("tools")) {
    chat.tools = *tools;
    ISOBIT_TRY(ParseTools(chat.tools));
    if (chat.tools.empty() || choice == "none") chat.tools = nullptr;
  }
  if (const Json* documents = fields.Find("documents")) {
    if (!documents->is_array()) {
      return Fail(ErrorCode::kInvalidArgument, "documents", "must be a list, not {}", JsonTypeName(*documents));
    }
    chat.documents = *documents;
  }
  ISOBIT_TRY(ParseKwargs(fields, chat));
  fields.Bool("continue_final_message", &chat.continue_final_message);
  chat.add_generation_prompt = !chat.continue_final_message;
  fields.Bool("add_generation_prompt", &chat.add_generation_prompt);
  if (chat.continue_final_message && chat.add_generation_prompt) {
    return Fail(ErrorCode::kInvalidArgument, "continue_final_message", "and add_generation_prompt exclude each other; set one to false");
  }
  const Json& last = chat.messages.back()["content"];
  if (chat.continue_final_message && (!last.is_string() || last.get_ref<const std::string&>().empty())) {
    return Fail(ErrorCode::kInvalidArgument, "continue_final_message", "needs a last message with text to continue");
  }
  return fields.status();
}

}  // namespace

Result<Json> ParseBody(std::string_view body) {
  if (body.empty()) return Fail(ErrorCode::kInvalidArgument, "", "the request has no body; send a JSON object");
  if (body.substr(0, 3) == "\xEF\xBB\xBF") {
    return Fail(ErrorCode::kInvalidArgument, "", "the body begins with a byte order mark; send plain UTF-8");
  }
  // A JSON parser may take a NUL for the end and never look at the rest.
  if (const std::size_t nul = body.find('\0'); nul != std::string_view::npos) {
    return Fail(ErrorCode::kInvalidArgument, "", "the body holds a NUL byte at {}; write \\u0000 inside strings", nul);
  }
  if (!IsValidUtf8(body)) return Fail(ErrorCode::kInvalidArgument, "", "the body is not valid UTF-8");
  if (KeyComparisons(body) > kMaxKeyComparisons) {
    return Fail(ErrorCode::kInvalidArgument, "", "the body's objects have too many keys; no object may have more than about 8000");
  }
  Result<Json> parsed = ParseJson(body, "");
  if (!parsed.ok()) return Fail(ErrorCode::kInvalidArgument, "", "the body {}", parsed.error().message);
  if (!parsed->is_object()) return Fail(ErrorCode::kInvalidArgument, "", "the body must be a JSON object, not {}", JsonTypeName(*parsed));
  return parsed;
}

Result<ApiRequest> ParseCompletionRequest(const Json& body, const RequestLimits& limits) {
  FieldReader fields(body);
  ApiRequest request;
  ReadCommon(fields, limits, request);
  fields.Bool("parse_special", &request.parse_special);
  fields.Bool("echo", &request.echo);
  std::int64_t logprobs = -1;
  fields.Int("logprobs", 0, kMaxLogprobs, &logprobs);
  request.logprobs = static_cast<std::int32_t>(logprobs);
  Result<std::vector<PromptInput>> prompts = ParsePrompts(fields.Find("prompt"), limits);
  if (prompts.ok()) request.prompts = std::move(prompts).value();
  else fields.Fail(prompts.error());
  if (static_cast<std::int64_t>(request.prompts.size()) * request.n > limits.max_choices) {
    fields.Fail(ErrorCode::kInvalidArgument, "n",
                fmt::format("{} prompts times {} are more than the {} answers allowed to one request", request.prompts.size(), request.n,
                            limits.max_choices));
  }
  return Conclude(fields, limits, std::move(request));
}

Result<ChatInput> ParseChatInput(const Json& body) {
  FieldReader fields(body);
  ChatInput chat;
  ISOBIT_TRY(ReadChatInput(fields, chat));
  return chat;
}

Result<ApiRequest> ParseChatRequest(const Json& body, const RequestLimits& limits) {
  FieldReader fields(body);
  ApiRequest request;
  request.chat = true;
  request.add_special_tokens = false;
  ReadCommon(fields, limits, request);
  // The newer name wins.
  fields.OptionalInt("max_completion_tokens", 0, kMaxTokensLimit, &request.max_tokens);
  bool echo = false;
  fields.Bool("echo", &echo);
  if (echo) fields.Fail(ErrorCode::kUnsupported, "echo", "is a field of /v1/completions; chat answers cannot repeat their prompt");
  bool logprobs = false;
  fields.Bool("logprobs", &logprobs);
  std::int64_t top_logprobs = 0;
  fields.Int("top_logprobs", 0, kMaxLogprobs, &top_logprobs);
  if (top_logprobs > 0 && !logprobs) {
    fields.Fail(ErrorCode::kInvalidArgument, "top_logprobs", "needs \"logprobs\": true");
  }
  request.logprobs = logprobs ? static_cast<std::int32_t>(top_logprobs) : -1;
  if (const Status status = ReadChatInput(fields, request.conversation); !status.ok()) fields.Fail(status.error());
  return Conclude(fields, limits, std::move(request));
}

}  // namespace isobit
