#include "serve/openai_response.h"

#include <gtest/gtest.h>

#include <limits>

#include "serve/metrics.h"
#include "serve/test_support.h"

namespace isobit {
namespace {

using serve_test::kEos;
using serve_test::kHe;

std::string Written(const auto& write) {
  JsonWriter json;
  write(json);
  return json.Take();
}

const std::vector<ScoredToken> kScores = {
    {.id = 'a', .scored = false},
    {.id = kHe, .logprob = -0.5f, .top = {{'x', -0.25f, 1}, {kHe, -0.5f, 2}}, .text_offset = 1},
    {.id = 0xE2, .logprob = -3.0f, .top = {{0xF0, -1.0f, 1}, {'b', -2.0f, 2}}, .text_offset = 3},
};

TEST(CompletionLogprobs, TopHoldsTheBestAndTheToken) {
  const AnswerFormat format{.logprobs = 1};
  const std::string text = Written([&](JsonWriter& json) { WriteCompletionLogprobs(format, *serve_test::MakeTokenizer(), kScores, json); });
  // The last token's text is a replacement character, as is its best alternative's: one key, the larger value.
  EXPECT_EQ(text,
            "{\"tokens\":[\"a\",\"he\",\"\xEF\xBF\xBD\"],\"token_logprobs\":[null,-0.5,-3.0],"
            "\"top_logprobs\":[null,{\"x\":-0.25,\"he\":-0.5},{\"\xEF\xBF\xBD\":-1.0}],\"text_offset\":[0,1,3]}");
}

TEST(CompletionLogprobs, TokensAsIdsLoseNothing) {
  const AnswerFormat format{.logprobs = 2, .tokens_as_ids = true};
  const std::string text = Written([&](JsonWriter& json) { WriteCompletionLogprobs(format, *serve_test::MakeTokenizer(), kScores, json); });
  EXPECT_EQ(text,
            R"({"tokens":["token_id:97","token_id:256","token_id:226"],"token_logprobs":[null,-0.5,-3.0],)"
            R"("top_logprobs":[null,{"token_id:120":-0.25,"token_id:256":-0.5},{"token_id:240":-1.0,"token_id:98":-2.0,"token_id:226":-3.0}],)"
            R"("text_offset":[0,1,3]})");
}

TEST(ChatLogprobs, CarriesExactBytes) {
  const AnswerFormat format{.chat = true, .logprobs = 1};
  const std::vector<ScoredToken> scores = {{.id = 0xE2, .logprob = -3.0f, .top = {{0xF0, -1.0f, 1}}},
                                           {.id = kEos, .shown = false, .logprob = std::numeric_limits<float>::lowest()},
                                           {.id = 'a', .logprob = -std::numeric_limits<float>::infinity()}};
  const std::string text = Written([&](JsonWriter& json) { WriteChatLogprobs(format, *serve_test::MakeTokenizer(), scores, json); });
  EXPECT_EQ(text,
            "{\"content\":[{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-3.0,\"bytes\":[226],\"top_logprobs\":"
            "[{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-1.0,\"bytes\":[240]}]},"
            "{\"token\":\"<|im_end|>\",\"logprob\":-3.4028235e+38,\"bytes\":[],\"top_logprobs\":[]},"
            "{\"token\":\"a\",\"logprob\":-9999.0,\"bytes\":[97],\"top_logprobs\":[]}],\"refusal\":null}");
}

TEST(PromptLogprobs, ActualTokenComesFirst) {
  const AnswerFormat format{.prompt_logprobs = 2};
  const std::vector<PromptScore> scores = {{{'b', -4.0f, 9}, {{'x', -0.5f, 1}, {'y', -1.5f, 2}, {'z', -2.5f, 3}}},
                                           {{'x', -0.5f, 1}, {{'x', -0.5f, 1}, {'y', -1.5f, 2}, {'z', -2.5f, 3}}}};
  const std::string text = Written([&](JsonWriter& json) { WritePromptLogprobs(format, *serve_test::MakeTokenizer(), scores, json); });
  EXPECT_EQ(text,
            R"([null,{"98":{"logprob":-4.0,"rank":9,"decoded_token":"b"},"120":{"logprob":-0.5,"rank":1,"decoded_token":"x"},)"
            R"("121":{"logprob":-1.5,"rank":2,"decoded_token":"y"}},)"
            R"({"120":{"logprob":-0.5,"rank":1,"decoded_token":"x"},"121":{"logprob":-1.5,"rank":2,"decoded_token":"y"}}])");
}

TEST(Choice, WholeAndStreamedShapes) {
  const auto tokenizer = serve_test::MakeTokenizer();
  const std::vector<std::int32_t> prompt = {1, 2};
  const ChoicePart part{.index = 3, .text = "hi", .token_ids = {104, 105}, .finish_reason = "stop", .stop_token_id = 7, .prompt_ids = &prompt};
  const auto choice = [&](const AnswerFormat& format, const ChoicePart& of) {
    return Written([&](JsonWriter& json) { WriteChoice(format, *tokenizer, of, json); });
  };
  EXPECT_EQ(choice({.return_token_ids = true}, part),
            R"({"index":3,"text":"hi","logprobs":null,"finish_reason":"stop","stop_reason":7,"prompt_token_ids":[1,2],"token_ids":[104,105]})");
  EXPECT_EQ(choice({.chat = true, .return_token_ids = true}, part),
            R"({"index":3,"message":{"role":"assistant","content":"hi","refusal":null},"logprobs":null,"finish_reason":"stop","stop_reason":7,)"
            R"("token_ids":[104,105]})");
  EXPECT_EQ(choice({.chat = true, .stream = true}, {.text = "h"}),
            R"({"index":0,"delta":{"role":"assistant","content":"h"},"logprobs":null,"finish_reason":null,"stop_reason":null})");
  EXPECT_EQ(choice({.chat = true, .stream = true}, {.first = false, .finish_reason = "length"}),
            R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"length","stop_reason":null})");
  EXPECT_EQ(choice({.stream = true}, {.first = false, .text = "", .finish_reason = "stop", .stop_string = "\n"}),
            R"({"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":"\n"})");
}

TEST(Usage, DetailsOnlyOnceKnown) {
  EXPECT_EQ(Written([](JsonWriter& json) { WriteUsage({3, 4, -1}, json); }), R"({"prompt_tokens":3,"completion_tokens":4,"total_tokens":7})");
  EXPECT_EQ(Written([](JsonWriter& json) { WriteUsage({3, 4, 2}, json); }),
            R"({"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}})");
}

