#include "serve/openai_request.h"

#include <gtest/gtest.h>

namespace isobit {
namespace {

const RequestLimits kLimits{.model_name = "tiny", .vocab_size = 100, .max_model_len = 64, .max_choices = 8};

Json Parsed(const std::string& text) {
  auto body = ParseJson(text, "test");
  return body.ok() ? *body : (ADD_FAILURE() << text << ": " << body.error().ToString(), Json::object());
}

// {"prompt": "x"} or {"messages": ...} with one field put in.
Json WithField(bool chat, const std::string& field, const std::string& value) {
  Json body = chat ? Parsed(R"({"messages":[{"role":"user","content":"hi"}]})") : Parsed(R"({"prompt":"x"})");
  body[field] = Parsed(value);
  return body;
}

Result<ApiRequest> Parse(bool chat, const Json& body, const RequestLimits& limits = kLimits) {
  return chat ? ParseChatRequest(body, limits) : ParseCompletionRequest(body, limits);
}

struct BadField {
  const char* field;
  const char* value;
  const char* param;  // nullptr: the field itself
  ErrorCode code = ErrorCode::kInvalidArgument;
};

void ExpectRefused(bool chat, const BadField& bad) {
  const auto request = Parse(chat, WithField(chat, bad.field, bad.value));
  ASSERT_FALSE(request.ok()) << bad.field << " = " << bad.value << (chat ? " (chat)" : "");
  EXPECT_EQ(request.error().field, bad.param ? bad.param : bad.field) << bad.value << ": " << request.error().message;
  EXPECT_EQ(static_cast<int>(request.error().code), static_cast<int>(bad.code)) << bad.field << " = " << bad.value;
  EXPECT_FALSE(request.error().message.empty());
}

constexpr auto kUnsupported = ErrorCode::kUnsupported;

constexpr BadField kBadInBoth[] = {
    {"model", "\"other\"", nullptr, ErrorCode::kNotFound},
    {"model", "7", nullptr},
    {"n", "0", nullptr},
    {"n", "9", nullptr},
    {"n", "-1", nullptr},
    {"n", "1.5", nullptr},
    {"n", "\"2\"", nullptr},
    {"n", "true", nullptr},
    {"n", "99999999999999999999999", nullptr},
    {"n", "18446744073709551615", nullptr},
    {"max_tokens", "-1", nullptr},
    {"max_tokens", "1e3", nullptr},
    {"max_tokens", "\"16\"", nullptr},
    {"max_tokens", "9223372036854775807", nullptr},
    {"min_tokens", "-1", nullptr},
    {"temperature", "-0.1", nullptr},
    {"temperature", "1e-5", nullptr},
    {"temperature", "1e-30", nullptr},
    {"temperature", "1e39", nullptr},
    {"temperature", "\"0\"", nullptr},
    {"temperature", "true", nullptr},
    {"temperature", "[]", nullptr},
    {"top_p", "0", nullptr},
    {"top_p", "1.1", nullptr},
    {"top_p", "-1", nullptr},
    {"top_k", "-2", nullptr},
    {"top_k", "0.5", nullptr},
    {"top_k", "2147483648", nullptr},
    {"min_p", "-0.1", nullptr},
    {"min_p", "1.5", nullptr},
    {"repetition_penalty", "0", nullptr},
    {"repetition_penalty", "-1", nullptr},
    {"frequency_penalty", "2.1", nullptr},
    {"presence_penalty", "-2.1", nullptr},
    {"presence_penalty", "{}", nullptr},
    {"logit_bias", "[]", nullptr},
    {"logit_bias", "{\"100\": 1}", nullptr},
    {"logit_bias", "{\"-1\": 1}", nullptr},
    {"logit_bias", "{\"1099511627776\": 1}", nullptr},
    {"logit_bias", "{\"abc\": 1}", nullptr},
    {"logit_bias", "{\"1.5\": 1}", nullptr},
    {"logit_bias", "{\"01\": 1}", nullptr},
    {"logit_bias", "{\"\": 1}", nullptr},
    {"logit_bias", "{\"1\": 101}", nullptr},
    {"logit_bias", "{\"1\": \"x\"}", nullptr},
    {"logit_bias", "{\"1\": null}", nullptr},
    {"allowed_token_ids", "[]", nullptr},
    {"allowed_token_ids", "[100]", nullptr},
    {"allowed_token_ids", "[\"1\"]", nullptr},
    {"allowed_token_ids", "5", nullptr},
    {"seed", "1.5", nullptr},
    {"seed", "\"1\"", nullptr},
    {"seed", "18446744073709551616", nullptr},
    {"stop", "\"\"", nullptr},
    {"stop", "[\"a\", \"\"]", nullptr},
    {"stop", "[null]", nullptr},
    {"stop", "[1]", nullptr},
    {"stop", "{}", nullptr},
    {"stop_token_ids", "[-1]", nullptr},
    {"stop_token_ids", "[100]", nullptr},
    {"stop_token_ids", "[1.5]", nullptr},
    {"stop_token_ids", "7", nullptr},
    {"ignore_eos", "1", nullptr},
    {"include_stop_str_in_output", "\"yes\"", nullptr},
    {"skip_special_tokens", "0", nullptr},
    {"stream", "\"true\"", nullptr},
    {"stream", "1", nullptr},
    {"stream_options", "true", nullptr},
    {"stream_options", "{\"include_usage\": 1}", "stream_options.include_usage"},
    {"stream_options", "{\"continuous_usage_stats\": \"x\"}", "stream_options.continuous_usage_stats"},
    {"prompt_logprobs", "-1", nullptr},
    {"prompt_logprobs", "21", nullptr},
    {"prompt_logprobs", "true", nullptr},
    {"return_token_ids", "1", nullptr},
    {"return_tokens_as_token_ids", "1", nullptr},
    {"return_sampling_params", "1", nullptr},
    {"cache_salt", "1", nullptr},
    {"request_id", "1", nullptr},
    {"add_special_tokens", "1", nullptr},
    {"truncate_prompt_tokens", "0", nullptr},
    {"truncate_prompt_tokens", "-1", nullptr},
    {"determinism", "\"fast\"", nullptr, kUnsupported},
    {"determinism", "\"verified\"", nullptr, kUnsupported},
    {"determinism", "\"maybe\"", nullptr},
    {"determinism", "1", nullptr},
    {"response_format", "{\"type\": \"json_object\"}", nullptr, kUnsupported},
    {"response_format", "{\"type\": \"json_schema\", \"json_schema\": {}}", nullptr, kUnsupported},
    {"response_format", "{}", nullptr},
    {"response_format", "\"text\"", nullptr},
    {"structured_outputs", "{\"regex\": \"a\"}", nullptr, kUnsupported},
    {"guided_json", "{}", nullptr, kUnsupported},
    {"best_of", "2", nullptr, kUnsupported},
    {"use_beam_search", "true", nullptr, kUnsupported},
    {"length_penalty", "0.5", nullptr, kUnsupported},
    {"bad_words", "[\"x\"]", nullptr, kUnsupported},
    {"logprob_token_ids", "[1]", nullptr, kUnsupported},
    {"typical_p", "0.5", nullptr, kUnsupported},
    {"mirostat", "2", nullptr, kUnsupported},
    {"grammar", "\"root ::= x\"", nullptr, kUnsupported},
    {"suffix", "\"end\"", nullptr, kUnsupported},
};

constexpr BadField kBadInCompletions[] = {
    {"prompt", "null", nullptr},        {"prompt", "[]", nullptr},          {"prompt", "[[]]", nullptr},        {"prompt", "{}", nullptr},
    {"prompt", "7", nullptr},           {"prompt", "true", nullptr},        {"prompt", "[1, \"a\"]", nullptr},  {"prompt", "[\"a\", 1]", nullptr},
    {"prompt", "[[1], 2]", nullptr},    {"prompt", "[[1], \"a\"]", nullptr}, {"prompt", "[100]", nullptr},       {"prompt", "[-1]", nullptr},
    {"prompt", "[1.0]", nullptr},       {"prompt", "[true]", nullptr},      {"prompt", "[null]", nullptr},      {"prompt", "[[1, 100]]", nullptr},
    {"prompt", "[1, 18446744073709551615]", nullptr},                       {"prompt", "[[[1]]]", nullptr},
    {"prompt", "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]", nullptr},
    {"logprobs", "true", nullptr},      {"logprobs", "21", nullptr},        {"logprobs", "-1", nullptr},        {"echo", "1", nullptr},
    {"parse_special", "1", nullptr},
};

constexpr BadField kBadInChat[] = {
    {"messages", "[]", nullptr},
    {"messages", "null", nullptr},
    {"messages", "\"hi\"", nullptr},
    {"messages", "[\"hi\"]", "messages[0]"},
    {"messages", "[{\"content\": \"x\"}]", "messages[0].role"},
    {"messages", "[{\"role\": \"robot\", \"content\": \"x\"}]", "messages[0].role"},
    {"messages", "[{\"role\": 1, \"content\": \"x\"}]", "messages[0].role"},
    {"messages", "[{\"role\": \"user\"}]", "messages[0].content"},
    {"messages", "[{\"role\": \"user\", \"content\": null}]", "messages[0].content"},
    {"messages", "[{\"role\": \"user\", \"content\": 5}]", "messages[0].content"},
    {"messages", "[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": [{}]}]", "messages[1].content[0]"},
    {"messages", "[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]", "messages[0].content[0].text"},
    {"messages", "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {}}]}]", "messages[0].content[0].type", kUnsupported},
    {"messages", "[{\"role\": \"user\", \"content\": \"x\", \"name\": 3}]", "messages[0].name"},
    {"messages", "[{\"role\": \"assistant\", \"tool_calls\": 3}]", "messages[0].tool_calls"},
    {"messages", "[{\"role\": \"assistant\", \"tool_calls\": [{}]}]", "messages[0].tool_calls[0].function"},
    {"messages", "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"[1]\"}}]}]",
     "messages[0].tool_calls[0].function.arguments"},
    {"logprobs", "1", nullptr},
    {"top_logprobs", "5", nullptr},  // without logprobs
    {"top_logprobs", "21", nullptr},
    {"max_completion_tokens", "-1", nullptr},
    {"echo", "true", nullptr, kUnsupported},
    {"tools", "{}", nullptr},
    {"tools", "[{}]", "tools[0].function"},
    {"tools", "[{\"function\": {}}]", "tools[0].function.name"},
    {"tool_choice", "\"required\"", nullptr, kUnsupported},
    {"tool_choice", "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}", nullptr, kUnsupported},
    {"chat_template_kwargs", "[]", nullptr},
    {"chat_template_kwargs", "{\"messages\": []}", nullptr},
    {"chat_template", "\"{{ messages }}\"", nullptr, kUnsupported},
    {"continue_final_message", "1", nullptr},
    {"reasoning_effort", "1", nullptr},
    {"documents", "{}", nullptr},
};

// Their texts are strings to the check of the whole body.
TEST(OpenAiRequest, ToolCallArgumentsShareOneBoundOnKeys) {
  std::string arguments = "{";
  for (int i = 0; i < 5000; ++i) arguments += fmt::format("\"{}\":1,", i);
  arguments.back() = '}';
  const auto body = [&](int num_calls) {
    Json calls = Json::array();
    for (int i = 0; i < num_calls; ++i) calls.push_back({{"function", {{"name", "f"}, {"arguments", arguments}}}});
    return Json{{"messages", Json::array({Json{{"role", "assistant"}, {"tool_calls", calls}}})}};
  };
  EXPECT_TRUE(ParseChatInput(body(2)).ok());
  const auto refused = ParseChatInput(body(3));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "messages[0].tool_calls[2].function.arguments");
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

TEST(ApiRequest, NamesTheBadField) {
  for (const BadField& bad : kBadInBoth) {
    ExpectRefused(false, bad);
    ExpectRefused(true, bad);
  }
  for (const BadField& bad : kBadInCompletions) ExpectRefused(false, bad);
  for (const BadField& bad : kBadInChat) ExpectRefused(true, bad);
}

TEST(ApiRequest, EveryOptionalFieldMayBeNull) {
  const auto expect_default = [](bool chat, const BadField& bad) {
    const std::string field = bad.field;
    if (field == "prompt" || field == "messages") return;
    const auto request = Parse(chat, WithField(chat, field, "null"));
    ASSERT_TRUE(request.ok()) << field << ": " << request.error().ToString();
    EXPECT_TRUE(request->ignored_fields.empty()) << field;
  };
  for (const BadField& bad : kBadInBoth) {
    expect_default(false, bad);
    expect_default(true, bad);
  }
  for (const BadField& bad : kBadInCompletions) expect_default(false, bad);
  for (const BadField& bad : kBadInChat) expect_default(true, bad);
}

TEST(ApiRequest, ReadsEveryCompletionField) {
  const auto request = ParseCompletionRequest(Parsed(R"({
      "model": "tiny", "prompt": [[1, 2], [3]], "n": 2, "max_tokens": 7, "min_tokens": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 40,
      "min_p": 0.05, "repetition_penalty": 1.1, "frequency_penalty": 0.5, "presence_penalty": -0.5, "logit_bias": {"9": -100, "3": 5},
      "allowed_token_ids": [5, 3, 5], "seed": 18446744073709551615, "stop": ["a", "b", "a"], "stop_token_ids": [9, 2, 9], "ignore_eos": true,
      "include_stop_str_in_output": true, "skip_special_tokens": false, "stream": true,
      "stream_options": {"include_usage": true, "continuous_usage_stats": true}, "logprobs": 3, "echo": true, "return_token_ids": true,
      "return_tokens_as_token_ids": true, "return_sampling_params": true, "cache_salt": "s", "request_id": "r", "user": "u", "priority": 3,
      "determinism": "strict", "best_of": 1, "suffix": "", "parse_special": false, "add_special_tokens": false})"),
                                              kLimits);
  ASSERT_TRUE(request.ok()) << request.error().ToString();
  ASSERT_EQ(request->prompts.size(), 2u);
  EXPECT_FALSE(request->prompts[0].is_text);
  EXPECT_EQ(request->prompts[0].ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(request->n, 2);
  EXPECT_EQ(request->max_tokens, 7);
  EXPECT_EQ(request->min_tokens, 2);
  const SamplingParams& sampling = request->sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.05f);
  EXPECT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampling.frequency_penalty, 0.5f);
  EXPECT_EQ(sampling.presence_penalty, -0.5f);
  EXPECT_EQ(sampling.logit_bias, (std::vector<std::pair<std::int32_t, float>>{{3, 5.0f}, {9, -100.0f}}));
  EXPECT_EQ(sampling.allowed_token_ids, (std::vector<std::int32_t>{3, 5}));
  EXPECT_EQ(request->seed, UINT64_MAX);
  EXPECT_EQ(request->stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->stop_token_ids, (std::vector<std::int32_t>{2, 9}));
  EXPECT_TRUE(request->ignore_eos && request->include_stop_str_in_output && request->stream && request->include_usage);
  EXPECT_TRUE(request->continuous_usage_stats && request->echo && request->return_token_ids && request->return_tokens_as_token_ids);
  EXPECT_TRUE(request->return_sampling_params);
  EXPECT_FALSE(request->skip_special_tokens || request->parse_special || request->add_special_tokens);
  EXPECT_EQ(request->logprobs, 3);
  EXPECT_EQ(request->cache_salt, "s");
  EXPECT_EQ(request->request_id, "r");
  EXPECT_EQ(request->ignored_fields, (std::vector<std::string>{"user", "priority"}));
}

