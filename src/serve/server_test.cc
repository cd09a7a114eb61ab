// The whole server over loopback sockets: HTTP, the real engine and a model that follows scripts.
#include "serve/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/utf8.h"
#include "serve/chat_prompt.h"
#include "serve/test_support.h"

namespace isobit {
namespace {

using serve_test::Bytes;
using serve_test::Client;
using serve_test::HttpAnswer;
using serve_test::JoinStream;
using serve_test::kBos;
using serve_test::kEos;
using serve_test::kHell;
using serve_test::kImEnd;
using serve_test::kImStart;
using serve_test::kNan;
using serve_test::kScript0;
using serve_test::TestServer;

std::string Completion(const std::string& prompt, const std::string& rest = "") {
  return "{\"prompt\": " + prompt + (rest.empty() ? "" : ", " + rest) + "}";
}
std::string Chat(const std::string& content, const std::string& rest = "") {
  return "{\"messages\": [{\"role\": \"user\", \"content\": " + Json(content).dump() + "}]" + (rest.empty() ? "" : ", " + rest) + "}";
}
// A prompt that runs script i.
std::string Script(int i) { return "[104, 105, " + std::to_string(kScript0 + i) + "]"; }

std::string ErrorOf(const HttpAnswer& answer) {
  const Json error = answer.json()["error"];
  return std::to_string(answer.status) + " " + error["code"].get<std::string>() + " " +
         (error["param"].is_null() ? "-" : error["param"].get<std::string>());
}

// Everything of an answer but what differs from call to call by design.
std::string Comparable(Json answer) {
  for (const char* field : {"id", "created", "usage"}) answer.erase(field);
  return answer.dump();
}

class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new TestServer();
    auto& scripts = server_->model.scripts;
    scripts[0] = Bytes("alpha beta gamma delta");
    scripts[1] = {kHell, 'o', ' ', 0xF0, 0x9F, 0x98, 0x80, '!'};
    scripts[2] = {'a', kNan};
    scripts[3] = Bytes("ends in beta gam");
    scripts[4] = {0xF0, 0x9F, 'x', 0xC0, 0xAF, 0xED, 0xA0, 0x80};
    scripts[5] = std::vector<std::int32_t>(1500, 'z');
    scripts[6] = {kNan};
    server_->Start();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void TearDown() override {
    server_->model.step_microseconds = 0;
    EXPECT_TRUE(server_->Idle());
  }

  Client client_{server_->server->port()};
  static TestServer* server_;
};
TestServer* ServerTest::server_ = nullptr;

TEST_F(ServerTest, CompletionHasTheDocumentedShape) {
  const HttpAnswer answer = client_.Post("/v1/completions", Completion(Script(0), "\"max_tokens\": 5, \"temperature\": 0, \"seed\": 11"),
                                         "X-Request-Id: my-id\r\n");
  ASSERT_EQ(answer.status, 200) << answer.body;
  Json json = answer.json();
  EXPECT_EQ(json["id"].get<std::string>().substr(0, 5), "cmpl-");
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["choices"].dump(), R"([{"index":0,"text":"alpha","logprobs":null,"finish_reason":"length","stop_reason":null}])");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(json["usage"]["completion_tokens"], 5);
  EXPECT_EQ(json["usage"]["total_tokens"], 8);
  EXPECT_TRUE(json["usage"]["prompt_tokens_details"]["cached_tokens"].is_number_integer());
  EXPECT_EQ(json["system_fingerprint"], "isobit-0.1.0-0123456789ab");
  EXPECT_EQ(json["seed"], 11);
  EXPECT_EQ(answer.header("x-request-id"), "my-id");
  EXPECT_EQ(answer.header("x-isobit-seed"), "11");
  EXPECT_EQ(answer.header("x-isobit-contract"), std::string(64, 'c'));
  EXPECT_EQ(answer.header("content-type"), "application/json");
}

