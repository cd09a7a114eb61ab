#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/inbox.h"
#include "engine/step.h"
#include "engine/validate.h"

namespace isobit {
namespace {

Status CheckRange(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return Fail(ErrorCode::kInvalidArgument, field, "{} is out of range; use {} to {}", value, low,
              high);
}

Status ValidateConfig(const EngineConfig& config, const LanguageModel& model) {
  const ModelLimits& limits = model.limits();
  constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;  // ids are 32 bits
  ISOBIT_TRY(CheckRange("max_sequences", config.max_sequences, 1, limits.max_sequences));
  ISOBIT_TRY(CheckRange("max_batch_tokens", config.max_batch_tokens, 1, limits.max_batch_tokens));
  ISOBIT_TRY(CheckRange("prefill_chunk", config.prefill_chunk, 1, kMaxBlocks));
  ISOBIT_TRY(CheckRange("max_queue", config.max_queue, 1, std::int64_t{1} << 20));
  ISOBIT_TRY(CheckRange("num_blocks", limits.num_blocks, 1, kMaxBlocks));
  ISOBIT_TRY(CheckRange("block_size", limits.block_size, 8, 256));
  if (!std::has_single_bit(static_cast<std::uint64_t>(limits.block_size))) {
    return Fail(ErrorCode::kInvalidArgument, "block_size", "{} is not a power of two",
                limits.block_size);
  }
  ISOBIT_CHECK(limits.max_logit_rows > 0 && model.vocab_size() > 0);
  return {};
}

}  // namespace

struct Engine::Impl {
  Impl(const EngineConfig& engine_config, LanguageModel& language_model, const Clock& clock,
       TraceRecorder* recorder)
      : config(engine_config),
        model(language_model),
        inbox(engine_config.max_queue),
        loop(engine_config, language_model, clock, recorder, inbox) {}

  void RunUntilStopped() {
    while (!stopping.load(std::memory_order_acquire)) {
      if (!loop.Step()) inbox.WaitForContent();
    }
  }

  const EngineConfig config;
  LanguageModel& model;
  Inbox inbox;
  StepLoop loop;
  std::thread thread;
  std::atomic<bool> stopping = false;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() { Stop(); }

Result<std::unique_ptr<Engine>> Engine::Create(const EngineConfig& config, LanguageModel& model,
                                               const Clock& clock, TraceRecorder* recorder) {
  ISOBIT_TRY(ValidateConfig(config, model));
  return std::unique_ptr<Engine>(
      new Engine(std::make_unique<Impl>(config, model, clock, recorder)));
}

Result<RequestId> Engine::Submit(GenerationRequest request, EventSink sink) {
  ISOBIT_CHECK(sink != nullptr, "a request needs a sink");
  // Sorted here rather than trusted: the step looks a token up by binary search.
  std::ranges::sort(request.stop_token_ids);
  ISOBIT_TRY(ValidateRequest(request, impl_->model.vocab_size(), impl_->model.limits()));
  return impl_->inbox.Push(std::move(request), std::move(sink));
}

void Engine::Cancel(RequestId id) { impl_->inbox.Cancel(id); }

bool Engine::Step() {
  ISOBIT_CHECK(!impl_->thread.joinable(), "the engine's own thread makes the steps");
  return impl_->loop.Step();
}

void Engine::Start() {
  ISOBIT_CHECK(!impl_->thread.joinable(), "started already");
  impl_->stopping = false;
  impl_->inbox.SetClosed(false);
  impl_->thread = std::thread([impl = impl_.get()] { impl->RunUntilStopped(); });
}

void Engine::Stop() {
  impl_->inbox.SetClosed(true);
  impl_->stopping.store(true, std::memory_order_release);
  impl_->inbox.Wake();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->loop.CancelAll();
}

EngineStats Engine::Stats() const {
  EngineStats stats = impl_->loop.Stats();
  stats.num_waiting += impl_->inbox.num_pending();
  return stats;
}

void Engine::ClearPrefixCache() { impl_->inbox.ClearPrefixCache(); }

const EngineConfig& Engine::config() const { return impl_->config; }

}  // namespace isobit
