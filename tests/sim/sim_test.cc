// The simulator's suite: many seeded worlds, small worlds enumerated, and the odd sizes at which
// paging breaks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "dice.h"
#include "hash_model.h"
#include "simulator.h"

namespace isobit::sim {
namespace {

// ISOBIT_SIM_SEED=17 repeats one world of a failure report.
std::optional<std::uint64_t> SeedFromEnvironment() {
  const char* text = std::getenv("ISOBIT_SIM_SEED");
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

class TraceFile {
 public:
  TraceFile()
      : path_(
            (std::filesystem::temp_directory_path() / fmt::format("isobit_sim_{}.trace", getpid()))
                .string()) {}
  ~TraceFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Sim, SeededWorlds) {
  const TraceFile trace;
  const auto only = SeedFromEnvironment();
  const std::uint64_t first = only.value_or(1), last = only.value_or(1200);
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    ASSERT_EQ(CheckSeed(seed, trace.path()), "") << "seed " << seed;
  }
}

// The scripts must reach what they are there for; a suite that stopped preempting would prove
// nothing.
TEST(Sim, SeededWorldsReachEveryPath) {
  EngineStats total;
  std::int64_t num_scored = 0, num_scored_tokens = 0, preempted_worlds = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const World world = MakeWorld(seed);
    const SimResult result = RunWorld(world);
    ASSERT_EQ(result.failure, "") << "seed " << seed;
    total.num_preemptions += result.stats.num_preemptions;
    total.prefix_hit_tokens += result.stats.prefix_hit_tokens;
    total.finished_stop += result.stats.finished_stop;
    total.finished_length += result.stats.finished_length;
    total.finished_cancelled += result.stats.finished_cancelled;
    total.finished_error += result.stats.finished_error;
    preempted_worlds += result.stats.num_preemptions > 0;
    for (const Answer& answer : result.answers) {
      num_scored += answer.has_prompt_scores;
      num_scored_tokens += static_cast<std::int64_t>(answer.prompt_scores.size());
    }
  }
  EXPECT_GT(total.num_preemptions, 150);
  EXPECT_GT(preempted_worlds, 50);
  EXPECT_GT(total.prefix_hit_tokens, 2000);
  EXPECT_GT(total.finished_stop, 200);
  EXPECT_GT(total.finished_length, 1000);
  EXPECT_GT(total.finished_cancelled, 100);
  EXPECT_GT(total.finished_error, 50);
  EXPECT_GT(num_scored, 300);
  EXPECT_GT(num_scored_tokens, 5000);
}

GenerationRequest Request(std::uint64_t seed, std::int64_t prompt_length,
                          std::int64_t max_new_tokens) {
  Dice dice(seed);
  GenerationRequest request;
  for (std::int64_t i = 0; i < prompt_length; ++i) {
    request.prompt_ids.push_back(static_cast<std::int32_t>(dice.Below(kNanToken)));
  }
  request.sampling.temperature = 0;
  request.max_new_tokens = max_new_tokens;
  request.num_logprobs = 1;
  return request;
}

World SmallWorld(std::int64_t num_blocks, std::int64_t prefill_chunk) {
  World world;
  world.limits = {.max_batch_tokens = 12,
                  .max_sequences = 3,
                  .max_logit_rows = 2,
                  .max_model_len = 32,
                  .num_blocks = num_blocks,
                  .block_size = 8};
  world.config = {.max_sequences = 3, .max_batch_tokens = 12, .prefill_chunk = prefill_chunk};
  return world;
}

// Three requests, two of them of one stream; every length around a block edge, arrival and
// cancellation, in pools that hold one to two of them at a time.
TEST(Sim, EverySmallWorld) {
  std::int64_t num_worlds = 0, num_preemptions = 0, num_hit_tokens = 0;
  for (const std::int64_t num_blocks : {4, 5, 6}) {
    for (const std::int64_t chunk : {3, 12}) {
      if (chunk == 3 && num_blocks != 5) continue;  // one size of pool is enough for short chunks
      for (int lengths = 0; lengths < 27; ++lengths) {
        for (int arrivals = 0; arrivals < 9; ++arrivals) {
          for (int cancels = 0; cancels < 27; ++cancels) {
            constexpr std::int64_t kLengths[] = {7, 9, 16};
            constexpr std::int64_t kArrivals[] = {0, 2, 5};
            constexpr std::int64_t kCancels[] = {kNever, 0, 6};  // after the arrival
            World world = SmallWorld(num_blocks, chunk);
            const int length_index[] = {lengths % 3, lengths / 3 % 3, lengths / 9};
            const int arrival_index[] = {0, arrivals % 3, arrivals / 3};
            const int cancel_index[] = {cancels % 3, cancels / 3 % 3, cancels / 9};
            for (int i = 0; i < 3; ++i) {
              ScriptedRequest scripted{.request =
                                           Request(1 + i % 2, kLengths[length_index[i]], 16)};
              scripted.arrival_step = kArrivals[arrival_index[i]];
              if (cancel_index[i] > 0)
                scripted.cancel_step = scripted.arrival_step + kCancels[cancel_index[i]];
              world.requests.push_back(std::move(scripted));
            }
            std::ranges::stable_sort(world.requests, {}, &ScriptedRequest::arrival_step);
            const SimResult result = RunWorld(world);
            ASSERT_EQ(result.failure, "")
                << fmt::format("blocks {} chunk {} lengths {} arrivals {} cancels {}\n{}",
                               num_blocks, chunk, lengths, arrivals, cancels, Describe(world));
            ++num_worlds;
            num_preemptions += result.stats.num_preemptions;
            num_hit_tokens += result.stats.prefix_hit_tokens;
          }
        }
      }
    }
  }
  EXPECT_EQ(num_worlds, 4 * 27 * 9 * 27);
  EXPECT_GT(num_preemptions, 2000);
  EXPECT_GT(num_hit_tokens, 10000);
}

// A prompt sent twice, at every residue of the block size: cold and warm answer alike, and the hit
// is what the grid allows.
TEST(Sim, WarmEqualsColdAtEveryResidue) {
  for (const std::int64_t block_size : {8, 16, 32}) {
    for (std::int64_t length = 1; length <= 2 * block_size + 1; ++length) {
      World world;
      world.limits = {.max_batch_tokens = 64,
                      .max_sequences = 2,
                      .max_logit_rows = 4,
                      .max_model_len = 128,
                      .num_blocks = 128 / block_size,
                      .block_size = block_size};
      world.config = {.max_sequences = 2, .max_batch_tokens = 64, .prefill_chunk = 64};
      world.requests = {{.request = Request(7, length, 4)},
                        {.request = Request(7, length, 4), .arrival_step = 20}};
      const SimResult result = RunWorld(world);
      ASSERT_EQ(result.failure, "") << block_size << " " << length;
      EXPECT_EQ(result.answers[0].tokens, result.answers[1].tokens);
      EXPECT_EQ(result.stats.prefix_hit_tokens, (length - 1) / block_size * block_size)
          << block_size << " " << length;
    }
  }
}

// Scoring across chunk edges and logit slices equals scoring in one pass.
TEST(Sim, PromptScoresDoNotDependOnChunks) {
  for (const std::int64_t chunk : {1, 7, 64, 512}) {
    for (const std::int64_t logit_rows : {1, 3, 64}) {
      World world;
      world.limits = {.max_batch_tokens = 512,
                      .max_sequences = 3,
                      .max_logit_rows = logit_rows,
                      .max_model_len = 320,
                      .num_blocks = 30,
                      .block_size = 16};
      world.config = {.max_sequences = 3, .max_batch_tokens = 512, .prefill_chunk = chunk};
      for (const std::int64_t length : {1, 2, 65, 257}) {
        ScriptedRequest scripted{.request = Request(3, length, length % 2)};
        scripted.request.num_prompt_logprobs = 2;
        world.requests.push_back(scripted);
      }
      const SimResult result = RunWorld(world);
      ASSERT_EQ(result.failure, "") << chunk << " " << logit_rows;
      EXPECT_EQ(result.answers[3].prompt_scores.size(), 256u);
      EXPECT_TRUE(result.answers[0].has_prompt_scores && result.answers[0].prompt_scores.empty());
    }
  }
}

// A stream of later arrivals that decode in every row must not hold up the first request's prefill.
TEST(Sim, TheFirstRequestAdvancesInEveryStep) {
  World world;
  world.limits = {.max_batch_tokens = 4,
                  .max_sequences = 6,
                  .max_logit_rows = 4,
                  .max_model_len = 64,
                  .num_blocks = 48,
                  .block_size = 8};
  world.config = {.max_sequences = 6, .max_batch_tokens = 4, .prefill_chunk = 1};
  world.requests.push_back({.request = Request(1, 60, 1)});
  for (int i = 0; i < 30; ++i) world.requests.push_back({.request = Request(100 + i, 1, 60)});
  const SimResult result = RunWorld(world, {.print_steps = true});
  ASSERT_EQ(result.failure, "");
  // 60 rows of one token: it ends in step 59, whoever else decodes.
  const std::size_t end = result.log.find("request 1 ends");
  ASSERT_NE(end, std::string::npos);
  EXPECT_LT(result.log.find("step  59:"), end);
  EXPECT_GT(result.log.find("step  60:"), end);
}

// The same seed is the same run, down to the block ids.
TEST(Sim, ReplaysExactly) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SimResult a = RunWorld(MakeWorld(seed), {.print_steps = true});
    const SimResult b = RunWorld(MakeWorld(seed), {.print_steps = true});
    EXPECT_FALSE(a.log.empty());
    EXPECT_EQ(a.log, b.log);
  }
}

}  // namespace
}  // namespace isobit::sim
