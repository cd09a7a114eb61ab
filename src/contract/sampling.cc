#include "contract/sampling.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/random.h"
#include "contract/elementary.h"

namespace isobit::contract {

std::int32_t ArgMax(std::span<const float> values) {
  ISOBIT_CHECK(!values.empty());
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best]) best = i;
  }
  return static_cast<std::int32_t>(best);
}

std::uint32_t NoiseBits(std::uint64_t seed, std::uint32_t choice, std::int64_t position, std::int32_t token) {
  const auto place = static_cast<std::uint64_t>(position);
  const auto words = Philox4x32({static_cast<std::uint32_t>(token), choice, static_cast<std::uint32_t>(place),
                                 static_cast<std::uint32_t>(place >> 32)},
                                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return words[0] >> 9;
}

float GumbelOfBits(std::uint32_t bits) {
  const float u = (static_cast<float>(bits) + 0.5f) * 0x1p-23f;
  return -Log(-Log(u));
}

std::uint32_t MinBitsForNoise(float t) {
  // GumbelOfBits never falls by more than its rounding as bits grow, so the smallest bits whose noise reaches a whole number, less a
  // margin far above that rounding, bound every larger draw. Found once by bisection over the law's own function.
  struct Table {
    std::array<std::uint32_t, static_cast<int>(kMaxGumbelNoise) + 1> min_bits;
    Table() {
      for (std::size_t k = 0; k < min_bits.size(); ++k) {
        std::uint32_t low = 0, high = 1u << 23;
        while (low < high) {
          const std::uint32_t middle = (low + high) / 2;
          if (GumbelOfBits(middle) >= static_cast<float>(k) - 0.01f) high = middle;
          else low = middle + 1;
        }
        min_bits[k] = low;
      }
    }
  };
  static const Table table;
  return table.min_bits[static_cast<std::size_t>(std::clamp(t, 0.0f, kMaxGumbelNoise))];
}

}  // namespace isobit::contract
