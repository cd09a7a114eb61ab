// The engine on its own thread, many clients on theirs: whatever the order of arrival, every answer
// is the one the oracle expects.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "dice.h"
#include "engine/engine.h"
#include "hash_model.h"
#include "oracle.h"
#include "world.h"

namespace isobit::sim {
namespace {

constexpr int kNumClients = 6, kRequestsPerClient = 12;

// Collects the events of one request; the future is set by the finish.
struct Waiter {
  Answer answer;
  std::promise<void> finished;

  void Listen(EngineEvent event) {
    if (event.has_prompt_scores) {
      answer.has_prompt_scores = true;
      answer.prompt_scores = std::move(event.prompt_scores);
    }
    if (event.token) answer.tokens.push_back(*event.token);
    if (event.logprob) {
      answer.logprobs.push_back(*event.logprob);
      answer.tops.push_back(std::move(event.top));
    }
    if (event.error) answer.error = event.error->code;
    if (event.finish) {
      answer.finish = event.finish;
      answer.stop_token_id = event.stop_token_id;
      finished.set_value();
    }
  }
};

// Requests of a seeded world, one after the other, every fifth cancelled at once.
void RunClient(Engine& engine, std::uint64_t seed, std::atomic<int>& num_answers) {
  const World world = MakeWorld(seed);
  for (int i = 0; i < kRequestsPerClient; ++i) {
    const GenerationRequest& request = world.requests[i % world.requests.size()].request;
    Waiter waiter;
    const Result<RequestId> id =
        engine.Submit(request, [&](EngineEvent event) { waiter.Listen(std::move(event)); });
    ASSERT_TRUE(id.ok()) << id.error().ToString();
    if (i % 5 == 4) engine.Cancel(*id);
    waiter.finished.get_future().wait();
    const bool cancelled = waiter.answer.finish == FinishReason::kCancelled;
    EXPECT_TRUE(!cancelled || i % 5 == 4);
    EXPECT_EQ(Difference(Expect(request), waiter.answer, cancelled), "")
        << "seed " << seed << " request " << i;
    ++num_answers;
  }
}

TEST(Threads, EveryClientGetsItsSoloAnswer) {
  // Longer than any request of the worlds used, and too small for all of them at once.
  HashModel model({.max_batch_tokens = 48,
                   .max_sequences = 4,
                   .max_logit_rows = 7,
                   .max_model_len = 800,
                   .num_blocks = 52,
                   .block_size = 16});
  const SystemClock clock;
  auto engine =
      std::move(Engine::Create({.max_sequences = 4, .max_batch_tokens = 48, .prefill_chunk = 20},
                               model, clock, nullptr)
                    .value());
  engine->Start();

  std::atomic<int> num_answers = 0;
  std::atomic<bool> done = false;
  std::thread poller([&] {
    while (!done) {
      const EngineStats stats = engine->Stats();
      EXPECT_LE(stats.num_running, 4);
      EXPECT_LE(stats.num_free_blocks + stats.num_cached_blocks, stats.num_blocks);
      engine->ClearPrefixCache();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> clients;
  for (int i = 0; i < kNumClients; ++i) {
    clients.emplace_back([&, i] { RunClient(*engine, 500 + i, num_answers); });
  }
  for (std::thread& client : clients) client.join();
  done = true;
  poller.join();
  engine->Stop();

  EXPECT_EQ(num_answers, kNumClients * kRequestsPerClient);
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.num_free_blocks + stats.num_cached_blocks, stats.num_blocks);
  EXPECT_EQ(
      stats.finished_stop + stats.finished_length + stats.finished_cancelled + stats.finished_error,
      kNumClients * kRequestsPerClient);
}

// Stopping in the middle tells every client, once.
TEST(Threads, StopAnswersEverybody) {
  for (int round = 0; round < 20; ++round) {
    HashModel model({.max_batch_tokens = 32,
                     .max_sequences = 3,
                     .max_logit_rows = 8,
                     .max_model_len = 800,
                     .num_blocks = 100,
                     .block_size = 8});
    const SystemClock clock;
    auto engine = std::move(
        Engine::Create({.max_sequences = 3, .max_batch_tokens = 32}, model, clock, nullptr)
            .value());
    engine->Start();
    std::vector<std::unique_ptr<Waiter>> waiters;
    for (int i = 0; i < 8; ++i) {
      auto waiter = std::make_unique<Waiter>();
      GenerationRequest request;
      request.prompt_ids = {i, i + 1};
      request.max_new_tokens = 500;
      if (engine
              ->Submit(request,
                       [w = waiter.get()](EngineEvent event) { w->Listen(std::move(event)); })
              .ok()) {
        waiters.push_back(std::move(waiter));
      }
    }
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    engine->Stop();
    EXPECT_EQ(waiters.size(), 8u);
    for (const auto& waiter : waiters) {
      waiter->finished.get_future().wait();
      EXPECT_TRUE(waiter->answer.finish.has_value());
    }
  }
}

}  // namespace
}  // namespace isobit::sim