TEST(ApiRequest, DefaultsAreTheDocumentedOnes) {
  const auto request = ParseCompletionRequest(Parsed(R"({"prompt": "x"})"), kLimits);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sampling.temperature, 1.0f);
  EXPECT_EQ(request->sampling.top_p, 1.0f);
  EXPECT_FALSE(request->seed.has_value() || request->max_tokens.has_value() || request->stream || request->ignore_eos);
  EXPECT_TRUE(request->skip_special_tokens && request->add_special_tokens && request->parse_special);
  EXPECT_EQ(request->logprobs, -1);
}

TEST(ApiRequest, SeedAndTemperatureCorners) {
  const auto seed = [](const char* value) { return Parse(false, WithField(false, "seed", value))->seed; };
  EXPECT_EQ(seed("-1"), std::nullopt);  // "no seed" to vLLM and llama.cpp
  EXPECT_EQ(seed("0"), 0u);
  EXPECT_EQ(seed("-2"), UINT64_MAX - 1);
  const auto request = Parse(false, WithField(false, "temperature", "-0.0"));
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->sampling.greedy());
  EXPECT_FALSE(std::signbit(request->sampling.temperature));
  EXPECT_EQ(Parse(false, WithField(false, "top_k", "-1"))->sampling.top_k, 0);
  EXPECT_EQ(Parse(false, WithField(false, "top_k", "1000"))->sampling.top_k, 0);  // more than there are: off
}