TEST(Histogram, CountsIntoCumulativeBuckets) {
  Histogram histogram({0.5, 1, 2.5});
  for (const double value : {0.25, 0.5, 0.75, 2.5, 3.0}) histogram.Observe(value);
  std::string out;
  histogram.Append("h", "help", "a=\"b\"", out);
  EXPECT_EQ(out,
            "# HELP h help\n# TYPE h histogram\nh_bucket{a=\"b\",le=\"0.5\"} 2\nh_bucket{a=\"b\",le=\"1\"} 3\nh_bucket{a=\"b\",le=\"2.5\"} 4\n"
            "h_bucket{a=\"b\",le=\"+Inf\"} 5\nh_sum{a=\"b\"} 7\nh_count{a=\"b\"} 5\n");
}

TEST(Metrics, RendersOwnAndVllmNames) {
  ServingModel model;
  model.name = "ti\"ny";
  model.max_model_len = 100;
  Metrics metrics(model, true);
  metrics.RequestStarted(2);
  metrics.ChoiceEnded({.queued = 1'000'000, .first_token = 3'000'000, .end = 400'000'000, .prompt_tokens = 5, .generated_tokens = 4, .max_tokens = 16},
                      "length");
  metrics.ChoiceEnded({.end = 1}, "abort");
  EngineStats stats;
  stats.num_running = 3;
  stats.num_blocks = 10;
  stats.num_free_blocks = 4;
  stats.num_cached_blocks = 1;
  const std::string text = metrics.Render(stats, 7);
  for (const char* line : {"vllm:num_requests_running{model_name=\"ti\\\"ny\",engine=\"0\"} 3\n", "vllm:kv_cache_usage_perc{model_name=\"ti\\\"ny\",engine=\"0\"} 0.5\n",
                           "vllm:request_success_total{model_name=\"ti\\\"ny\",engine=\"0\",finished_reason=\"length\"} 1\n",
                           "vllm:request_success_total{model_name=\"ti\\\"ny\",engine=\"0\",finished_reason=\"abort\"} 1\n",
                           "vllm:time_to_first_token_seconds_bucket{model_name=\"ti\\\"ny\",engine=\"0\",le=\"0.001\"} 0\n",
                           "vllm:time_to_first_token_seconds_bucket{model_name=\"ti\\\"ny\",engine=\"0\",le=\"0.005\"} 1\n",
                           "vllm:e2e_request_latency_seconds_bucket{model_name=\"ti\\\"ny\",engine=\"0\",le=\"0.3\"} 0\n",
                           "vllm:e2e_request_latency_seconds_bucket{model_name=\"ti\\\"ny\",engine=\"0\",le=\"7680\"} 1\n",
                           "vllm:request_prompt_tokens_bucket{model_name=\"ti\\\"ny\",engine=\"0\",le=\"100\"} 1\n", "isobit_connections{model_name=\"ti\\\"ny\",engine=\"0\"} 7\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(Metrics(model, false).Render(stats, 0).find("vllm:"), std::string::npos);
}

}  // namespace
}  // namespace isobit
