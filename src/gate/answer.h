// Answer: everything the gate keeps of one reply: ids, digits, bytes, and when each piece arrived.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gate/raw_json.h"

namespace isobit::gate {

struct Candidate {
  std::string token;   // as the server names it
  std::string digits;  // the JSON text of its log-probability; "null" where there is none
  bool operator==(const Candidate&) const = default;
};

// The log-probability of one position.
struct Score {
  Candidate chosen;
  std::vector<Candidate> top;  // in the server's order
  bool operator==(const Score&) const = default;
};

struct Answer {
  std::string error;                     // empty: complete. Else what went wrong; the rest holds what came before
  bool cancelled = false;                // by the gate itself
  std::string text;
  std::vector<std::int64_t> ids;         // generated; empty if the server gives none
  std::vector<Score> scores;             // generated, or prompt + generated with echo; empty if the server gives none
  std::vector<std::int64_t> prompt_ids;
  std::vector<Candidate> prompt_scores;  // prompt_logprobs: the actual token of each position; the first is "null"
  std::string finish_reason;
  std::int64_t prompt_tokens = -1;       // -1: the server does not say
  std::int64_t completion_tokens = -1;
  std::int64_t cached_tokens = -1;       // the server's own word; arms.cc says what it takes to count
  std::string fingerprint;
  bool streamed = false;
  std::int64_t started_nanos = 0;        // when the request was handed to the socket
  std::int64_t finished_nanos = 0;
  std::vector<std::int64_t> token_nanos; // arrival of every event that carried a token, ascending
  std::string request_sha256;            // of the body's bytes as sent
  std::string question_sha256;           // of the same without cache_salt: equal for the same question in every arm

  bool ok() const { return error.empty() && !cancelled; }
  std::size_t positions() const { return ids.empty() ? scores.size() : ids.size(); }
  // Request to first token; -1 if there was none.
  std::int64_t first_token_nanos() const { return token_nanos.empty() ? -1 : token_nanos.front() - started_nanos; }
};

// Builds an Answer from the bytes of one reply, streamed or whole, completions or chat, legacy log-probability arrays or a
// `content` list, whichever the server sends.
class AnswerReader {
 public:
  void Head(int status, bool event_stream);
  void Body(std::string_view bytes, std::int64_t at_nanos);
  void End(std::int64_t at_nanos);                    // the reply is complete
  void Broke(std::string_view why, std::int64_t at_nanos);  // it never will be
  Answer& answer() { return answer_; }

 private:
  void Event(std::string_view data, std::int64_t at_nanos);
  void Reply(const RawJson& reply, std::int64_t at_nanos);
  void Choice(const RawJson& choice, bool* has_token);
  void Usage(const RawJson& usage);
  void Fail(std::string why);

  Answer answer_;
  int status_ = 0;
  bool event_stream_ = false;
  bool done_ = false;      // data: [DONE] was seen
  std::string pending_;    // bytes of an unfinished event, or the whole body when it is no stream
};

// The message of an error body in the OpenAI, vLLM, SGLang or FastAPI shape; else the start of the body.
std::string ErrorMessage(std::string_view body);

}  // namespace isobit::gate