TEST(ApiRequest, UnknownFieldsAreListedOrRefused) {
  Json body = WithField(false, "frobnicate", "1");
  EXPECT_EQ(Parse(false, body)->ignored_fields, (std::vector<std::string>{"frobnicate"}));
  RequestLimits strict = kLimits;
  strict.strict_fields = true;
  const auto refused = Parse(false, body, strict);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "frobnicate");
  EXPECT_TRUE(Parse(false, WithField(false, "user", "\"u\""), strict).ok());
}

TEST(ApiRequest, PromptsTimesNIsBounded) {
  const auto refused = ParseCompletionRequest(Parsed(R"({"prompt": ["a", "b", "c"], "n": 3})"), kLimits);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "n");
  EXPECT_TRUE(ParseCompletionRequest(Parsed(R"({"prompt": ["a", "b"], "n": 4})"), kLimits).ok());
}

TEST(ApiRequest, ConflictsAreNamed) {
  const auto conflict = [](bool chat, const char* text) {
    const auto request = Parse(chat, Parsed(text));
    return request.ok() ? std::string("accepted") : request.error().field;
  };
  EXPECT_EQ(conflict(false, R"({"prompt": "x", "stream": true, "prompt_logprobs": 1})"), "prompt_logprobs");
  EXPECT_EQ(conflict(false, R"({"prompt": "x", "max_tokens": 3, "min_tokens": 4})"), "min_tokens");
  EXPECT_EQ(conflict(true, R"({"messages": [{"role": "user", "content": "x"}], "add_generation_prompt": true, "continue_final_message": true})"),
            "continue_final_message");
}

