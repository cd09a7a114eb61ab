#include "simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "engine/inbox.h"
#include "engine/step.h"
#include "engine/validate.h"
#include "hash_model.h"

namespace isobit::sim {
namespace {

// One client: what it saw, and what was wrong with how it was told.
struct Client {
  RequestId id = 0;
  Answer answer;
  std::int64_t num_events = 0;
  std::int64_t cached_tokens = 0;
  bool threw = false;
  std::string failure;
};

void Listen(Client& client, const ScriptedRequest& scripted, EngineEvent event) {
  if (client.num_events++ == scripted.throw_at_event) {
    client.threw = true;
    throw std::runtime_error("the client left");
  }
  Answer& answer = client.answer;
  if (event.id != client.id) client.failure = fmt::format("an event of request {}", event.id);
  if (answer.finish) client.failure = "an event after the finish";
  if (event.has_prompt_scores) {
    if (answer.has_prompt_scores || !answer.tokens.empty())
      client.failure = "prompt scores twice or too late";
    answer.has_prompt_scores = true;
    answer.prompt_scores = std::move(event.prompt_scores);
  } else if (event.token) {
    answer.tokens.push_back(*event.token);
    if (event.logprob) {
      answer.logprobs.push_back(*event.logprob);
      answer.tops.push_back(std::move(event.top));
    }
  } else if (event.finish) {
    answer.finish = event.finish;
    answer.stop_token_id = event.stop_token_id;
    if (event.error) answer.error = event.error->code;
    client.cached_tokens = event.cached_tokens;
  } else {
    client.failure = "an empty event";
  }
}

class Run {
 public:
  Run(const World& world, const SimOptions& options)
      : world_(world),
        options_(options),
        model_(world.limits),
        inbox_(world.config.max_queue),
        recorder_(OpenTrace(options)),
        loop_(world.config, model_, clock_, recorder_.get(), inbox_),
        clients_(world.requests.size()) {}

  SimResult Result() {
    std::string failure = Drive();
    if (failure.empty()) failure = CheckEnd();
    if (failure.empty() && recorder_ != nullptr) failure = CheckTrace();
    SimResult result{.failure = std::move(failure),
                     .log = std::move(log_),
                     .num_steps = step_,
                     .stats = loop_.Stats()};
    for (Client& client : clients_) result.answers.push_back(std::move(client.answer));
    return result;
  }

 private:
  static std::unique_ptr<TraceRecorder> OpenTrace(const SimOptions& options) {
    if (options.trace_path.empty()) return nullptr;
    return std::move(TraceRecorder::Open(options.trace_path, Json{{"test", "sim"}}).value());
  }

  std::string Drive() {
    const std::int64_t max_steps = MaxSteps();
    for (std::size_t next = 0; next < clients_.size() || num_open() > 0; ++step_) {
      // Starvation shows as a run without end.
      if (step_ > max_steps)
        return fmt::format("{} requests are unfinished after {} steps", num_open(), step_);
      for (; next < clients_.size() && world_.requests[next].arrival_step <= step_; ++next)
        Submit(next);
      CancelWhatIsDue();
      clock_.Advance(1'000'000);
      loop_.Step();
      if (options_.print_steps) LogStep();
      if (std::string failure = CheckStep(); !failure.empty()) {
        return fmt::format("step {}: {}", step_, failure);
      }
      const BlockPool& pool = loop_.state().cache.pool();
      for (BlockId block = 0; block < pool.num_blocks(); ++block) {
        if (pool.IsFree(block)) model_.PoisonBlock(block);
      }
    }
    return "";
  }

  // The first in the house gets a row in every step, so each request needs at most as many steps as
  // it has tokens once it is first.
  std::int64_t MaxSteps() const {
    std::int64_t count = 2;
    for (const ScriptedRequest& scripted : world_.requests) {
      count += static_cast<std::int64_t>(scripted.request.prompt_ids.size()) +
               scripted.request.max_new_tokens + 1;
    }
    return count + world_.requests.back().arrival_step;
  }

