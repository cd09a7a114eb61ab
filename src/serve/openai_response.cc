#include "serve/openai_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace isobit {
namespace {

std::string TokenText(const AnswerFormat& format, const Tokenizer& tokenizer, std::int32_t id) {
  if (format.tokens_as_ids) return fmt::format("token_id:{}", id);
  return ReplaceInvalidUtf8(tokenizer.TokenBytes(id));
}

std::size_t NumTop(const std::vector<TokenLogprob>& top, std::int32_t wanted) {
  return std::min(top.size(), static_cast<std::size_t>(std::max(wanted, 0)));
}

void WriteIds(const std::vector<std::int32_t>& ids, JsonWriter& json) {
  json.BeginArray();
  for (const std::int32_t id : ids) json.Int(id);
  json.EndArray();
}

void WriteBytes(const std::string& bytes, JsonWriter& json) {
  json.BeginArray();
  for (const char c : bytes) json.Int(static_cast<unsigned char>(c));
  json.EndArray();
}

void WriteStopReason(const ChoicePart& part, JsonWriter& json) {
  json.Key("stop_reason");
  if (part.stop_string) json.String(*part.stop_string);
  else if (part.stop_token_id) json.Int(*part.stop_token_id);
  else json.Null();
}

// The object of one token's alternatives by text: insertion order kept, the larger of two values for one text.
void WriteTopByText(const AnswerFormat& format, const Tokenizer& tokenizer, const ScoredToken& token, JsonWriter& json) {
  std::vector<std::pair<std::string, float>> entries;
  const auto add = [&](std::int32_t id, float logprob) {
    std::string text = TokenText(format, tokenizer, id);
    const auto known = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.first == text; });
    if (known == entries.end()) entries.emplace_back(std::move(text), logprob);
    else known->second = std::max(known->second, logprob);
  };
  for (std::size_t i = 0; i < NumTop(token.top, format.logprobs); ++i) add(token.top[i].id, ReportedLogprob(token.top[i].logprob));
  add(token.id, ReportedLogprob(token.logprob));
  json.BeginObject();
  for (const auto& [text, logprob] : entries) json.Key(text).Float(logprob);
  json.EndObject();
}

void WriteMessage(const AnswerFormat& format, const ChoicePart& part, JsonWriter& json) {
  if (!format.stream) {
    json.Key("message").BeginObject();
    json.Key("role").String("assistant").Key("content").String(part.text).Key("refusal").Null();
    json.EndObject();
    return;
  }
  json.Key("delta").BeginObject();
  if (part.first) json.Key("role").String("assistant");
  if (part.first || !part.text.empty() || part.finish_reason == nullptr) json.Key("content").String(part.text);
  json.EndObject();
}

}  // namespace

float ReportedLogprob(float logprob) { return std::isfinite(logprob) ? logprob : -9999.0f; }

void WriteCompletionLogprobs(const AnswerFormat& format, const Tokenizer& tokenizer, const std::vector<ScoredToken>& scores,
                             JsonWriter& json) {
  json.BeginObject().Key("tokens").BeginArray();
  for (const ScoredToken& token : scores) json.String(TokenText(format, tokenizer, token.id));
  json.EndArray().Key("token_logprobs").BeginArray();
  for (const ScoredToken& token : scores) {
    if (token.scored) json.Float(ReportedLogprob(token.logprob));
    else json.Null();
  }
  json.EndArray().Key("top_logprobs").BeginArray();
  for (const ScoredToken& token : scores) {
    if (token.scored) WriteTopByText(format, tokenizer, token, json);
    else json.Null();
  }
  json.EndArray().Key("text_offset").BeginArray();
  for (const ScoredToken& token : scores) json.Int(token.text_offset);
  json.EndArray().EndObject();
}

