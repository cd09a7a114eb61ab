// Requests in company against the same requests alone, through the real engine and a real transformer: tokens and the bits of every
// log-probability. And generation against scoring.
#include <gtest/gtest.h>

#include <map>

#include "base/clock.h"
#include "base/random.h"
#include "contract/float_bits.h"
#include "engine/engine.h"
#include "tiny_model.h"

namespace isobit {
namespace {

using contract::BitsOf;
using contract::Preset;

struct Answer {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> logprobs;         // bits
  std::vector<std::uint32_t> prompt_logprobs;  // bits
  std::optional<FinishReason> finish;
  std::int64_t cached_tokens = 0;

  bool SameBits(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && prompt_logprobs == other.prompt_logprobs && finish == other.finish;
  }
};

EventSink Collect(Answer& answer) {
  return [&answer](EngineEvent event) {
    if (event.token.has_value()) answer.tokens.push_back(*event.token);
    if (event.logprob.has_value()) answer.logprobs.push_back(BitsOf(event.logprob->logprob));
    for (const PromptScore& score : event.prompt_scores) answer.prompt_logprobs.push_back(BitsOf(score.actual.logprob));
    if (event.finish.has_value()) {
      answer.finish = event.finish;
      answer.cached_tokens = event.cached_tokens;
    }
  };
}

std::uint32_t Draw(std::uint32_t request, std::uint32_t what) { return Philox4x32({request, what, 5, 0}, {3, 0})[0]; }

// Greedy and sampled requests, with and without penalties, scoring and prompt scores; some share a prefix.
std::vector<GenerationRequest> MakeRequests(std::size_t count, std::int64_t vocab_size) {
  const auto shared = MakePrompts(16, 200, vocab_size)[11];
  std::vector<GenerationRequest> requests(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    GenerationRequest& request = requests[i];
    if (i % 3 == 0) request.prompt_ids.assign(shared.begin(), shared.begin() + 16 * (i % 4) + i % 5);
    const std::size_t own = 1 + Draw(i, 0) % 90;
    for (std::uint32_t k = 0; k < own; ++k) {
      request.prompt_ids.push_back(static_cast<std::int32_t>(Draw(i, 100 + k) % static_cast<std::uint32_t>(vocab_size)));
    }
    request.max_new_tokens = 1 + Draw(i, 1) % 40;
    request.num_logprobs = 0;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = 1000 + i;
    if (i % 4 == 1) request.sampling.top_p = 0.8f;
    if (i % 5 == 1) request.sampling.repetition_penalty = 1.3f;
    if (i % 7 == 3) request.num_prompt_logprobs = 0;
    if (i % 11 == 5) request.max_new_tokens = 0, request.num_prompt_logprobs = 0;
  }
  return requests;
}

struct Company {
  EngineConfig engine;
  std::int64_t num_blocks;
  std::int64_t block_size;
  int arrivals_per_step;  // 0: all at once
  bool storms;            // cancelled neighbours come and go
};

std::vector<Answer> RunTogether(const std::vector<GenerationRequest>& requests, const Setting& setting, const Company& company,
                                EngineStats* stats) {
  Setting own = setting;
  own.block_size = company.block_size;
  own.num_blocks = company.num_blocks;
  TinyModel tiny = LoadTiny(GoldenFolder("llama"), own);
  const ManualClock clock;
  auto engine = std::move(Engine::Create(company.engine, *tiny.model, clock, nullptr)).value();
  std::vector<Answer> answers(requests.size());
  std::vector<Answer> noise(64);
  std::size_t next = 0, num_noise = 0;
  std::int64_t step = 0;
  do {
    for (int arrived = 0; next < requests.size() && (company.arrivals_per_step == 0 || arrived < company.arrivals_per_step); ++arrived) {
      EXPECT_TRUE(engine->Submit(requests[next], Collect(answers[next])).ok());
      ++next;
    }
    if (company.storms && step % 3 == 0 && num_noise < noise.size()) {
      GenerationRequest neighbour = requests[num_noise % requests.size()];
      neighbour.max_new_tokens = 30;
      const auto id = engine->Submit(neighbour, Collect(noise[num_noise++]));
      engine->Step();
      engine->Cancel(*id);
    }
    ++step;
  } while (engine->Step() || next < requests.size());
  *stats = engine->Stats();
  EXPECT_EQ(stats->num_running, 0);
  EXPECT_EQ(stats->num_free_blocks + stats->num_cached_blocks, stats->num_blocks);
  return answers;
}

TEST(EngineInvariance, CompanyDoesNotMatter) {
  for (const Preset preset : {Preset::kPortable, Preset::kTensorCore, Preset::kTensorCoreInt8}) {
    const Setting setting{.contract = {preset, contract::KvType::kBf16}, .threads = 2};
    const auto requests = MakeRequests(24, 512);
    std::vector<Answer> alone;
    for (const GenerationRequest& request : requests) {
      EngineStats stats;
      alone.push_back(RunTogether({request}, setting, {{}, 32, 16, 0, false}, &stats).front());
      EXPECT_EQ(static_cast<std::int64_t>(alone.back().tokens.size()), request.max_new_tokens);
    }
    const std::map<std::string, Company> companies = {
        {"all at once", {{.max_sequences = 24, .max_batch_tokens = 64, .prefill_chunk = 64}, 400, 16, 0, false}},
        {"two a step, small chunks", {{.max_sequences = 8, .max_batch_tokens = 24, .prefill_chunk = 7}, 400, 8, 2, false}},
        {"pool so small that sequences are preempted", {{.max_sequences = 16, .max_batch_tokens = 64, .prefill_chunk = 32}, 30, 8, 3, false}},
        {"no prefix cache", {{.max_sequences = 5, .max_batch_tokens = 32, .prefill_chunk = 32, .prefix_cache = false}, 64, 64, 1, false}},
        {"neighbours cancelled midway", {{.max_sequences = 12, .max_batch_tokens = 48, .prefill_chunk = 16}, 60, 16, 2, true}},
    };
    std::int64_t preemptions = 0, hits = 0;
    for (const auto& [name, company] : companies) {
      EngineStats stats;
      const auto together = RunTogether(requests, setting, company, &stats);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_TRUE(together[i].SameBits(alone[i])) << Name(preset) << ", " << name << ", request " << i;
      }
      preemptions += stats.num_preemptions;
      hits += stats.prefix_hit_tokens;
    }
    EXPECT_GT(preemptions, 0) << "the small pool was not small enough to matter";
    EXPECT_GT(hits, 0) << "no prefix was shared";
  }
}

// Every generated log-probability equals that of scoring the same ids in one pass: 16 prompts, 128 tokens, all presets.
TEST(EngineInvariance, GenerationEqualsScoring) {
  for (const Preset preset : {Preset::kPortable, Preset::kTensorCore, Preset::kTensorCoreInt8}) {
    TinyModel tiny = LoadTiny(GoldenFolder("llama"), {.contract = {preset, contract::KvType::kBf16}, .threads = 2, .num_blocks = 600});
    const ManualClock clock;
    auto engine = std::move(Engine::Create({.max_batch_tokens = 64, .prefill_chunk = 64}, *tiny.model, clock, nullptr)).value();
    const auto prompts = MakePrompts(16, 200, tiny.model->vocab_size());
    std::vector<Answer> generated(prompts.size()), scored(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      GenerationRequest request{.prompt_ids = prompts[i], .max_new_tokens = 128, .num_logprobs = 0};
      request.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
      request.sampling.seed = i;
      ASSERT_TRUE(engine->Submit(request, Collect(generated[i])).ok());
    }
    while (engine->Step()) {
    }
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      GenerationRequest request{.prompt_ids = prompts[i], .max_new_tokens = 0, .num_prompt_logprobs = 0};
      request.prompt_ids.insert(request.prompt_ids.end(), generated[i].tokens.begin(), generated[i].tokens.end());
      ASSERT_TRUE(engine->Submit(request, Collect(scored[i])).ok());
    }
    while (engine->Step()) {
    }
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      ASSERT_EQ(generated[i].logprobs.size(), 128u);
      const std::size_t first = prompts[i].size() - 1;  // scores begin at position 1
      ASSERT_EQ(scored[i].prompt_logprobs.size(), first + 128);
      EXPECT_EQ(std::vector(scored[i].prompt_logprobs.begin() + first, scored[i].prompt_logprobs.end()), generated[i].logprobs)
          << Name(preset) << ", prompt " << i;
    }
  }
}

}  // namespace
}  // namespace isobit
