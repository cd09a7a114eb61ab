// Counter-based random numbers: pure in (key, counter), so that no draw depends on who drew before.
#pragma once

#include <array>
#include <cstdint>

namespace isobit {

// Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// 64 bits from the operating system. The only entropy in isobit; used at the HTTP edge for a missing seed, request ids and nonces.
std::uint64_t SystemEntropy();

}  // namespace isobit
