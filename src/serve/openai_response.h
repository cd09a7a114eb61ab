// The shapes of OpenAI's answers: choices of completions and chat, whole and streamed, log-probabilities, usage. One choice object is
// written by one function from one ChoicePart, be it a whole answer or a chunk, so that the two cannot drift apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "serve/json_writer.h"
#include "serve/openai_request.h"
#include "tokenizer/tokenizer.h"

namespace isobit {

// A token of an answer (or of its echoed prompt) with what is reported of it.
struct ScoredToken {
  std::int32_t id = 0;
  bool scored = true;             // false: the first token of a prompt, which nothing precedes
  bool shown = true;              // false: its bytes are not part of the text (a skipped control token)
  float logprob = 0;
  std::vector<TokenLogprob> top;  // best first
  std::int64_t text_offset = 0;   // code points into the choice's text at which the token's text begins
};

struct AnswerFormat {
  bool chat = false;
  bool stream = false;
  std::int32_t logprobs = -1;         // alternatives to each token; -1: none
  std::int32_t prompt_logprobs = -1;
  bool return_token_ids = false;
  bool tokens_as_ids = false;
};

// A choice, or the part of it that one chunk carries.
struct ChoicePart {
  std::int64_t index = 0;
  bool first = true;                             // nothing of this choice was sent yet
  std::string text;
  std::vector<std::int32_t> token_ids;
  std::vector<ScoredToken> scores;               // of token_ids; completions with echo: the prompt's in front
  const char* finish_reason = nullptr;           // null: not yet
  std::optional<std::string> stop_string;        // stop_reason: what ended the choice, null for EOS and length
  std::optional<std::int32_t> stop_token_id;
  const std::vector<std::int32_t>* prompt_ids = nullptr;
  const std::vector<PromptScore>* prompt_scores = nullptr;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = -1;  // -1: not known yet
};

void WriteChoice(const AnswerFormat& format, const Tokenizer& tokenizer, const ChoicePart& part, JsonWriter& json);
void WriteUsage(const Usage& usage, JsonWriter& json);

// {tokens, token_logprobs, top_logprobs, text_offset}: the legacy shape. top_logprobs holds the n best and the token itself; where two
// ids have one text the larger value stays.
void WriteCompletionLogprobs(const AnswerFormat& format, const Tokenizer& tokenizer, const std::vector<ScoredToken>& scores,
                             JsonWriter& json);
// {content: [{token, logprob, bytes, top_logprobs}]}
void WriteChatLogprobs(const AnswerFormat& format, const Tokenizer& tokenizer, const std::vector<ScoredToken>& scores, JsonWriter& json);
// [null, {"<id>": {logprob, rank, decoded_token}}, ...], the prompt's own token first.
void WritePromptLogprobs(const AnswerFormat& format, const Tokenizer& tokenizer, const std::vector<PromptScore>& scores,
                         JsonWriter& json);

// A log-probability as JSON may carry it: what is not finite is written as -9999.0.
float ReportedLogprob(float logprob);

// What the sampler really used, after every default: for return_sampling_params.
struct EffectiveSampling {
  const ApiRequest& request;
  std::uint64_t seed = 0;
  std::int64_t max_tokens = 0;
  const std::vector<std::int32_t>& stop_token_ids;  // the client's and EOS
};
void WriteEffectiveSampling(const EffectiveSampling& effective, JsonWriter& json);

}  // namespace isobit
