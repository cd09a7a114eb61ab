#include "isobit/bench_engine.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/check.h"
#include "base/random.h"
#include "base/sha256.h"

namespace isobit {
namespace {

constexpr std::int32_t kDigestedTop = 20;

// What the events of one stream said.
struct Stream {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<TokenLogprob>> logprobs;  // [token]: its own, then those of the likeliest; empty if not asked for
  std::optional<Error> error;
};

void Collect(EngineEvent event, Stream* stream) {
  if (event.token.has_value()) {
    stream->tokens.push_back(*event.token);
    std::vector<TokenLogprob> logprobs = std::move(event.top);
    if (event.logprob.has_value()) logprobs.insert(logprobs.begin(), *event.logprob);
    stream->logprobs.push_back(std::move(logprobs));
  }
  if (event.error.has_value()) stream->error = event.error;
}

// Over the first num_tokens tokens of each stream: how many more an early stream got is the schedule's business.
std::string Digest(const std::vector<Stream>& streams, std::size_t num_tokens) {
  Sha256 hash;
  for (const Stream& stream : streams) {
    for (std::size_t i = 0; i < num_tokens; ++i) {
      hash.UpdateU64(static_cast<std::uint64_t>(stream.tokens[i]));
      for (const TokenLogprob& logprob : stream.logprobs[i]) {
        hash.UpdateU64(static_cast<std::uint64_t>(logprob.id)).UpdateU64(std::bit_cast<std::uint32_t>(logprob.logprob));
      }
    }
  }
  return HexString(hash.Finish());
}

}  // namespace

std::string BenchWork::Name() const {
  const std::string name = steps == 0 ? fmt::format("prefill {}", prompt_tokens) : fmt::format("decode {}", steps);
  return streams == 1 ? name : fmt::format("{} x {}", name, streams);
}

std::int64_t BenchWork::MaxLength(std::int64_t prefill_chunk) const {
  const std::int64_t early_tokens = streams == 1 ? 0 : streams * prompt_tokens / prefill_chunk + streams;
  return prompt_tokens + 1 + steps + early_tokens;
}

std::vector<std::vector<std::int32_t>> BenchPrompts(const BenchWork& work, std::int64_t vocab_size, std::uint32_t seed) {
  std::vector<std::vector<std::int32_t>> prompts(work.streams);
  for (std::int64_t s = 0; s < work.streams; ++s) {
    for (std::int64_t i = 0; i < work.prompt_tokens; ++i) {
      const auto words = Philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(s), 0, 0}, {seed, 0xbe7c});
      prompts[s].push_back(static_cast<std::int32_t>(words[0] % static_cast<std::uint64_t>(vocab_size)));
    }
  }
  return prompts;
}

void FitFlags(const std::vector<BenchWork>& works, ModelFlags* flags) {
  flags->prefix_cache = false;
  flags->max_seqs = 1;
  flags->kv_tokens = 1;
  for (const BenchWork& work : works) {
    flags->max_seqs = std::max(flags->max_seqs, work.streams);
    const std::int64_t length = work.MaxLength(flags->prefill_chunk);
    const std::int64_t blocks = (length + flags->block_size - 1) / flags->block_size;
    flags->kv_tokens = std::max(flags->kv_tokens, work.streams * blocks * flags->block_size);
  }
  // Decode rows go first; with this room a whole chunk of prefill always fits beside them.
  flags->max_batch_tokens = flags->prefill_chunk + flags->max_seqs - 1;
}

Result<EngineBench> EngineBench::Create(const ModelFlags& flags, LoadedModel& model, const Clock& clock) {
  ISOBIT_ASSIGN(RunningEngine running, MakeEngine(flags, model, clock));
  return EngineBench(std::move(running), flags.prefill_chunk, clock);
}

Result<BenchSample> EngineBench::Run(const BenchWork& work, const std::vector<std::vector<std::int32_t>>& prompts,
                                     bool with_logprobs) {
  Engine& engine = *running_.engine;
  std::vector<Stream> streams(prompts.size());
  std::vector<RequestId> ids;
  // Every stream has its first token, and none has failed?
  const auto all_started = [&] { return std::ranges::all_of(streams, [](const Stream& s) { return !s.tokens.empty(); }); };
  const auto failed = [&] { return std::ranges::find_if(streams, [](const Stream& s) { return s.error.has_value(); }); };

  EngineStats stats = engine.Stats();
  std::int64_t start = clock_.MonotonicNanos();
  for (std::size_t s = 0; s < prompts.size(); ++s) {
    GenerationRequest request;
    request.prompt_ids = prompts[s];
    request.sampling.temperature = 0;  // and no stop ids: every stream runs to its full length
    request.max_new_tokens = work.MaxLength(prefill_chunk_) - work.prompt_tokens;
    request.use_prefix_cache = false;
    if (with_logprobs) request.num_logprobs = kDigestedTop;
    ISOBIT_ASSIGN(const RequestId id,
                  engine.Submit(std::move(request), [&stream = streams[s]](EngineEvent event) { Collect(std::move(event), &stream); }));
    ids.push_back(id);
  }
  while (!all_started() && failed() == streams.end()) engine.Step();
  if (work.steps > 0) {
    stats = engine.Stats();
    start = clock_.MonotonicNanos();
    for (std::int64_t i = 0; i < work.steps && failed() == streams.end(); ++i) engine.Step();
  }
  const std::int64_t end = clock_.MonotonicNanos();

  BenchSample sample;
  sample.seconds = static_cast<double>(end - start) * 1e-9;
  sample.forward_seconds = static_cast<double>(engine.Stats().forward_nanos - stats.forward_nanos) * 1e-9;
  for (const RequestId id : ids) engine.Cancel(id);
  while (engine.Step()) {
  }
  if (const auto stream = failed(); stream != streams.end()) return *stream->error;
  const std::size_t num_tokens = 1 + static_cast<std::size_t>(work.steps);
  sample.digest = Digest(streams, num_tokens);
  for (Stream& stream : streams) {
    ISOBIT_CHECK(stream.tokens.size() >= num_tokens);
    stream.tokens.resize(num_tokens);
    sample.tokens.push_back(std::move(stream.tokens));
  }
  return sample;
}

}  // namespace isobit