TEST(ApiRequest, ChatLimitsAndContent) {
  const auto request = ParseChatRequest(Parsed(R"({"messages": [
      {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "ok"}],
      "max_tokens": 5, "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 2, "tools": [{"type": "function", "function": {"name": "f"}}],
      "tool_choice": "auto", "reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": false}, "response_format": {"type": "text"}})"),
                                        kLimits);
  ASSERT_TRUE(request.ok()) << request.error().ToString();
  EXPECT_EQ(request->max_tokens, 9);  // the newer name wins
  EXPECT_EQ(request->logprobs, 2);
  EXPECT_FALSE(request->add_special_tokens);
  const ChatInput& chat = request->conversation;
  EXPECT_EQ(chat.messages[0]["content"], "a\nb");
  EXPECT_TRUE(chat.messages[1]["content"].is_null());
  EXPECT_EQ(chat.messages[1]["tool_calls"][0]["function"]["arguments"]["x"], 1);
  EXPECT_EQ(chat.tools.size(), 1u);
  EXPECT_EQ(chat.template_kwargs.dump(), R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_TRUE(chat.add_generation_prompt);
  const auto none = ParseChatRequest(Parsed(R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"function": {"name": "f"}}],
      "tool_choice": "none", "continue_final_message": true})"), kLimits);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->conversation.tools.is_null());
  EXPECT_FALSE(none->conversation.add_generation_prompt);
}