TEST_F(ServerTest, ChatHasTheDocumentedShape) {
  const HttpAnswer answer = client_.Post("/v1/chat/completions", Chat("hi", "\"max_tokens\": 3, \"return_token_ids\": true, \"logprobs\": true, \"top_logprobs\": 2"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["id"].get<std::string>().substr(0, 9), "chatcmpl-");
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(json["prompt_token_ids"][0], kImStart);
  EXPECT_EQ(json["choices"][0]["token_ids"].size(), 3u);
  const Json& content = json["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  std::string bytes;
  for (const Json& token : content) {
    for (const Json& byte : token["bytes"]) bytes += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(ReplaceInvalidUtf8(bytes), json["choices"][0]["message"]["content"].get<std::string>());
}

TEST_F(ServerTest, MessageTextIsNoControlText) {
  const HttpAnswer answer = client_.Post("/v1/chat/completions/render", Chat("<|im_end|>"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["prompt"], "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n");
  const auto ids = json["token_ids"].get<std::vector<std::int32_t>>();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kImEnd), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kImStart), 2);
}

TEST_F(ServerTest, StreamedTextEqualsWholeText) {
  for (const char* rest : {"\"max_tokens\": 40", "\"max_tokens\": 40, \"stop\": \"beta gamma\"", "\"max_tokens\": 40, \"stop\": [\"lo\", \"gam\"]",
                           "\"max_tokens\": 40, \"stop\": \"o\", \"include_stop_str_in_output\": true", "\"max_tokens\": 6",
                           "\"max_tokens\": 12, \"min_tokens\": 9, \"stop\": \"a\"", "\"max_tokens\": 40, \"echo\": true, \"logprobs\": 1",
                           "\"max_tokens\": 40, \"skip_special_tokens\": false", "\"max_tokens\": 20, \"n\": 3, \"seed\": 5, \"temperature\": 1"}) {
    for (int script = 0; script <= 4; ++script) {
      if (script == 2) continue;
      const std::string fields = std::string(rest) + ", \"return_token_ids\": true" + (std::string(rest).find("temperature") == std::string::npos ? ", \"temperature\": 0" : "");
      const HttpAnswer whole = client_.Post("/v1/completions", Completion(Script(script), fields));
      const HttpAnswer stream = client_.Post("/v1/completions", Completion(Script(script), fields + ", \"stream\": true"));
      ASSERT_EQ(whole.status, 200) << whole.body;
      ASSERT_EQ(stream.status, 200);
      EXPECT_EQ(stream.header("content-type"), "text/event-stream; charset=utf-8");
      EXPECT_EQ(stream.events().back(), "[DONE]");
      const auto joined = JoinStream(stream);
      const Json choices = whole.json()["choices"];
      ASSERT_EQ(joined.size(), choices.size()) << fields;
      for (const Json& choice : choices) {
        const auto& part = joined.at(choice["index"].get<int>());
        EXPECT_EQ(part.text, choice["text"].get<std::string>()) << fields << " script " << script;
        EXPECT_EQ(part.token_ids, choice["token_ids"].get<std::vector<std::int32_t>>());
        EXPECT_EQ(part.finish_reason, choice["finish_reason"].get<std::string>());
        EXPECT_EQ(part.num_finishes, 1);
      }
    }
  }
}

TEST_F(ServerTest, StopStringsAreCutExactly) {
  const auto choice = [&](const std::string& rest) {
    return client_.Post("/v1/completions", Completion(Script(0), "\"max_tokens\": 40, \"temperature\": 0, \"return_token_ids\": true, " + rest)).json()["choices"][0];
  };
  const Json cut = choice("\"stop\": [\"beta gamma\"], \"logprobs\": 0");
  EXPECT_EQ(cut["text"], "alpha ");
  EXPECT_EQ(cut["finish_reason"], "stop");
  EXPECT_EQ(cut["stop_reason"], "beta gamma");
  EXPECT_EQ(cut["token_ids"].size(), 16u);  // up to the one that completed the stop string
  EXPECT_EQ(cut["logprobs"]["tokens"].size(), 16u);
  EXPECT_EQ(choice("\"stop\": \"beta gamma\", \"include_stop_str_in_output\": true")["text"], "alpha beta gamma");
  // EOS: no stop reason, counted but not shown. A client's stop token: its id.
  const Json eos = choice("\"stop\": null");
  EXPECT_EQ(eos["text"], "alpha beta gamma delta");
  EXPECT_TRUE(eos["stop_reason"].is_null());
  EXPECT_EQ(eos["token_ids"].back(), kEos);
  EXPECT_EQ(eos["token_ids"].size(), 23u);
  const Json id = choice("\"stop_token_ids\": [98]");
  EXPECT_EQ(id["text"], "alpha ");
  EXPECT_EQ(id["stop_reason"], 98);
  EXPECT_EQ(choice("\"stop_token_ids\": [98], \"include_stop_str_in_output\": true")["text"], "alpha b");
  // Held text comes out at the end.
  EXPECT_EQ(client_.Post("/v1/completions", Completion(Script(3), "\"temperature\": 0, \"stop\": \"beta gamma\"")).json()["choices"][0]["text"], "ends in beta gam");
}

TEST_F(ServerTest, IgnoreEosAndMinTokensGoOn) {
  const Json json = client_.Post("/v1/completions", Completion(Script(0), "\"temperature\": 0, \"max_tokens\": 60, \"ignore_eos\": true")).json();
  EXPECT_EQ(json["usage"]["completion_tokens"], 60);
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  const Json least = client_.Post("/v1/completions", Completion(Script(1), "\"temperature\": 0, \"max_tokens\": 40, \"min_tokens\": 12")).json();
  EXPECT_GE(least["usage"]["completion_tokens"].get<int>(), 12);
}

TEST_F(ServerTest, LmEvalLoglikelihoodContract) {
  // Two prompts of different lengths in one request; the second one's generated token is EOS, the first one's completes a stop string.
  const std::string body = "{\"model\": \"tiny\", \"prompt\": [[104, 105, 263], [33, 34, 35, 226, 130, 36, 37, 270]], \"temperature\": 0, \"max_tokens\": 1, "
                           "\"logprobs\": 1, \"seed\": 1234, \"echo\": true, \"stop\": [\"<|im_end|>\", \"a\"]}";
  const HttpAnswer answer = client_.Post("/v1/completions", body, "Authorization: Bearer \r\n");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  ASSERT_EQ(json["choices"].size(), 2u);
  const std::vector<std::vector<std::int32_t>> prompts = {{104, 105, 263}, {33, 34, 35, 226, 130, 36, 37, 270}};
  for (std::size_t c = 0; c < 2; ++c) {
    const Json& choice = json["choices"][c];
    EXPECT_EQ(choice["index"], c);
    const Json& logprobs = choice["logprobs"];
    for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) EXPECT_EQ(logprobs[list].size(), prompts[c].size() + 1) << list;
    EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
    EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
    for (std::size_t i = 1; i < logprobs["tokens"].size(); ++i) {
      const double logprob = logprobs["token_logprobs"][i].get<double>();
      double best = -1e9;
      bool own = false;
      for (const auto& [text, value] : logprobs["top_logprobs"][i].items()) {
        best = std::max(best, value.get<double>());
        own |= text == logprobs["tokens"][i].get<std::string>();
      }
      EXPECT_TRUE(own) << i;
      EXPECT_LE(logprob, best);
      EXPECT_LE(logprobs["top_logprobs"][i].size(), 2u);
    }
    // Greedy: the generated token is the best, by exact equality.
    const double last = logprobs["token_logprobs"].back().get<double>();
    double best = -1e9;
    for (const auto& [text, value] : logprobs["top_logprobs"].back().items()) best = std::max(best, value.get<double>());
    EXPECT_EQ(last, best);
  }
  EXPECT_EQ(json["choices"][0]["text"], "hi");  // the stop string "a" is cut, its token is counted
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  // Code points, not bytes, of the text that was certain before the token: the two bytes of a character that never ends become one
  // replacement only when the next token comes.
  EXPECT_EQ(json["choices"][1]["logprobs"]["text_offset"].dump(), "[0,1,2,3,3,3,5,6,6]");
  EXPECT_EQ(json["choices"][1]["text"].get<std::string>().substr(0, 8), "!\"#\xEF\xBF\xBD$%");
  // Scoring alone gives the same numbers without the generated token.
  const Json scored = client_.Post("/v1/completions", R"({"prompt": [104, 105, 263], "max_tokens": 0, "logprobs": 1, "echo": true})").json();
  Json want = json["choices"][0]["logprobs"];
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) want[list].erase(want[list].size() - 1);
  EXPECT_EQ(scored["choices"][0]["logprobs"].dump(), want.dump());
  EXPECT_EQ(scored["choices"][0]["text"], "hi");
  EXPECT_EQ(scored["usage"]["completion_tokens"], 0);
}

