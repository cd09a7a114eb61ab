// Simulator: runs a World on the real inbox, scheduler, KV cache and step loop over a HashModel, on
// one thread and a virtual clock, and checks after every step and at the end that nothing but speed
// depended on the neighbours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "oracle.h"
#include "world.h"

namespace isobit::sim {

struct SimOptions {
  bool print_steps = false;  // into SimResult::log
  std::string trace_path;    // empty: no trace is written and read back
};

struct SimResult {
  std::string failure;  // empty: everything held
  std::string log;
  std::int64_t num_steps = 0;
  EngineStats stats;
  std::vector<Answer> answers;  // by request of the world
};

SimResult RunWorld(const World& world, const SimOptions& options = {});

// MakeWorld(seed), run, then every request that was not disturbed alone on a fresh engine of
// another size. "" or a report that ends with the line to repeat it.
std::string CheckSeed(std::uint64_t seed, const std::string& trace_path = "");

}  // namespace isobit::sim
