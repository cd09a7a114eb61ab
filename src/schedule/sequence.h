// Sequence and ScheduleState: what the scheduler knows of the requests in the house.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kvcache/kv_cache.h"

namespace isobit {

struct Sequence {
  std::uint64_t id = 0;              // arrival number
  std::vector<std::int32_t> tokens;  // the prompt, then what was sampled
  std::int64_t prompt_length = 0;
  std::int64_t num_computed = 0;  // leading tokens whose KV is in the table's blocks
  bool generates = true;          // false: the prompt is only scored or cached
  bool scores_prompt = false;     // wants logits of the prompt's rows
  // Of rows 0 ... prompt_length - 2, how many are scored; survives preemption.
  std::int64_t num_scored = 0;
  bool uses_prefix_cache = true;
  std::string cache_salt;
  std::int64_t num_cached = 0;  // tokens taken from the prefix cache when it was admitted first
  bool was_admitted = false;    // at least once
  bool running = false;
  BlockTable table;

  std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
  // Rows until the next token can be sampled.
  std::int64_t num_remaining() const { return length() - num_computed; }

  // The row at this position must give logits: to score the prompt token behind it, or to sample.
  bool WantsLogits(std::int64_t position) const {
    if (position + 1 < prompt_length) return scores_prompt && position >= num_scored;
    return generates && position + 1 == length();
  }

  // Tokens that may come from the prefix cache: at least one row must be computed, and every row
  // that still needs logits.
  std::int64_t MaxCachedTokens() const {
    if (!uses_prefix_cache) return 0;
    const bool scoring = scores_prompt && num_scored + 1 < prompt_length;
    return scoring ? num_scored : length() - 1;
  }
};

struct ScheduleState {
  explicit ScheduleState(const KvCache::Config& config) : cache(config) {}

  KvCache cache;
  // By arrival. Admission is first come, first served, so the running ones are the first in this
  // order and the rest wait.
  std::map<std::uint64_t, Sequence> sequences;

  std::int64_t num_running() const {
    std::int64_t count = 0;
    for (auto it = sequences.begin(); it != sequences.end() && it->second.running; ++it) ++count;
    return count;
  }
};

}  // namespace isobit