void WriteChatLogprobs(const AnswerFormat& format, const Tokenizer& tokenizer, const std::vector<ScoredToken>& scores, JsonWriter& json) {
  const auto write_entry = [&](std::int32_t id, float logprob, bool shown) {
    json.Key("token").String(TokenText(format, tokenizer, id)).Key("logprob").Float(ReportedLogprob(logprob)).Key("bytes");
    // Joined over the answer these are the text's bytes: what the text does not show has none.
    WriteBytes(shown ? tokenizer.TokenBytes(id) : std::string(), json);
  };
  json.BeginObject().Key("content").BeginArray();
  for (const ScoredToken& token : scores) {
    json.BeginObject();
    write_entry(token.id, token.logprob, token.shown);
    json.Key("top_logprobs").BeginArray();
    for (std::size_t i = 0; i < NumTop(token.top, format.logprobs); ++i) {
      json.BeginObject();
      write_entry(token.top[i].id, token.top[i].logprob, true);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("refusal").Null().EndObject();
}

void WritePromptLogprobs(const AnswerFormat& format, const Tokenizer& tokenizer, const std::vector<PromptScore>& scores,
                         JsonWriter& json) {
  const auto write_entry = [&](const TokenLogprob& token) {
    json.Key(fmt::format("{}", token.id)).BeginObject();
    json.Key("logprob").Float(ReportedLogprob(token.logprob)).Key("rank").Int(token.rank);
    json.Key("decoded_token").String(ReplaceInvalidUtf8(tokenizer.TokenBytes(token.id))).EndObject();
  };
  json.BeginArray().Null();
  for (const PromptScore& score : scores) {
    json.BeginObject();
    write_entry(score.actual);
    for (std::size_t i = 0; i < NumTop(score.top, format.prompt_logprobs); ++i) {
      if (score.top[i].id != score.actual.id) write_entry(score.top[i]);
    }
    json.EndObject();
  }
  json.EndArray();
}

void WriteChoice(const AnswerFormat& format, const Tokenizer& tokenizer, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("index").Int(part.index);
  if (format.chat) WriteMessage(format, part, json);
  else json.Key("text").String(part.text);
  json.Key("logprobs");
  if (format.logprobs < 0) json.Null();
  else if (format.chat) WriteChatLogprobs(format, tokenizer, part.scores, json);
  else WriteCompletionLogprobs(format, tokenizer, part.scores, json);
  json.Key("finish_reason");
  if (part.finish_reason != nullptr) json.String(part.finish_reason);
  else json.Null();
  WriteStopReason(part, json);
  if (!format.chat && part.prompt_scores != nullptr && format.prompt_logprobs >= 0) {
    json.Key("prompt_logprobs");
    WritePromptLogprobs(format, tokenizer, *part.prompt_scores, json);
  }
  if (format.return_token_ids) {
    if (!format.chat && part.first && part.prompt_ids != nullptr) {
      json.Key("prompt_token_ids");
      WriteIds(*part.prompt_ids, json);
    }
    json.Key("token_ids");
    WriteIds(part.token_ids, json);
  }
  json.EndObject();
}

void WriteUsage(const Usage& usage, JsonWriter& json) {
  json.BeginObject().Key("prompt_tokens").Int(usage.prompt_tokens).Key("completion_tokens").Int(usage.completion_tokens);
  json.Key("total_tokens").Int(usage.prompt_tokens + usage.completion_tokens);
  if (usage.cached_tokens >= 0) {
    json.Key("prompt_tokens_details").BeginObject().Key("cached_tokens").Int(usage.cached_tokens).EndObject();
    json.Key("completion_tokens_details").BeginObject().Key("reasoning_tokens").Int(0).EndObject();
  }
  json.EndObject();
}

void WriteEffectiveSampling(const EffectiveSampling& effective, JsonWriter& json) {
  const SamplingParams& sampling = effective.request.sampling;
  json.BeginObject();
  json.Key("temperature").Float(sampling.temperature).Key("top_p").Float(sampling.top_p).Key("top_k").Int(sampling.top_k);
  json.Key("min_p").Float(sampling.min_p).Key("repetition_penalty").Float(sampling.repetition_penalty);
  json.Key("frequency_penalty").Float(sampling.frequency_penalty).Key("presence_penalty").Float(sampling.presence_penalty);
  json.Key("logit_bias").BeginObject();
  for (const auto& [id, bias] : sampling.logit_bias) json.Key(fmt::format("{}", id)).Float(bias);
  json.EndObject().Key("allowed_token_ids");
  if (sampling.allowed_token_ids.empty()) json.Null();
  else WriteIds(sampling.allowed_token_ids, json);
  json.Key("seed").Uint(effective.seed).Key("n").Int(effective.request.n).Key("max_tokens").Int(effective.max_tokens);
  json.Key("min_tokens").Int(effective.request.min_tokens).Key("ignore_eos").Bool(effective.request.ignore_eos);
  json.Key("stop").BeginArray();
  for (const std::string& stop : effective.request.stop) json.String(stop);
  json.EndArray().Key("stop_token_ids");
  WriteIds(effective.stop_token_ids, json);
  json.Key("include_stop_str_in_output").Bool(effective.request.include_stop_str_in_output);
  json.Key("skip_special_tokens").Bool(effective.request.skip_special_tokens).Key("determinism").String("strict").EndObject();
}

}  // namespace isobit
