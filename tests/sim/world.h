// World: one scripted run: an engine's size and what its clients do at which step. A pure function
// of the seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace isobit::sim {

inline constexpr std::int64_t kNever = -1;

struct ScriptedRequest {
  GenerationRequest request;
  std::int64_t arrival_step = 0;
  std::int64_t cancel_step = kNever;     // cancelled before this step
  std::int64_t throw_at_event = kNever;  // the sink throws at its event of this index
};

struct World {
  std::uint64_t seed = 0;
  EngineConfig config;
  ModelLimits limits;
  std::vector<ScriptedRequest> requests;  // by arrival_step
  std::vector<std::int64_t> clear_cache_steps;
};

World MakeWorld(std::uint64_t seed);

std::string Describe(const World& world);  // several lines

}  // namespace isobit::sim