  std::int64_t num_open() const {
    return std::ranges::count_if(clients_, [](const Client& c) { return c.id != 0 && !IsDone(c); });
  }
  static bool IsDone(const Client& client) { return client.answer.finish || client.threw; }

  void Submit(std::size_t index) {
    const ScriptedRequest& scripted = world_.requests[index];
    const Status status = ValidateRequest(scripted.request, kVocabSize, world_.limits);
    ISOBIT_CHECK(status.ok(), "the script is invalid: {}", status.error().ToString());
    Client& client = clients_[index];
    const EventSink sink = [&client, &scripted](EngineEvent event) {
      Listen(client, scripted, std::move(event));
    };
    client.id = inbox_.Push(scripted.request, sink).value();
    index_of_[client.id] = index;
  }

  void CancelWhatIsDue() {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (world_.requests[i].cancel_step == step_) inbox_.Cancel(clients_[i].id);
    }
    if (std::ranges::count(world_.clear_cache_steps, step_) > 0) inbox_.ClearPrefixCache();
  }

  void LogStep() {
    const EngineStats stats = loop_.Stats();
    log_ += fmt::format(
        "step {:3}: {} running, {} waiting, blocks {} free {} kept of {}, {} preemptions so far\n",
        step_, stats.num_running, stats.num_waiting, stats.num_free_blocks, stats.num_cached_blocks,
        stats.num_blocks, stats.num_preemptions);
    for (const auto& [id, sequence] : loop_.state().sequences) {
      log_ += fmt::format("  request {}: {} {}/{} computed, {} generated, blocks [{}]\n", id,
                          sequence.running ? "runs" : "waits", sequence.num_computed,
                          sequence.length(), sequence.length() - sequence.prompt_length,
                          fmt::join(sequence.table.blocks, " "));
    }
    for (Client& client : clients_) {
      if (IsDone(client) && index_of_.erase(client.id) > 0) {
        const Answer& answer = client.answer;
        log_ +=
            fmt::format("  request {} ends: {}, {} tokens [{}], {} cached\n", client.id,
                        answer.finish ? FinishReasonName(*answer.finish) : "its sink threw",
                        answer.tokens.size(), fmt::join(answer.tokens, " "), client.cached_tokens);
      }
    }
  }

  // The bookkeeping, counted anew from the tables.
  std::string CheckStep() const {
    const ScheduleState& state = loop_.state();
    const BlockPool& pool = state.cache.pool();
    std::vector<std::int64_t> num_owners(static_cast<std::size_t>(pool.num_blocks()));
    bool waiting_seen = false;
    for (const auto& [id, sequence] : state.sequences) {
      if (sequence.running && waiting_seen)
        return fmt::format("request {} overtook a waiting one", id);
      waiting_seen = waiting_seen || !sequence.running;
      if (!sequence.running && (!sequence.table.blocks.empty() || sequence.num_computed != 0)) {
        return fmt::format("request {} waits and holds blocks", id);
      }
      if (NumBlocksFor(sequence.num_computed, state.cache.block_size()) >
          sequence.table.num_blocks()) {
        return fmt::format("request {} has computed more than its blocks hold", id);
      }
      for (std::int64_t i = 0; i < sequence.table.num_blocks(); ++i) {
        const BlockId block = sequence.table.blocks[i];
        ++num_owners[block];
        if (pool.num_owners(block) > 1 &&
            (i + 1) * state.cache.block_size() > sequence.num_computed) {
          return fmt::format("request {} shares block {} and is going to write it", id, block);
        }
      }
    }
    std::int64_t num_indexed = 0;
    for (BlockId block = 0; block < pool.num_blocks(); ++block) {
      const bool indexed = state.cache.index().Contains(block);
      num_indexed += indexed;
      if (num_owners[block] != pool.num_owners(block)) {
        return fmt::format("block {} is in {} tables and has {} owners", block, num_owners[block],
                           pool.num_owners(block));
      }
      if (num_owners[block] == 0 && pool.IsFree(block) == pool.IsKept(block)) {
        return fmt::format("block {} has no owner and must be free or kept", block);
      }
      if (num_owners[block] == 0 && pool.IsKept(block) != indexed) {
        return fmt::format("block {} is kept for nobody, or findable and free", block);
      }
    }
    if (num_indexed != state.cache.index().num_nodes())
      return "the index counts other blocks than it has";
    if (state.num_running() > world_.config.max_sequences) return "too many requests are running";
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (!clients_[i].failure.empty())
        return fmt::format("request {}: {}", i + 1, clients_[i].failure);
      if (clients_[i].id != 0 && world_.requests[i].cancel_step == step_ && !IsDone(clients_[i])) {
        return fmt::format("request {} outlived its cancellation", i + 1);
      }
    }
    return "";
  }