TEST_F(ServerTest, GenerationEqualsScoringInEveryShape) {
  const Json made = client_.Post("/v1/completions", Completion("\"hello world\"", "\"max_tokens\": 12, \"logprobs\": 3, \"seed\": 3, \"ignore_eos\": true, \"return_token_ids\": true")).json();
  const auto prompt = made["choices"][0]["prompt_token_ids"].get<std::vector<std::int32_t>>();
  const auto tokens = made["choices"][0]["token_ids"].get<std::vector<std::int32_t>>();
  std::vector<std::int32_t> all = prompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  const Json scored = client_.Post("/v1/completions", Completion(Json(all).dump(), "\"max_tokens\": 0, \"logprobs\": 3, \"echo\": true, \"prompt_logprobs\": 3")).json()["choices"][0];
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Json& want = made["choices"][0]["logprobs"]["token_logprobs"][i];
    EXPECT_EQ(scored["logprobs"]["token_logprobs"][prompt.size() + i].dump(), want.dump());
    EXPECT_EQ(scored["logprobs"]["top_logprobs"][prompt.size() + i].dump(), made["choices"][0]["logprobs"]["top_logprobs"][i].dump());
    const Json& entry = scored["prompt_logprobs"][prompt.size() + i];
    EXPECT_EQ(entry.begin().key(), std::to_string(tokens[i]));  // the actual token comes first
    EXPECT_EQ(entry.begin().value()["logprob"].dump(), want.dump());
  }
  EXPECT_TRUE(scored["prompt_logprobs"][0].is_null());
  EXPECT_EQ(scored["prompt_logprobs"].size(), all.size());
}

TEST_F(ServerTest, ChatPromptLogprobsAreAtTheTop) {
  const Json json = client_.Post("/v1/chat/completions", Chat("hi", "\"max_tokens\": 1, \"n\": 2, \"prompt_logprobs\": 0, \"return_token_ids\": true")).json();
  ASSERT_TRUE(json.contains("prompt_logprobs")) << json.dump();
  EXPECT_EQ(json["prompt_logprobs"].size(), json["prompt_token_ids"].size());
  EXPECT_EQ(json["prompt_logprobs"][1].size(), 1u);
  EXPECT_EQ(json["prompt_logprobs"][1].begin().key(), json["prompt_token_ids"][1].dump());
  EXPECT_FALSE(json["choices"][0].contains("prompt_logprobs"));
}

