#include "oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "hash_model.h"

namespace isobit::sim {
namespace {

bool SameBits(const TokenLogprob& a, const TokenLogprob& b) {
  return a.id == b.id && a.rank == b.rank &&
         std::bit_cast<std::uint32_t>(a.logprob) == std::bit_cast<std::uint32_t>(b.logprob);
}

bool SameBits(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return SameBits(x, y); });
}

Answer& Fail(Answer& answer, const Error& error) {
  answer.finish = FinishReason::kError;
  answer.error = error.code;
  return answer;
}

}  // namespace

Answer Expect(const GenerationRequest& request) {
  Answer answer;
  HistoryHash history;
  std::vector<float> logits(kVocabSize);
  std::vector<PromptScore> scores;
  const std::size_t prompt_length = request.prompt_ids.size();
  for (std::size_t i = 0; i < prompt_length; ++i) {
    FillLogits(history.Append(request.prompt_ids[i]), logits.data());
    if (request.num_prompt_logprobs < 0 || i + 1 == prompt_length) continue;
    if (const Status status = CheckLogits(logits); !status.ok())
      return Fail(answer, status.error());
    PromptScore& score = scores.emplace_back();
    score.actual =
        ScoreToken(logits, request.prompt_ids[i + 1], request.num_prompt_logprobs, &score.top);
  }
  // Scores of a request that fails at its first token are not delivered: one finish tells all.
  bool deliver_scores = request.num_prompt_logprobs >= 0;
  while (static_cast<std::int64_t>(answer.tokens.size()) < request.max_new_tokens) {
    const auto generated = static_cast<std::int64_t>(answer.tokens.size());
    std::span<const std::int32_t> masked;
    if (generated < request.min_new_tokens) masked = request.stop_token_ids;
    const Result<std::int32_t> token =
        SampleToken(logits, request.sampling, {request.prompt_ids, answer.tokens}, masked,
                    static_cast<std::int64_t>(prompt_length) + generated);
    if (!token.ok()) return Fail(answer, token.error());
    if (deliver_scores) {
      answer.prompt_scores = std::move(scores);
      answer.has_prompt_scores = true;
      deliver_scores = false;
    }
    if (request.num_logprobs >= 0) {
      answer.logprobs.push_back(
          ScoreToken(logits, *token, request.num_logprobs, &answer.tops.emplace_back()));
    }
    answer.tokens.push_back(*token);
    if (std::ranges::count(request.stop_token_ids, *token) > 0) {
      answer.finish = FinishReason::kStop;
      answer.stop_token_id = *token;
      return answer;
    }
    FillLogits(history.Append(*token), logits.data());
  }
  if (deliver_scores) {
    answer.prompt_scores = std::move(scores);
    answer.has_prompt_scores = true;
  }
  answer.finish = FinishReason::kLength;
  return answer;
}

std::string Difference(const Answer& expected, const Answer& actual, bool prefix) {
  if (actual.has_prompt_scores != expected.has_prompt_scores &&
      !(prefix && !actual.has_prompt_scores)) {
    return actual.has_prompt_scores ? "prompt scores that nobody expected" : "no prompt scores";
  }
  if (actual.has_prompt_scores) {
    if (actual.prompt_scores.size() != expected.prompt_scores.size()) {
      return fmt::format("{} prompt scores, expected {}", actual.prompt_scores.size(),
                         expected.prompt_scores.size());
    }
    for (std::size_t i = 0; i < actual.prompt_scores.size(); ++i) {
      const PromptScore &a = actual.prompt_scores[i], &e = expected.prompt_scores[i];
      if (!SameBits(a.actual, e.actual) || !SameBits(a.top, e.top)) {
        return fmt::format(
            "prompt score {}: id {} logprob {} rank {}, expected id {} logprob {} rank {}", i + 1,
            a.actual.id, a.actual.logprob, a.actual.rank, e.actual.id, e.actual.logprob,
            e.actual.rank);
      }
    }
  }
  for (std::size_t i = 0; i < actual.tokens.size(); ++i) {
    if (i >= expected.tokens.size())
      return fmt::format("token {} ({}) after the end", i, actual.tokens[i]);
    if (actual.tokens[i] != expected.tokens[i]) {
      return fmt::format("token {} is {}, expected {}", i, actual.tokens[i], expected.tokens[i]);
    }
    const bool scored = i < expected.logprobs.size();
    if (scored != (i < actual.logprobs.size()))
      return fmt::format("token {}: logprob missing or unasked for", i);
    if (scored && (!SameBits(actual.logprobs[i], expected.logprobs[i]) ||
                   !SameBits(actual.tops[i], expected.tops[i]))) {
      return fmt::format("token {}: logprob {}, expected {}", i, actual.logprobs[i].logprob,
                         expected.logprobs[i].logprob);
    }
  }
  if (prefix) return "";
  if (actual.tokens.size() != expected.tokens.size()) {
    return fmt::format("{} tokens, expected {}", actual.tokens.size(), expected.tokens.size());
  }
  if (actual.finish != expected.finish) {
    return fmt::format("finish {}, expected {}",
                       actual.finish ? FinishReasonName(*actual.finish) : "missing",
                       FinishReasonName(*expected.finish));
  }
  if (actual.error != expected.error) return "another error code";
  if (actual.stop_token_id != expected.stop_token_id) {
    return fmt::format("stop id {}, expected {}", actual.stop_token_id, expected.stop_token_id);
  }
  return "";
}

}  // namespace isobit::sim
