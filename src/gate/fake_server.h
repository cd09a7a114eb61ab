// FakeServer: a small OpenAI-compatible server for the gate's tests, honest by default and faulty on request. Its "model" is a hash
// of the history, so every fault below is the only thing that can change an answer. Compiled into the tests only.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gate/raw_json.h"

namespace isobit::gate {

struct FakeBehaviour {
  enum class Fault {
    kNone,
    kBatchDigits,      // log-probabilities move in the last digits while others run
    kBatchTokens,      // another token while others run
    kBatchNearTies,    // another token while others run, only where the best two nearly tie
    kJoinDigits,       // digits move once somebody joins while we are past the fourth token
    kCancelDigits,     // digits move for everybody running when somebody's connection breaks
    kRepeatTokens,     // every second ask of a prompt answers otherwise
    kCacheDigits,      // digits move when the prompt's start came from the cache
    kCacheEdgeDigits,  // likewise, only when exactly one block of 16 was cached
    kScoreDigits,      // scoring a prompt gives other digits than generating it
    kPlainTokens,      // another token while others run, only for requests that ask for no log-probabilities
    kLeak,             // while others run, some of a neighbour's prompt appears in the text
    kBatchErrors,      // HTTP 500 while others run
    kDisconnects,      // the connection closes after a few tokens while others run
    kConstant,         // the same answer to everything
  };
  Fault fault = Fault::kNone;
  bool serialise = false;         // one answer after the other
  bool early_chunk = false;       // an event with a token for everybody at once, before the queue
  bool stream = true;
  bool chunked = true;            // false: the stream ends with the connection
  bool token_ids = true, logprobs = true, content_list = false, echo = true, prompt_logprobs = true, takes_ids = true;
  bool seeds = true, salts = true, cache = true, usage = true, gauge = true, completions = true;
  std::int64_t cached_tokens_lie = -1;  // >= 0: always reported
  std::set<std::string> refused;  // fields that get a 422
  bool wants_minus_one = false;   // top_k 0 gets a 422
  std::string api_key;
  std::int64_t token_micros = 400;
  std::int64_t prefill_micros = 5;  // per prompt token that is not cached
};

class FakeServer {
 public:
  explicit FakeServer(FakeBehaviour behaviour);
  ~FakeServer();

  std::string url() const;
  std::int64_t num_requests() const { return num_requests_; }
  std::vector<std::string> bodies() const;  // of every question, in order of arrival

 private:
  struct Running;
  struct Reply;
  void Accept();
  void Serve(int fd);
  void Answer(int fd, const RawJson& body, bool chat);
  void Generate(int fd, const RawJson& body, bool chat, const std::vector<std::int64_t>& prompt, Running& self);

  const FakeBehaviour behaviour_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> num_requests_ = 0, draws_ = 0;
  mutable std::mutex mutex_;  // of everything below
  std::mutex turn_;           // held while one answer is made, with serialise
  std::list<Running*> running_;
  std::map<std::string, std::int64_t> asks_;                       // per prompt text
  std::map<std::string, std::set<std::uint64_t>> cached_blocks_;  // per salt: hashes of prefixes of whole blocks
  std::vector<std::string> bodies_;
  std::vector<std::thread> threads_;
};

}  // namespace isobit::gate
