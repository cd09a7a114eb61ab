#include "contract/sampling.h"

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

float GumbelNoise(std::uint64_t seed, std::uint32_t choice, std::int64_t position, std::int32_t token) {
  const auto place = static_cast<std::uint64_t>(position);
  const auto words = Philox4x32({static_cast<std::uint32_t>(token), choice, static_cast<std::uint32_t>(place),
                                 static_cast<std::uint32_t>(place >> 32)},
                                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const float u = (static_cast<float>(words[0] >> 9) + 0.5f) * 0x1p-23f;
  return -Log(-Log(u));
}

}  // namespace isobit::contract