TEST(ParseBody, RefusesWhatIsNotOneJsonObjectInUtf8) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  const std::string cases[] = {"",
                               "{",
                               "{\"prompt\": \"x\"",
                               "[]",
                               "null",
                               "\"x\"",
                               "{} {}",
                               "{\"a\": 1, \"a\": 2}",
                               "{\"a\": NaN}",
                               "{\"a\": Infinity}",
                               "{\"a\": 1e999}",
                               "{'a': 1}",
                               "{\"a\": 1,}",
                               "{\"prompt\": \"\xC4\xE3\xBA\xC3\"}",
                               "{\"a\": \"\\ud800\"}",
                               "\xEF\xBB\xBF{\"prompt\": \"x\"}",
                               std::string("{\"prompt\": \"x\"}\0", 16),
                               std::string("{\"prompt\": \"a\0b\"}", 17),
                               "{\"a\": " + deep + "}",
                               deep};
  for (const std::string& body : cases) {
    const auto parsed = ParseBody(body);
    ASSERT_FALSE(parsed.ok()) << body;
    EXPECT_EQ(static_cast<int>(parsed.error().code), static_cast<int>(ErrorCode::kInvalidArgument));
  }
  std::string many = "{\"a\": 1", few = many;
  for (int i = 0; i < 20000; ++i) (i < 8000 ? few : many) += ", \"k" + std::to_string(i) + "\": \"::\"";
  EXPECT_TRUE(ParseBody(few + "}").ok());
  EXPECT_FALSE(ParseBody(few + many.substr(7) + "}").ok());  // a list of keys is searched for each: no body may make that slow
  EXPECT_TRUE(ParseBody(" {\"prompt\": \"\\u0000 \xF0\x9F\x98\x80\"} \n").ok());
}

