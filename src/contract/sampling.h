// Choosing a token under the law: a total order at ties, and noise that depends on nobody but the token itself.
#pragma once

#include <cstdint>
#include <span>

namespace isobit::contract {

// Lowest index among the maxima; -0 and +0 are equal. No NaN.
std::int32_t ArgMax(std::span<const float> values);

// Standard Gumbel noise of one token: g = -Log(-Log(u)), u = (f32(w >> 9) + 0.5) * 2^-23 with w the first word of Philox4x32-10 of counter
// {token, choice, low word of position, high word of position} and key {low word, high word} of the seed. u lies in (0, 1).
// A sampled token is ArgMax of (logit / temperature) + g over the candidates, so no candidate's order or number moves another's draw.
float GumbelNoise(std::uint64_t seed, std::uint32_t choice, std::int64_t position, std::int32_t token);

}  // namespace isobit::contract
