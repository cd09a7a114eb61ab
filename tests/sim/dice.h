// Dice: seeded random numbers for scripts. The same seed gives the same script on every machine.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/random.h"

namespace isobit::sim {

class Dice {
 public:
  explicit Dice(std::uint64_t seed)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

  std::uint32_t Next() {
    ++counter_;
    return Philox4x32({static_cast<std::uint32_t>(counter_), 0, 0, 0}, key_)[0];
  }
  // 0 ... count - 1. The bias of the remainder is below 1e-6 for the small counts of scripts.
  std::int64_t Below(std::int64_t count) {
    ISOBIT_CHECK(count > 0);
    return Next() % count;
  }
  std::int64_t Between(std::int64_t low, std::int64_t high) { return low + Below(high - low + 1); }
  bool Chance(std::int64_t percent) { return Below(100) < percent; }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint64_t counter_ = 0;
};

}  // namespace isobit::sim