  std::string CheckEnd() const {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const Answer expected = Expect(world_.requests[i].request);
      const Answer& actual = clients_[i].answer;
      const bool cut = clients_[i].threw || actual.finish == FinishReason::kCancelled;
      if (cut && !clients_[i].threw && world_.requests[i].cancel_step == kNever) {
        return fmt::format("request {} was cancelled by nobody", i + 1);
      }
      if (std::string failure = Difference(expected, actual, cut); !failure.empty()) {
        return fmt::format("request {}: {}", i + 1, failure);
      }
      if (std::string failure = CheckCachedTokens(i); !failure.empty()) return failure;
    }
    return CheckStats();
  }

  // Cached tokens must be somebody's: of equal salt, arrived earlier, with these very tokens.
  std::string CheckCachedTokens(std::size_t index) const {
    const std::int64_t cached = clients_[index].cached_tokens;
    if (cached == 0) return "";
    const GenerationRequest& request = world_.requests[index].request;
    if (!world_.config.prefix_cache || !request.use_prefix_cache ||
        request.num_prompt_logprobs >= 0) {
      // A scored prompt of one token has no row to score, but then no whole block either.
      return fmt::format("request {} took {} tokens from a cache it must not use", index + 1,
                         cached);
    }
    if (cached >= static_cast<std::int64_t>(request.prompt_ids.size()) ||
        cached % world_.limits.block_size != 0) {
      return fmt::format("request {} took {} tokens: no whole blocks, or nothing left to compute",
                         index + 1, cached);
    }
    for (std::size_t i = 0; i < index; ++i) {
      const GenerationRequest& other = world_.requests[i].request;
      if (other.cache_salt != request.cache_salt || !other.use_prefix_cache) continue;
      std::vector<std::int32_t> tokens = other.prompt_ids;
      tokens.insert(tokens.end(), clients_[i].answer.tokens.begin(),
                    clients_[i].answer.tokens.end());
      const auto [mine, theirs] = std::ranges::mismatch(request.prompt_ids, tokens);
      if (mine - request.prompt_ids.begin() >= cached) return "";
    }
    return fmt::format("request {} took {} cached tokens that nobody of its salt computed",
                       index + 1, cached);
  }

  std::string CheckStats() const {
    const EngineStats stats = loop_.Stats();
    std::int64_t num_tokens = 0, num_prompt_tokens = 0, num_cached = 0, num_cut = 0;
    std::map<FinishReason, std::int64_t> finishes;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      num_cut += clients_[i].threw;
      num_tokens += static_cast<std::int64_t>(clients_[i].answer.tokens.size());
      num_prompt_tokens += static_cast<std::int64_t>(world_.requests[i].request.prompt_ids.size());
      num_cached += clients_[i].cached_tokens;
      if (clients_[i].answer.finish) ++finishes[*clients_[i].answer.finish];
    }
    const std::int64_t num_finished = stats.finished_stop + stats.finished_length +
                                      stats.finished_cancelled + stats.finished_error;
    if (stats.num_running + stats.num_waiting != 0) return "stats: somebody is still in the house";
    if (stats.num_free_blocks + stats.num_cached_blocks != stats.num_blocks)
      return "stats: blocks are missing";
    if (num_finished != static_cast<std::int64_t>(clients_.size()))
      return "stats: finishes do not add up";
    if (stats.prompt_tokens != num_prompt_tokens) return "stats: prompt tokens do not add up";
    if (stats.prefix_hit_tokens > stats.prefix_query_tokens) return "stats: more hits than queries";
    if (num_cut > 0) return "";  // the rest was delivered to nobody
    if (stats.generated_tokens != num_tokens) return "stats: generated tokens do not add up";
    if (stats.prefix_hit_tokens != num_cached) return "stats: hits do not add up";
    if (stats.finished_stop != finishes[FinishReason::kStop] ||
        stats.finished_length != finishes[FinishReason::kLength] ||
        stats.finished_cancelled != finishes[FinishReason::kCancelled]) {
      return "stats: finishes are counted under other names";
    }
    return "";
  }

  // The trace tells the same story: rows without gaps, and the tokens that the clients got.
  std::string CheckTrace() {
    if (const Status status = recorder_->Close(); !status.ok()) return status.error().ToString();
    const isobit::Result<Trace> trace = ReadTrace(options_.trace_path);
    if (!trace.ok()) return trace.error().ToString();
    std::map<RequestId, std::int64_t> next_position;
    std::map<RequestId, std::vector<std::int32_t>> tokens;
    std::int64_t num_preempted = 0;
    for (const TraceStep& step : trace->steps) {
      for (const std::uint64_t id : step.preempted) next_position[id] = 0;
      num_preempted += static_cast<std::int64_t>(step.preempted.size());
      for (const TraceSegment& segment : step.segments) {
        std::int64_t& next = next_position[segment.request_id];
        if (segment.first_position != next + segment.num_cached_tokens) {
          return fmt::format("trace: step {} has a gap in request {}", step.step_index,
                             segment.request_id);
        }
        next = segment.first_position + segment.num_rows;
      }
      for (const auto& [id, token] : step.tokens) tokens[id].push_back(token);
    }
    if (num_preempted != loop_.Stats().num_preemptions) return "trace: preemptions do not add up";
    if (static_cast<std::int64_t>(trace->steps.size()) != loop_.Stats().num_steps)
      return "trace: steps are missing";
    for (const Client& client : clients_) {
      if (!client.threw && tokens[client.id] != client.answer.tokens) {
        return fmt::format("trace: other tokens of request {}", client.id);
      }
    }
    return "";
  }

  const World& world_;
  const SimOptions& options_;
  HashModel model_;
  ManualClock clock_;
  Inbox inbox_;
  std::unique_ptr<TraceRecorder> recorder_;
  StepLoop loop_;
  std::vector<Client> clients_;                // as world_.requests
  std::map<RequestId, std::size_t> index_of_;  // of clients whose end is not logged yet
  std::int64_t step_ = 0;
  std::string log_;
};

