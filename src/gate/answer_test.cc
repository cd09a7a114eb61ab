#include "gate/answer.h"

#include <gtest/gtest.h>

namespace isobit::gate {
namespace {

Answer ReadStream(const std::string& bytes, std::size_t piece = 100000) {
  AnswerReader reader;
  reader.Head(200, true);
  for (std::size_t at = 0; at < bytes.size(); at += piece) reader.Body(bytes.substr(at, piece), static_cast<std::int64_t>(at));
  reader.End(999999);
  return reader.answer();
}

Answer ReadWhole(int status, const std::string& body) {
  AnswerReader reader;
  reader.Head(status, false);
  reader.Body(body, 5);
  reader.End(6);
  return reader.answer();
}

const char* const kStream =
    ": keep-alive\n\n"
    "data: {\"choices\":[{\"text\":\"He\",\"token_ids\":[5],\"prompt_token_ids\":[1,2],\"logprobs\":{\"tokens\":[\"He\"],"
    "\"token_logprobs\":[-0.50],\"top_logprobs\":[{\"He\":-0.50,\"Ho\":-1.0}]},\"finish_reason\":null}]}\r\n\r\n"
    "data:{\"choices\":[{\"text\":\"llo\",\"token_ids\":[6,7],\"logprobs\":{\"tokens\":[\"l\",\"lo\"],\"token_logprobs\":[-1e-05,-2],"
    "\"top_logprobs\":[{\"l\":-1e-05},{\"lo\":-2}]},\"finish_reason\":\"length\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":1}},"
    "\"system_fingerprint\":\"fp\"}\n\n"
    "data: [DONE]\n\n";

TEST(Answer, StreamIsTheSameInAnyPieces) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{100000}}) {
    const Answer answer = ReadStream(kStream, piece);
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.text, "Hello");
    EXPECT_EQ(answer.ids, (std::vector<std::int64_t>{5, 6, 7}));
    EXPECT_EQ(answer.prompt_ids, (std::vector<std::int64_t>{1, 2}));
    ASSERT_EQ(answer.scores.size(), 3u);
    EXPECT_EQ(answer.scores[0].chosen.digits, "-0.50");
    EXPECT_EQ(answer.scores[0].top, (std::vector<Candidate>{{"He", "-0.50"}, {"Ho", "-1.0"}}));
    EXPECT_EQ(answer.scores[1].chosen.digits, "-1e-05");
    EXPECT_EQ(answer.finish_reason, "length");
    EXPECT_EQ(answer.prompt_tokens, 2);
    EXPECT_EQ(answer.completion_tokens, 3);
    EXPECT_EQ(answer.cached_tokens, 1);
    EXPECT_EQ(answer.fingerprint, "fp");
    EXPECT_EQ(answer.token_nanos.size(), 2u);  // two events carried tokens
    EXPECT_TRUE(answer.streamed);
  }
}

TEST(Answer, ChatAndContentListAreRead) {
  const Answer answer = ReadWhole(200, R"({"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop",
      "logprobs":{"content":[{"token":"Hi","logprob":-0.125,"bytes":[72,105],"top_logprobs":[{"token":"Hi","logprob":-0.125}]}]}}]})");
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.text, "Hi");
  ASSERT_EQ(answer.scores.size(), 1u);
  EXPECT_EQ(answer.scores[0].chosen, (Candidate{"Hi", "-0.125"}));
  const Answer llama = ReadWhole(200, R"({"choices":[{"text":"Hi","finish_reason":"stop",
      "logprobs":{"content":[{"id":42,"token":"Hi","logprob":-0.125,"top_logprobs":[{"id":42,"token":"Hi","logprob":-0.125}]}]}}]})");
  EXPECT_EQ(llama.scores[0].chosen.token, "id:42");
}

TEST(Answer, PromptScoresTakeTheFirstKey) {
  const Answer answer = ReadWhole(200, R"({"choices":[{"text":"x","finish_reason":"length",
      "prompt_logprobs":[null,{"17":{"logprob":-3.5,"rank":9},"4":{"logprob":-0.1,"rank":1}}]}]})");
  ASSERT_EQ(answer.prompt_scores.size(), 2u);
  EXPECT_EQ(answer.prompt_scores[0], (Candidate{"", "null"}));
  EXPECT_EQ(answer.prompt_scores[1], (Candidate{"17", "-3.5"}));
}

TEST(Answer, WhatEndsEarlyOrBadlyIsAnError) {
  std::string cut(kStream);
  cut.resize(cut.find("data: {\"choices\":[],") - 200);
  EXPECT_EQ(ReadStream(cut.substr(0, cut.find("data:{"))).error, "the answer ends without a finish_reason");
  EXPECT_EQ(ReadStream("data: {\"error\":{\"message\":\"too hot\"}}\n\ndata: [DONE]\n\n").error, "the server reported: too hot");
  EXPECT_EQ(ReadStream("data: {nonsense\n\n").error, "an event of the stream is not valid JSON at byte 1 of 9");
  EXPECT_EQ(ReadWhole(500, R"({"error":{"message":"out of slots"}})").error, "HTTP 500: out of slots");
  EXPECT_EQ(ReadWhole(422, R"({"detail":"no"})").error, "HTTP 422: no");
  EXPECT_EQ(ReadWhole(401, R"({"error":"Unauthorized"})").error, "HTTP 401: Unauthorized");
  EXPECT_EQ(ReadWhole(502, "<html>\nbad gateway").error, "HTTP 502: <html> bad gateway");
  EXPECT_EQ(ReadWhole(200, "{}").error, "the answer ends without a finish_reason");
  AnswerReader reader;
  reader.Head(200, true);
  reader.Body(std::string(kStream).substr(0, 300), 1);
  reader.Broke("connection broke", 2);
  EXPECT_EQ(reader.answer().error, "connection broke (1 tokens had come)");
}

}  // namespace
}  // namespace isobit::gate
