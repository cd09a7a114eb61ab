#include "gate/answer.h"

#include <algorithm>

#include "base/utf8.h"

namespace isobit::gate {
namespace {

constexpr std::size_t kMaxErrorBytes = 300;

std::string Digits(const RawJson& value) { return value.is_number() ? value.text : "null"; }

std::int64_t IntegerAt(const RawJson& object, std::string_view key, std::int64_t otherwise) {
  const RawJson* member = object.Find(key);
  return member == nullptr ? otherwise : member->Integer().value_or(otherwise);
}

void AppendIds(const RawJson* list, std::vector<std::int64_t>& ids) {
  if (list == nullptr || !list->is_array()) return;
  for (const RawJson& id : list->items) ids.push_back(id.Integer().value_or(-1));
}

// {tokens: [..], token_logprobs: [..], top_logprobs: [{text: value}, ..]}: OpenAI completions, vLLM, SGLang.
void AppendLegacyScores(const RawJson& logprobs, std::vector<Score>& scores) {
  const RawJson* values = logprobs.Find("token_logprobs");
  const RawJson* tokens = logprobs.Find("tokens");
  const RawJson* top = logprobs.Find("top_logprobs");
  if (values == nullptr || !values->is_array()) return;
  for (std::size_t i = 0; i < values->items.size(); ++i) {
    Score score;
    score.chosen.digits = Digits(values->items[i]);
    if (tokens != nullptr && i < tokens->items.size()) score.chosen.token = tokens->items[i].text;
    if (top != nullptr && i < top->items.size() && top->items[i].is_object()) {
      const RawJson& row = top->items[i];
      for (std::size_t k = 0; k < row.keys.size(); ++k) score.top.push_back({row.keys[k], Digits(row.items[k])});
    }
    scores.push_back(std::move(score));
  }
}

// A token's name in a content list: its id where the server gives one, for two ids may decode to one text.
std::string ContentToken(const RawJson& entry) {
  const RawJson* id = entry.Find("id");
  return id != nullptr && id->is_number() ? "id:" + id->text : entry.StringAt("token");
}

// [{token, logprob, bytes, top_logprobs: [{token, logprob}]}]: chat, and llama.cpp's completions.
void AppendContentScores(const RawJson& content, std::vector<Score>& scores) {
  for (const RawJson& entry : content.items) {
    const RawJson* value = entry.Find("logprob");
    if (value == nullptr) continue;
    Score score{{ContentToken(entry), Digits(*value)}, {}};
    if (const RawJson* top = entry.Find("top_logprobs"); top != nullptr && top->is_array()) {
      for (const RawJson& other : top->items) {
        const RawJson* other_value = other.Find("logprob");
        if (other_value != nullptr) score.top.push_back({ContentToken(other), Digits(*other_value)});
      }
    }
    scores.push_back(std::move(score));
  }
}

// [null, {"<id>": {logprob, ..}, ..}, ..]: the actual prompt token is the first key.
void AppendPromptScores(const RawJson* list, std::vector<Candidate>& scores) {
  if (list == nullptr || !list->is_array()) return;
  for (const RawJson& row : list->items) {
    if (!row.is_object() || row.keys.empty()) {
      scores.push_back({"", "null"});
      continue;
    }
    const RawJson* value = row.items[0].Find("logprob");
    scores.push_back({row.keys[0], value == nullptr ? "null" : Digits(*value)});
  }
}

}  // namespace

std::string ErrorMessage(std::string_view body) {
  std::string message;
  if (const auto parsed = ParseRawJson(body); parsed.ok()) {
    const RawJson* error = parsed->Find("error");
    if (error != nullptr && error->is_string()) message = error->text;
    if (message.empty() && error != nullptr) message = error->StringAt("message");
    if (message.empty()) message = parsed->StringAt("message");
    if (message.empty()) message = parsed->StringAt("detail");
  }
  if (message.empty()) message = std::string(body);
  message = ReplaceInvalidUtf8(message);
  std::replace_if(message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  if (message.size() > kMaxErrorBytes) {
    message.resize(kMaxErrorBytes);
    message.resize(CompleteUtf8Length(message));
    message += "...";
  }
  return message;
}

void AnswerReader::Fail(std::string why) {
  if (answer_.error.empty()) answer_.error = std::move(why);
}

void AnswerReader::Head(int status, bool event_stream) {
  status_ = status;
  event_stream_ = event_stream && status / 100 == 2;
  answer_.streamed = event_stream_;
}

void AnswerReader::Body(std::string_view bytes, std::int64_t at_nanos) {
  pending_ += bytes;
  if (!event_stream_) return;
  // An event ends at an empty line; lines end in \n or \r\n.
  std::size_t begin = 0;
  std::string data;
  bool has_data = false;
  std::size_t event_begin = 0;
  while (true) {
    const std::size_t end = pending_.find('\n', begin);
    if (end == std::string::npos) break;
    std::string_view line(pending_.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    if (line.empty()) {
      if (has_data) Event(data, at_nanos);
      data.clear();
      has_data = false;
      event_begin = begin;
    } else if (line.starts_with("data:")) {
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      if (has_data) data += '\n';
      data += line;
      has_data = true;
    }
  }
  pending_.erase(0, event_begin);
}

void AnswerReader::Event(std::string_view data, std::int64_t at_nanos) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const auto reply = ParseRawJson(data);
  if (!reply.ok()) return Fail("an event of the stream " + reply.error().message);
  Reply(*reply, at_nanos);
}

void AnswerReader::Reply(const RawJson& reply, std::int64_t at_nanos) {
  if (const RawJson* error = reply.Find("error"); error != nullptr && !error->is_null()) {
    return Fail("the server reported: " + (error->is_string() ? error->text : error->StringAt("message")));
  }
  if (const RawJson* usage = reply.Find("usage"); usage != nullptr && usage->is_object()) Usage(*usage);
  if (std::string fingerprint = reply.StringAt("system_fingerprint"); !fingerprint.empty()) {
    answer_.fingerprint = std::move(fingerprint);
  }
  AppendIds(reply.Find("prompt_token_ids"), answer_.prompt_ids);
  AppendPromptScores(reply.Find("prompt_logprobs"), answer_.prompt_scores);
  bool has_token = false;
  if (const RawJson* choices = reply.Find("choices"); choices != nullptr && choices->is_array() && !choices->items.empty()) {
    Choice(choices->items[0], &has_token);
  }
  if (has_token) answer_.token_nanos.push_back(at_nanos);
}

void AnswerReader::Choice(const RawJson& choice, bool* has_token) {
  const std::size_t text_before = answer_.text.size(), ids_before = answer_.ids.size(), scores_before = answer_.scores.size();
  answer_.text += choice.StringAt("text");
  for (const char* part : {"delta", "message"}) {
    const RawJson* message = choice.Find(part);
    if (message == nullptr) continue;
    answer_.text += message->StringAt("reasoning");
    answer_.text += message->StringAt("reasoning_content");
    answer_.text += message->StringAt("content");
  }
  AppendIds(choice.Find("token_ids"), answer_.ids);
  AppendIds(choice.Find("prompt_token_ids"), answer_.prompt_ids);
  AppendPromptScores(choice.Find("prompt_logprobs"), answer_.prompt_scores);
  if (const RawJson* logprobs = choice.Find("logprobs"); logprobs != nullptr && logprobs->is_object()) {
    const RawJson* content = logprobs->Find("content");
    if (content != nullptr && content->is_array()) AppendContentScores(*content, answer_.scores);
    else AppendLegacyScores(*logprobs, answer_.scores);
  }
  if (std::string reason = choice.StringAt("finish_reason"); !reason.empty()) answer_.finish_reason = std::move(reason);
  *has_token = answer_.text.size() > text_before || answer_.ids.size() > ids_before || answer_.scores.size() > scores_before;
}

void AnswerReader::Usage(const RawJson& usage) {
  answer_.prompt_tokens = IntegerAt(usage, "prompt_tokens", answer_.prompt_tokens);
  answer_.completion_tokens = IntegerAt(usage, "completion_tokens", answer_.completion_tokens);
  if (const RawJson* details = usage.Find("prompt_tokens_details"); details != nullptr && details->is_object()) {
    answer_.cached_tokens = IntegerAt(*details, "cached_tokens", answer_.cached_tokens);
  }
}

void AnswerReader::End(std::int64_t at_nanos) {
  answer_.finished_nanos = at_nanos;
  if (status_ / 100 != 2) return Fail(fmt::format("HTTP {}: {}", status_, ErrorMessage(pending_)));
  if (!event_stream_) {
    const auto reply = ParseRawJson(pending_);
    if (!reply.ok()) return Fail("the reply " + reply.error().message);
    Reply(*reply, at_nanos);
  }
  // A stream that simply stops looks like a short answer; only these two say that it is whole.
  if (answer_.finish_reason.empty() && !done_) Fail("the answer ends without a finish_reason");
}

void AnswerReader::Broke(std::string_view why, std::int64_t at_nanos) {
  answer_.finished_nanos = at_nanos;
  Fail(fmt::format("{} ({} tokens had come)", why, answer_.token_nanos.size()));
}

}  // namespace isobit::gate