TEST_F(ServerTest, ChoicesDoNotDependOnN) {
  const auto texts = [&](int n, const std::string& rest = "") {
    const Json json = client_.Post("/v1/completions", Completion("\"x\"", "\"seed\": 7, \"max_tokens\": 12, \"ignore_eos\": true, \"return_token_ids\": true, \"n\": " + std::to_string(n) + rest)).json();
    std::vector<std::string> ids;
    for (const Json& choice : json["choices"]) ids.push_back(choice["token_ids"].dump());
    return ids;
  };
  const auto four = texts(4), again = texts(4), two = texts(2), one = texts(1);
  EXPECT_EQ(std::set<std::string>(four.begin(), four.end()).size(), 4u);
  EXPECT_EQ(four, again);
  EXPECT_EQ(std::vector<std::string>(four.begin(), four.begin() + 2), two);
  EXPECT_EQ(four[0], one[0]);
  // Each prompt's choices begin with choice 0; the index runs over prompts x n.
  const Json json = client_.Post("/v1/completions", Completion("[\"x\", \"y\", \"x\"]", "\"seed\": 7, \"max_tokens\": 12, \"ignore_eos\": true, \"return_token_ids\": true, \"n\": 2")).json();
  ASSERT_EQ(json["choices"].size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(json["choices"][i]["index"], i);
  EXPECT_EQ(json["choices"][0]["token_ids"].dump(), four[0]);
  EXPECT_EQ(json["choices"][5]["token_ids"].dump(), four[1]);
  EXPECT_EQ(json["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(json["usage"]["completion_tokens"], 72);
}

TEST_F(ServerTest, AMissingSeedIsDrawnAndReplays) {
  const HttpAnswer first = client_.Post("/v1/completions", Completion("\"x\""));
  const HttpAnswer second = client_.Post("/v1/completions", Completion("\"x\"", "\"seed\": null"));
  const std::string seed = first.json()["seed"].dump();
  EXPECT_EQ(first.header("x-isobit-seed"), seed);
  EXPECT_NE(second.json()["seed"].dump(), seed);
  EXPECT_LT(first.json()["seed"].get<std::uint64_t>(), std::uint64_t{1} << 53);
  const HttpAnswer replay = client_.Post("/v1/completions", Completion("\"x\"", "\"seed\": " + seed));
  EXPECT_EQ(Comparable(replay.json()), Comparable(first.json()));
}

TEST_F(ServerTest, StatesTheEffectiveSampler) {
  const Json json = client_.Post("/v1/completions", Completion("\"x\"", "\"return_sampling_params\": true, \"top_k\": -1, \"stop_token_ids\": [9], \"seed\": 4")).json();
  EXPECT_EQ(json["effective_sampling"].dump(),
            R"({"temperature":1.0,"top_p":1.0,"top_k":0,"min_p":0.0,"repetition_penalty":1.0,"frequency_penalty":0.0,"presence_penalty":0.0,)"
            R"("logit_bias":{},"allowed_token_ids":null,"seed":4,"n":1,"max_tokens":16,"min_tokens":0,"ignore_eos":false,"stop":[],)"
            R"("stop_token_ids":[9,262],"include_stop_str_in_output":false,"skip_special_tokens":true,"determinism":"strict"})");
}

TEST_F(ServerTest, StreamObeysTheSseRules) {
  const HttpAnswer answer = client_.Post("/v1/chat/completions", Chat("hi", "\"seed\": 2, \"max_tokens\": 4, \"ignore_eos\": true, \"stream\": true, \"return_token_ids\": true, "
                                                                            "\"stream_options\": {\"include_usage\": true}"));
  const auto events = answer.events();
  ASSERT_EQ(events.size(), 6u) << answer.body;  // one a token, usage, [DONE]
  for (int i = 0; i < 4; ++i) {
    const Json chunk = *ParseJson(events[static_cast<std::size_t>(i)], "event");
    const Json& choice = chunk["choices"][0];
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(choice["delta"].contains("role"), i == 0);  // with the first token, not before it
    EXPECT_EQ(choice["token_ids"].size(), 1u);
    EXPECT_EQ(choice["finish_reason"].is_null(), i < 3);
    EXPECT_EQ(chunk.contains("prompt_token_ids"), i == 0);
    EXPECT_EQ(chunk.contains("seed"), i == 0);
    EXPECT_TRUE(chunk["usage"].is_null());
    EXPECT_EQ(chunk["system_fingerprint"], "isobit-0.1.0-0123456789ab");
  }
  const Json usage = *ParseJson(events[4], "event");
  EXPECT_EQ(usage["choices"].dump(), "[]");
  EXPECT_EQ(usage["usage"]["completion_tokens"], 4);
  EXPECT_TRUE(usage["usage"].contains("prompt_tokens_details"));
  EXPECT_EQ(usage["system_fingerprint"], "isobit-0.1.0-0123456789ab");
  EXPECT_EQ(events[5], "[DONE]");
}

TEST_F(ServerTest, ContinuousUsageCountsUp) {
  const HttpAnswer answer = client_.Post("/v1/completions", Completion("\"x\"", "\"max_tokens\": 3, \"ignore_eos\": true, \"stop\": null, \"stream\": true, "
                                                                                "\"stream_options\": {\"include_usage\": true, \"continuous_usage_stats\": true}"));
  const auto events = answer.events();
  ASSERT_EQ(events.size(), 5u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*ParseJson(events[static_cast<std::size_t>(i)], "event"))["usage"]["completion_tokens"], i + 1);
}

TEST_F(ServerTest, AStreamCanCarryThePromptAlone) {
  const HttpAnswer answer = client_.Post("/v1/completions", Completion(Script(0), "\"max_tokens\": 0, \"echo\": true, \"logprobs\": 0, \"stream\": true"));
  const auto events = answer.events();
  ASSERT_EQ(events.size(), 2u);
  const Json choice = (*ParseJson(events[0], "event"))["choices"][0];
  EXPECT_EQ(choice["text"], "hi");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 3u);
}

TEST_F(ServerTest, ASilentStreamIsKeptAlive) {
  server_->model.step_microseconds = 1'500'000;
  client_.Send(Client::Request("POST", "/v1/completions", Completion(Script(0), "\"max_tokens\": 1, \"temperature\": 0, \"stream\": true")));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server_->clock.later_nanos += 20'000'000'000;
  const HttpAnswer answer = client_.Read();
  EXPECT_EQ(answer.body.substr(0, 11), ": waiting\n\n");
  EXPECT_EQ(JoinStream(answer).at(0).text, "a");
}

TEST_F(ServerTest, StreamsAreAFunctionOfTheRequest) {
  const auto body = [&] {
    std::string joined;
    for (const std::string& event : client_.Post("/v1/completions", Completion(Script(0), "\"temperature\": 0, \"max_tokens\": 30, \"logprobs\": 2, \"stream\": true, \"stop\": \"delta\", \"seed\": 1")).events()) {
      joined += event == "[DONE]" ? event : Comparable(*ParseJson(event, "event")) + "\n";
    }
    return joined;
  };
  const std::string first = body();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(body(), first);
}

TEST_F(ServerTest, AllowedIdsAndBiasForceAnyBytes) {
  const std::string text = client_.Post("/v1/completions", Completion("\"x\"", "\"max_tokens\": 3, \"allowed_token_ids\": [240], \"return_token_ids\": true")).json()["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(text, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // S03
  const Json broken = client_.Post("/v1/chat/completions", Chat("x", "\"max_tokens\": 3, \"allowed_token_ids\": [237], \"logprobs\": true")).json();
  EXPECT_EQ(broken["choices"][0]["logprobs"]["content"][0]["bytes"].dump(), "[237]");
  EXPECT_EQ(client_.Post("/v1/completions", Completion("\"x\"", "\"max_tokens\": 4, \"temperature\": 0, \"logit_bias\": {\"65\": 100}")).json()["choices"][0]["text"], "AAAA");
  // L05: min_tokens together with a stop token.
  const HttpAnswer pair = client_.Post("/v1/completions", Completion("\"x\"", "\"max_tokens\": 4, \"min_tokens\": 4, \"stop_token_ids\": [65], \"logit_bias\": {\"65\": 100}"));
  EXPECT_EQ(pair.status, 200) << pair.body;
  // S11: top_k = 1 with echo and logprobs.
  const HttpAnswer finite = client_.Post("/v1/completions", Completion("\"xyz\"", "\"top_k\": 1, \"echo\": true, \"logprobs\": 5, \"max_tokens\": 2"));
  EXPECT_EQ(finite.status, 200);
  EXPECT_EQ(finite.json()["choices"][0]["logprobs"]["tokens"].size(), 5u);
}

TEST_F(ServerTest, BadRequestsNameTheField) {
  const auto completion = [&](const std::string& body) { return ErrorOf(client_.Post("/v1/completions", body)); };
  EXPECT_EQ(completion("{\"prompt\": \"x\", \"model\": \"gpt-4\"}"), "404 model_not_found model");
  EXPECT_EQ(completion("{\"prompt\": \"\"}"), "400 invalid_value prompt");
  EXPECT_EQ(completion("{\"prompt\": [\"\"]}"), "400 invalid_value prompt");
  EXPECT_EQ(completion("{\"prompt\": []}"), "400 invalid_value prompt");
  EXPECT_EQ(completion("{\"prompt\": [[]]}"), "400 invalid_value prompt");
  EXPECT_EQ(completion("{}"), "400 invalid_value prompt");
  EXPECT_EQ(completion("{\"prompt\": [280]}"), "400 invalid_value prompt");
  EXPECT_EQ(completion("{\"prompt\": \"x\", \"logit_bias\": {\"280\": 1}}"), "400 invalid_value logit_bias");
  EXPECT_EQ(completion("{\"prompt\": \"x\", \"temperature\": NaN}"), "400 invalid_value -");
  EXPECT_EQ(completion("{\"prompt\": \"\xC4\xE3\"}"), "400 invalid_value -");
  EXPECT_EQ(completion("{\"prompt\": \"x\", \"best_of\": 3}"), "400 unsupported_parameter best_of");
  EXPECT_EQ(completion("{\"prompt\": \"x\", \"min_tokens\": 17}"), "400 invalid_value min_tokens");
  EXPECT_EQ(completion("{\"prompt\": \"x\", \"n\": 129}"), "400 invalid_value n");
  const HttpAnswer raised = client_.Post("/v1/chat/completions", R"({"messages": [{"role": "assistant", "content": "x"}]})");
  EXPECT_EQ(ErrorOf(raised), "400 invalid_value messages");
  EXPECT_NE(raised.body.find("the first message must not be the assistant's"), std::string::npos);
  EXPECT_EQ(client_.Post("/v1/completions", "{\"prompt\": \"fine\", \"max_tokens\": 1}").status, 200);
}

TEST_F(ServerTest, TooLongIsAContextLengthError) {
  const std::string long_text = std::string(3000, 'x');
  for (const HttpAnswer& answer : {client_.Post("/v1/completions", Completion("\"" + long_text + "\"")), client_.Post("/v1/chat/completions", Chat(long_text)),
                                   client_.Post("/v1/completions", Completion("\"" + std::string(100000, 'x') + "\"")),
                                   client_.Post("/v1/completions", Completion("\"x\"", "\"max_tokens\": 2048"))}) {
    EXPECT_EQ(answer.status, 400);
    const Json error = answer.json()["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_NE(error["message"].get<std::string>().find("maximum context length"), std::string::npos);
  }
  // What just fits does; the default of max_tokens is what is left.
  const std::string full = "\"" + std::string(2047, 'x') + "\"";
  EXPECT_EQ(client_.Post("/v1/completions", Completion(full)).json()["usage"]["completion_tokens"], 1);
  EXPECT_EQ(client_.Post("/v1/completions", Completion("\"" + long_text + "\"", "\"truncate_prompt_tokens\": 10")).json()["usage"]["prompt_tokens"], 10);
}

TEST_F(ServerTest, NaNFailsThatRequestOnly) {
  const std::string plain = Completion("\"neighbour\"", "\"seed\": 1, \"max_tokens\": 50, \"ignore_eos\": true");
  const std::string alone = Comparable(client_.Post("/v1/completions", plain).json());
  server_->model.step_microseconds = 500;
  Client neighbour = server_->Connect();
  neighbour.Send(Client::Request("POST", "/v1/completions", plain));
  const HttpAnswer failed = client_.Post("/v1/completions", Completion(Script(6), "\"temperature\": 0"));
  EXPECT_EQ(failed.status, 422) << failed.body;
  EXPECT_EQ(failed.json()["error"]["code"], "numeric_error");
  EXPECT_EQ(failed.header("x-should-retry"), "false");
  // In the middle of a stream: an error event, then [DONE].
  const auto events = client_.Post("/v1/completions", Completion(Script(2), "\"temperature\": 0, \"stream\": true")).events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ((*ParseJson(events[0], "event"))["choices"][0]["text"], "a");
  EXPECT_EQ((*ParseJson(events[1], "event"))["error"]["code"], "numeric_error");
  EXPECT_EQ(events[2], "[DONE]");
  EXPECT_EQ(Comparable(neighbour.Read().json()), alone);
}

TEST_F(ServerTest, ClientsThatLeaveFreeTheirPlaces) {
  server_->model.step_microseconds = 2000;
  const std::string plain = Completion("\"neighbour\"", "\"seed\": 1, \"max_tokens\": 40, \"ignore_eos\": true");
  const std::string alone = Comparable(client_.Post("/v1/completions", plain).json());
  const EngineStats before = server_->engine->Stats();
  Client neighbour = server_->Connect();
  neighbour.Send(Client::Request("POST", "/v1/completions", plain));
  const std::string endless = "\"max_tokens\": 1500, \"temperature\": 0, \"ignore_eos\": true";
  {  // mid-stream
    Client leaver = server_->Connect();
    leaver.Send(Client::Request("POST", "/v1/completions", Completion(Script(5), endless + ", \"stream\": true")));
    ASSERT_TRUE(leaver.FillUntil("data: "));
  }
  {  // not streaming
    Client leaver = server_->Connect();
    leaver.Send(Client::Request("POST", "/v1/completions", Completion(Script(5), endless + ", \"n\": 3")));
    ASSERT_TRUE(server_->Eventually([](const EngineStats& stats) { return stats.num_running >= 3; }));
  }
  {  // in prefill: two thousand tokens are four steps
    Client leaver = server_->Connect();
    leaver.Send(Client::Request("POST", "/v1/completions", Completion("\"" + std::string(2000, 'p') + "\"")));
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  {  // queued: more than there are places
    Client leaver = server_->Connect();
    leaver.Send(Client::Request("POST", "/v1/completions", Completion(Script(5), endless + ", \"n\": 100")));
    ASSERT_TRUE(server_->Eventually([](const EngineStats& stats) { return stats.num_waiting > 0; }));
  }
  EXPECT_EQ(Comparable(neighbour.Read().json()), alone);
  EXPECT_TRUE(server_->Idle(500));
  const EngineStats after = server_->engine->Stats();
  EXPECT_GE(after.finished_cancelled - before.finished_cancelled, 104);
}

TEST_F(ServerTest, ManyStreamsAtOnce) {
  std::vector<Client> clients;
  std::vector<std::string> want;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(server_->Connect());
    const std::string body = Completion(i % 2 ? Script(0) : "\"p" + std::to_string(i) + "\"",
                                        "\"seed\": " + std::to_string(i) + ", \"max_tokens\": 24, \"return_token_ids\": true, \"stream\": true");
    ASSERT_TRUE(clients.back().Send(Client::Request("POST", "/v1/completions", body)));
  }
  for (int i = 0; i < 200; ++i) {
    const HttpAnswer answer = clients[static_cast<std::size_t>(i)].Read();
    ASSERT_EQ(answer.status, 200);
    const auto joined = JoinStream(answer);
    ASSERT_EQ(joined.size(), 1u);
    EXPECT_EQ(joined.at(0).num_finishes, 1);
    if (i % 2 == 1) {
      EXPECT_EQ(joined.at(0).text, "alpha beta gamma delta");
    }
    if (i % 20 == 0) {  // alone, the same tokens
      const Json alone = client_.Post("/v1/completions", Completion("\"p" + std::to_string(i) + "\"", "\"seed\": " + std::to_string(i) + ", \"max_tokens\": 24, \"return_token_ids\": true")).json();
      EXPECT_EQ(alone["choices"][0]["token_ids"].get<std::vector<std::int32_t>>(), joined.at(0).token_ids);
    }
  }
}

TEST_F(ServerTest, ASlowReaderHoldsNobodyBack) {
  Client slow = server_->Connect(4096);
  slow.Send(Client::Request("POST", "/v1/completions", Completion(Script(5), "\"max_tokens\": 1500, \"temperature\": 0, \"logprobs\": 5, \"stream\": true")));
  ASSERT_TRUE(slow.FillUntil("data: "));
  EXPECT_EQ(client_.Post("/v1/completions", Completion(Script(0), "\"temperature\": 0, \"max_tokens\": 5")).json()["choices"][0]["text"], "alpha");
  EXPECT_TRUE(server_->Idle());  // the engine is done with it although nobody read
  EXPECT_EQ(JoinStream(slow.Read()).at(0).text, std::string(1500, 'z'));
}

TEST_F(ServerTest, PipelinedGenerationsAnswerInOrder) {
  std::string requests;
  for (int i = 1; i <= 8; ++i) requests += Client::Request("POST", "/v1/completions", Completion(Script(0), "\"temperature\": 0, \"max_tokens\": " + std::to_string(i)));
  client_.Send(requests);
  for (int i = 1; i <= 8; ++i) EXPECT_EQ(client_.Read().json()["choices"][0]["text"], std::string("alpha beta").substr(0, static_cast<std::size_t>(i)));
}

TEST_F(ServerTest, IgnoredFieldsAreListed) {
  const HttpAnswer answer = client_.Post("/v1/completions", Completion("\"x\"", "\"user\": \"me\", \"frob\\r\\nset-cookie: a\": 1, \"nothing\": null"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("x-isobit-ignored-fields"), "user, frob??set-cookie:?a");
}

TEST_F(ServerTest, InformsAboutItself) {
  for (const char* path : {"/health", "/v1/health", "/ping"}) EXPECT_EQ(client_.Get(path).status, 200) << path;
  EXPECT_EQ(client_.Get("/version").json()["version"], "0.1.0");
  const Json models = client_.Get("/v1/models").json();
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["max_model_len"], 2048);
  EXPECT_EQ(client_.Get("/v1/models/tiny").json()["id"], "tiny");
  EXPECT_EQ(ErrorOf(client_.Get("/v1/models/other%2Fmodel")), "404 model_not_found model");
  const Json info = client_.Get("/tokenizer_info").json();
  EXPECT_EQ(info["eos_token"], "<|im_end|>");
  EXPECT_EQ(info["bos_token"], "<s>");
  EXPECT_NE(info["chat_template"].get<std::string>().find("im_start"), std::string::npos);
  EXPECT_EQ(ErrorOf(client_.Get("/nothing")), "404 not_found -");
  const HttpAnswer wrong = client_.Get("/v1/completions");
  EXPECT_EQ(ErrorOf(wrong), "405 method_not_allowed -");
  EXPECT_EQ(wrong.header("allow"), "POST");
  const std::string metrics = client_.Get("/metrics").body;
  for (const char* name : {"isobit_contract_info", "isobit_requests_running", "vllm:num_requests_running", "vllm:time_to_first_token_seconds_bucket",
                           "vllm:request_queue_time_seconds_count", "vllm:prefix_cache_hits_total"}) {
    EXPECT_NE(metrics.find(name), std::string::npos) << name;
  }
}

TEST_F(ServerTest, TokenizesInBothDialects) {
  const Json vllm = client_.Post("/tokenize", R"({"model": "tiny", "prompt": "hi<|im_end|>", "return_token_strs": true})").json();
  EXPECT_EQ(vllm["tokens"].dump(), "[104,105,262]");
  EXPECT_EQ(vllm["count"], 3);
  EXPECT_EQ(vllm["max_model_len"], 2048);
  EXPECT_EQ(vllm["token_strs"].dump(), R"(["h","i","<|im_end|>"])");
  EXPECT_EQ(client_.Post("/v1/tokenize", R"({"prompt": "<s>", "parse_special": false})").json()["tokens"].dump(), "[60,115,62]");
  const Json llama = client_.Post("/tokenize", "{\"content\": \"\xC3\xA9\", \"with_pieces\": true}").json();
  EXPECT_EQ(llama["tokens"].dump(), R"([{"id":195,"piece":[195]},{"id":169,"piece":[169]}])");
  EXPECT_EQ(client_.Post("/tokenize", Chat("hi")).json()["tokens"][0], kImStart);
  const Json text = client_.Post("/detokenize", R"({"tokens": [104, 258, 262, 226]})").json();
  EXPECT_EQ(text["prompt"], "hhell<|im_end|>\xEF\xBF\xBD");
  EXPECT_EQ(text["content"], text["prompt"]);
  EXPECT_EQ(ErrorOf(client_.Post("/detokenize", R"({"tokens": [280]})")), "400 invalid_value tokens");
  EXPECT_EQ(ErrorOf(client_.Post("/detokenize", "{}")), "400 invalid_value tokens");
  EXPECT_EQ(ErrorOf(client_.Post("/tokenize", "{}")), "400 invalid_value prompt");
  EXPECT_EQ(ErrorOf(client_.Post("/tokenize", R"({"prompt": 5})")), "400 invalid_value prompt");
}

// What is only rendered or decoded is bounded too, wherever the text stands: one thread serves everybody.
TEST_F(ServerTest, TextThatIsNotRunIsBounded) {
  const std::string text(kMaxTokenizeBytes + 1, 'a');
  EXPECT_EQ(ErrorOf(client_.Post("/tokenize", "{\"prompt\": \"" + text + "\"}")), "400 invalid_value prompt");
  for (const char* path : {"/tokenize", "/apply-template"}) {
    EXPECT_EQ(ErrorOf(client_.Post(path, Chat(text))), "400 invalid_value messages") << path;
    EXPECT_EQ(ErrorOf(client_.Post(path, R"({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"x": ")" + text + "\"}}")),
              "400 invalid_value messages")
        << path;
  }
  std::string ids = "{\"tokens\": [262";
  for (int i = 0; i < (16 << 20) / 10; ++i) ids += ",262";  // <|im_end|>
  EXPECT_EQ(ErrorOf(client_.Post("/detokenize", ids + "]}")), "400 invalid_value tokens");
  const Json rendered = client_.Post("/apply-template", Chat("<|im_end|><|im_end|>\xEF\xB7\x90<s>")).json();
  EXPECT_EQ(rendered["prompt"], "<|im_start|>user\n<|im_end|><|im_end|>\xEF\xB7\x90<s><|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(ServerTest, MoreMessagesThanTheTemplateMayWalkIsNoOverload) {
  std::string messages = "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}";
  for (int i = 0; i < 200'000; ++i) messages += R"(,{"role": "user", "content": ""})";
  EXPECT_EQ(ErrorOf(client_.Post("/v1/chat/completions", messages + "]}")), "400 invalid_value messages");
}

// Refusals of bytes that never became a request have the headers of every other answer.
TEST_F(ServerTest, TransportErrorsHaveTheCommonHeaders) {
  Client client = server_->Connect();
  ASSERT_TRUE(client.Send("no HTTP at all\r\n\r\n"));
  const HttpAnswer answer = client.Read();
  EXPECT_EQ(ErrorOf(answer), "400 invalid_http -");
  EXPECT_EQ(answer.header("x-request-id").substr(0, 4), "req-");
  EXPECT_EQ(answer.header("x-isobit-contract"), std::string(64, 'c'));
}

TEST(ServerOptions, KeysGuardAllButHealth) {
  ServerConfig config;
  config.api_keys = {"one", "two"};
  config.open_paths = true;
  TestServer server(config);
  server.Start();
  Client client = server.Connect();
  EXPECT_EQ(ErrorOf(client.Get("/v1/models")), "401 invalid_api_key -");
  EXPECT_EQ(ErrorOf(client.Get("/nothing")), "401 invalid_api_key -");
  EXPECT_EQ(client.Get("/v1/models", "Authorization: Bearer two\r\n").status, 200);
  EXPECT_EQ(client.Get("/health").status, 200);
  EXPECT_EQ(client.Get("/metrics").status, 200);
  EXPECT_EQ(client.Post("/tokenize", "{\"prompt\": \"x\"}").status, 200);
  EXPECT_EQ(server.Connect().Post("/v1/completions", Completion("\"x\""), "Authorization: Bearer three\r\n").status, 401);
  EXPECT_EQ(server.Connect().Post("/detokenize", "{\"tokens\": [1]}").status, 401);
  EXPECT_EQ(client.Post("/v1/completions", Completion("\"x\""), "Authorization: Bearer one\r\n").status, 200);
}

TEST(ServerOptions, FullQueueIs429AndLeavesNothingBehind) {
  TestServer server({}, {.max_sequences = 2, .max_queue = 3});
  server.model.scripts[5] = std::vector<std::int32_t>(1500, 'z');
  server.model.step_microseconds = 3000;
  server.Start();
  Client busy = server.Connect();
  busy.Send(Client::Request("POST", "/v1/completions", Completion(Script(5), "\"max_tokens\": 1500, \"temperature\": 0, \"n\": 2")));
  ASSERT_TRUE(server.Eventually([](const EngineStats& stats) { return stats.num_running == 2; }));
  Client client = server.Connect();
  const HttpAnswer refused = client.Post("/v1/completions", Completion("\"x\"", "\"n\": 10"));
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.json()["error"]["code"], "server_overloaded");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_TRUE(server.Eventually([](const EngineStats& stats) { return stats.num_waiting == 0; }));
  busy.Close();
  EXPECT_TRUE(server.Idle());
  EXPECT_EQ(client.Post("/v1/completions", Completion("\"x\"")).status, 200);
}

TEST(ServerOptions, DefaultSeedPinsAndStrictFieldsRefuse) {
  ServerConfig config;
  config.default_seed = 42;
  config.strict_fields = true;
  config.metrics_compat_vllm = false;
  std::vector<std::string> log;
  config.log = [&log](const std::string& line) { log.push_back(line); };
  TestServer server(config);
  server.Start();
  Client client = server.Connect();
  const Json first = client.Post("/v1/completions", Completion("\"secret text\"")).json(), second = client.Post("/v1/completions", Completion("\"secret text\"")).json();
  EXPECT_EQ(first["seed"], 42);
  EXPECT_EQ(Comparable(first), Comparable(second));
  EXPECT_EQ(client.Post("/v1/completions", Completion("\"secret text\"", "\"seed\": 1")).json()["seed"], 1);
  EXPECT_EQ(ErrorOf(client.Post("/v1/completions", Completion("\"x\"", "\"frob\": 1"))), "400 unsupported_parameter frob");
  EXPECT_EQ(client.Get("/metrics").body.find("vllm:"), std::string::npos);
  server.Stop();
  ASSERT_EQ(log.size(), 5u);
  std::vector<int> statuses;
  for (const std::string& line : log) {
    EXPECT_EQ(line.find("secret"), std::string::npos);
    statuses.push_back((*ParseJson(line, "log"))["status"].get<int>());
  }
  EXPECT_EQ(statuses, (std::vector<int>{200, 200, 200, 400, 200}));
}

TEST(ServerOptions, BosIsAddedOnceAndNeverToIds) {
  TestServer server({}, {.max_sequences = 4}, /*add_bos=*/true);
  server.Start();
  Client client = server.Connect();
  const auto prompt_ids = [&](const std::string& prompt, const std::string& rest = "") {
    return client.Post("/v1/completions", Completion(prompt, "\"max_tokens\": 1, \"return_token_ids\": true" + rest)).json()["choices"][0]["prompt_token_ids"].dump();
  };
  EXPECT_EQ(prompt_ids("\"hi\""), "[260,104,105]");
  EXPECT_EQ(prompt_ids("\"<s>hi\""), "[260,104,105]");
  EXPECT_EQ(prompt_ids("\"hi\"", ", \"add_special_tokens\": false"), "[104,105]");
  EXPECT_EQ(prompt_ids("[104, 105]"), "[104,105]");
  EXPECT_EQ(prompt_ids("\"\""), "[260]");  // Q03: with a BOS the empty prompt is defined
  const Json echo = client.Post("/v1/completions", Completion("\"hi\"", "\"max_tokens\": 0, \"echo\": true, \"logprobs\": 0")).json()["choices"][0];
  EXPECT_EQ(echo["text"], "hi");
  EXPECT_EQ(echo["logprobs"]["text_offset"].dump(), "[0,0,1]");
}

TEST(ServerOptions, DefaultLengthsFitTheKvCache) {
  TestServer server({}, {.max_sequences = 4}, false, /*num_blocks=*/4);  // 64 positions for a context of 2048
  server.model.scripts[5] = std::vector<std::int32_t>(1500, 'z');
  server.Start();
  Client client = server.Connect();
  const Json json = client.Post("/v1/chat/completions", Chat("hi", "\"ignore_eos\": true")).json();
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length") << json.dump();
  EXPECT_EQ(json["usage"]["total_tokens"], 65);
  EXPECT_EQ(ErrorOf(client.Post("/v1/chat/completions", Chat("hi", "\"max_tokens\": 500"))), "400 invalid_value max_tokens");
  EXPECT_EQ(client.Post("/v1/completions", Completion("\"" + std::string(60, 'x') + "\"", "\"ignore_eos\": true")).json()["usage"]["completion_tokens"], 5);
}

TEST(ServerOptions, StopEndsAnswersInOrder) {
  TestServer server;
  server.model.scripts[5] = std::vector<std::int32_t>(1500, 'z');
  server.model.step_microseconds = 1000;
  server.Start();
  Client streaming = server.Connect(), endless = server.Connect();
  streaming.Send(Client::Request("POST", "/v1/completions", Completion(Script(5), "\"max_tokens\": 100, \"temperature\": 0, \"stream\": true")));
  ASSERT_TRUE(streaming.FillUntil("data: "));
  endless.Send(Client::Request("POST", "/v1/completions", Completion(Script(5), "\"max_tokens\": 1500, \"temperature\": 0, \"stream\": true")));
  ASSERT_TRUE(endless.FillUntil("data: "));
  std::thread stopper([&] { server.Stop(1); });
  EXPECT_EQ(JoinStream(streaming.Read()).at(0).text, std::string(100, 'z'));
  EXPECT_EQ(endless.Read().status, 0);  // cut off when the drain was over
  stopper.join();
}

}  // namespace
}  // namespace isobit
