#include "world.h"

#include <fmt/format.h>

#include <algorithm>

#include "dice.h"
#include "hash_model.h"

namespace isobit::sim {
namespace {

template <std::size_t N>
std::int64_t OneOf(Dice& dice, const std::int64_t (&values)[N]) {
  return values[dice.Below(N)];
}

std::vector<std::int32_t> RandomTokens(Dice& dice, std::int64_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(dice.Below(kNanToken));
  return tokens;
}

// Lengths on, before and behind block edges are where paging goes wrong.
std::int64_t EdgeLength(Dice& dice, std::int64_t block_size, std::int64_t max) {
  if (dice.Chance(40)) return dice.Between(1, max);
  const std::int64_t edge = block_size * dice.Between(0, max / block_size) + dice.Between(-1, 1);
  return std::clamp<std::int64_t>(edge, 1, max);
}

SamplingParams RandomSampling(Dice& dice) {
  SamplingParams params;
  if (dice.Chance(50)) {
    params.temperature = 0;
    return params;
  }
  params.seed = dice.Next();
  params.choice = static_cast<std::uint32_t>(dice.Below(3));
  params.temperature = dice.Chance(50) ? 1.0f : 1.7f;
  if (dice.Chance(30)) params.top_p = 0.8f;
  if (dice.Chance(30)) params.top_k = static_cast<std::int32_t>(dice.Between(1, 12));
  if (dice.Chance(20)) params.min_p = 0.05f;
  if (dice.Chance(30)) params.repetition_penalty = 1.3f;
  if (dice.Chance(30)) params.frequency_penalty = 0.5f;
  if (dice.Chance(20)) params.presence_penalty = -0.5f;
  if (dice.Chance(20)) params.logit_bias = {{3, 4.0f}, {7, -100.0f}};
  return params;
}

GenerationRequest RandomRequest(Dice& dice, const ModelLimits& limits,
                                const std::vector<std::vector<std::int32_t>>& shared) {
  GenerationRequest request;
  const std::int64_t prompt_length = EdgeLength(dice, limits.block_size, limits.max_model_len);
  request.prompt_ids = RandomTokens(dice, prompt_length);
  if (dice.Chance(75)) {
    const auto& source = shared[dice.Below(static_cast<std::int64_t>(shared.size()))];
    const std::int64_t count =
        dice.Chance(40) ? prompt_length : EdgeLength(dice, limits.block_size, prompt_length);
    std::copy_n(source.begin(), count, request.prompt_ids.begin());
  }
  // One other token in the middle: the blocks after it hold shared tokens behind another prefix.
  if (dice.Chance(25)) {
    request.prompt_ids[dice.Below(prompt_length)] =
        static_cast<std::int32_t>(dice.Below(kNanToken));
  }
  if (dice.Chance(4)) request.prompt_ids[dice.Below(prompt_length)] = kNanToken;

  request.sampling = RandomSampling(dice);
  request.max_new_tokens = std::min(limits.max_model_len - prompt_length, dice.Between(0, 28));
  if (dice.Chance(10)) request.max_new_tokens = 0;
  if (dice.Chance(50)) {
    for (std::int64_t i = dice.Between(1, 4); i > 0; --i) {
      request.stop_token_ids.push_back(static_cast<std::int32_t>(dice.Below(kNanToken)));
    }
    std::ranges::sort(request.stop_token_ids);
    if (dice.Chance(40)) request.min_new_tokens = dice.Between(0, request.max_new_tokens);
  }
  if (dice.Chance(50)) request.num_logprobs = static_cast<std::int32_t>(dice.Below(4));
  if (dice.Chance(25)) request.num_prompt_logprobs = static_cast<std::int32_t>(dice.Below(3));
  if (dice.Chance(20)) request.cache_salt.assign(1, dice.Chance(50) ? 'a' : 'b');
  request.use_prefix_cache = !dice.Chance(10);
  return request;
}

}  // namespace

World MakeWorld(std::uint64_t seed) {
  Dice dice(seed);
  World world;
  world.seed = seed;

  ModelLimits& limits = world.limits;
  limits.block_size = std::int64_t{8} << dice.Below(dice.Chance(70) ? 2 : 6);
  limits.max_model_len = limits.block_size * dice.Between(2, limits.block_size <= 32 ? 6 : 3);
  const std::int64_t min_blocks = limits.max_model_len / limits.block_size;
  limits.num_blocks =
      dice.Chance(60) ? min_blocks + dice.Below(3) : min_blocks * dice.Between(1, 4);
  limits.max_logit_rows = OneOf(dice, {1, 3, 64});

  EngineConfig& config = world.config;
  config.max_sequences = dice.Between(1, 8);
  config.prefill_chunk = OneOf(dice, {1, 7, 64, 512});
  config.max_batch_tokens = OneOf(dice, {1, 4, 16, 64, 512});
  config.prefix_cache = !dice.Chance(15);
  limits.max_sequences = config.max_sequences;
  limits.max_batch_tokens = config.max_batch_tokens;

  std::vector<std::vector<std::int32_t>> shared;
  for (int i = 0; i < 2; ++i) shared.push_back(RandomTokens(dice, limits.max_model_len));
  const std::int64_t spread = OneOf(dice, {0, 4, 40});
  for (std::int64_t i = dice.Between(2, 12); i > 0; --i) {
    ScriptedRequest scripted;
    scripted.request = RandomRequest(dice, limits, shared);
    scripted.arrival_step = dice.Between(0, spread);
    if (dice.Chance(20)) scripted.cancel_step = scripted.arrival_step + dice.Between(0, 25);
    if (dice.Chance(4)) scripted.throw_at_event = dice.Below(6);
    world.requests.push_back(std::move(scripted));
  }
  // A request sent twice, byte for byte: it must answer the same, warm or cold.
  world.requests.push_back(world.requests.front());
  world.requests.back().arrival_step += dice.Between(0, 30);
  std::ranges::stable_sort(world.requests, {}, &ScriptedRequest::arrival_step);
  if (dice.Chance(15)) world.clear_cache_steps.push_back(dice.Between(1, 40));
  return world;
}

std::string Describe(const World& world) {
  std::string text = fmt::format(
      "world {}: {} blocks of {}, context {}, {} sequences, {} rows a step, chunk {}, {} logit "
      "rows, prefix cache {}\n",
      world.seed, world.limits.num_blocks, world.limits.block_size, world.limits.max_model_len,
      world.config.max_sequences, world.config.max_batch_tokens, world.config.prefill_chunk,
      world.limits.max_logit_rows, world.config.prefix_cache ? "on" : "off");
  for (std::size_t i = 0; i < world.requests.size(); ++i) {
    const ScriptedRequest& scripted = world.requests[i];
    const GenerationRequest& request = scripted.request;
    text += fmt::format("  request {}: arrives {}, prompt {}, max_new {}, T {}", i + 1,
                        scripted.arrival_step, request.prompt_ids.size(), request.max_new_tokens,
                        request.sampling.temperature);
    if (request.num_prompt_logprobs >= 0) text += ", scores its prompt";
    if (!request.cache_salt.empty()) text += fmt::format(", salt {}", request.cache_salt);
    if (!request.use_prefix_cache) text += ", no cache";
    if (std::ranges::count(request.prompt_ids, kNanToken) > 0) text += ", not numeric";
    if (scripted.cancel_step != kNever)
      text += fmt::format(", cancelled at {}", scripted.cancel_step);
    if (scripted.throw_at_event != kNever)
      text += fmt::format(", sink throws at event {}", scripted.throw_at_event);
    text += '\n';
  }
  return text;
}

}  // namespace isobit::sim