// The same request, nobody else, an engine of another size.
std::string CheckSolo(const World& world, const ScriptedRequest& scripted) {
  World solo;
  solo.limits = {.max_batch_tokens = 96,
                 .max_sequences = 1,
                 .max_logit_rows = 5,
                 .num_blocks = 0,
                 .block_size = 8};
  solo.limits.max_model_len = world.limits.max_model_len;
  solo.limits.num_blocks = NumBlocksFor(world.limits.max_model_len, solo.limits.block_size);
  solo.config = {
      .max_sequences = 1, .max_batch_tokens = 96, .prefill_chunk = 33, .prefix_cache = false};
  solo.requests = {{.request = scripted.request}};
  return RunWorld(solo).failure;
}

}  // namespace

SimResult RunWorld(const World& world, const SimOptions& options) {
  return Run(world, options).Result();
}

std::string CheckSeed(std::uint64_t seed, const std::string& trace_path) {
  const World world = MakeWorld(seed);
  std::string failure = RunWorld(world, {.trace_path = trace_path}).failure;
  for (std::size_t i = 0; failure.empty() && i < world.requests.size(); ++i) {
    failure = CheckSolo(world, world.requests[i]);
    if (!failure.empty()) failure = fmt::format("alone, {}", failure);
  }
  if (failure.empty()) return "";
  return fmt::format("{}\n{}repeat: ./dev sim {} --steps   (or ISOBIT_SIM_SEED={} on the test)\n",
                     failure, Describe(world), seed, seed);
}

}  // namespace isobit::sim