TEST(ParseBody, NoMutationOfABodyBreaksTheParsers) {
  const std::string seeds[] = {
      R"({"model":"tiny","prompt":[[1,2],[3]],"n":2,"max_tokens":7,"temperature":0.5,"logit_bias":{"9":-100},"stop":["a"],"stream_options":{"include_usage":true}})",
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}],"tools":[{"function":{"name":"f"}}],"top_logprobs":2,"logprobs":true})"};
  const std::string pieces[] = {"null", "-1", "1e999", "[]", "{}", "\"", "true", ":", ",", "\xFF", "18446744073709551616", "[[", "}}", "\\u0000"};
  std::uint64_t state = 1;
  const auto below = [&](std::size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state >> 33) % n);
  };
  int num_parsed = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string body = seeds[round % 2];
    for (std::size_t i = below(3); i > 0; --i) body.replace(below(body.size()), below(4), pieces[below(std::size(pieces))]);
    const auto parsed = ParseBody(body);
    if (!parsed.ok()) continue;
    ++num_parsed;
    for (const bool chat : {false, true}) {
      const auto request = Parse(chat, *parsed);
      if (request.ok()) continue;
      EXPECT_FALSE(request.error().message.empty());
    }
  }
  EXPECT_GT(num_parsed, 1000);
}

}  // namespace
}  // namespace isobit
