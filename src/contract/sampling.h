// Choosing a token under the law: a total order at ties, and noise that depends on nobody but the token itself.
//
// The order of the sampler, on a copy z of the raw logits (every operation one f32 rounding):
//   1. bias: z[id] = z[id] + bias;
//   2. penalties, each token once: repetition (tokens of prompt and output): z > 0 ? z / r : z * r; frequency (output):
//      z = z - f32(count) * f; presence (output): z = z - p;
//   3. masks: a token that is not allowed is absent (-infinity);
//   4. greedy (temperature 0) ends here: ArgMax(z). Else z = z / temperature;
//   5. top-k: the k first in the order (z descending, id ascending; -0 = +0);
//   6. top-p: with max the largest z and total = SumExp of what is left (absent: -infinity), walk in the same order adding
//      Exp(z - max) in f32 from +0, and keep tokens up to and including the first whose running sum reaches top_p * total;
//   7. min-p: keep Exp(z - max) >= min_p;
//   8. ArgMax of z + GumbelNoise over what is left.
#pragma once

#include <cstdint>
#include <span>

namespace isobit::contract {

// Lowest index among the maxima; -0 and +0 are equal. No NaN.
std::int32_t ArgMax(std::span<const float> values);

// Standard Gumbel noise of one token: g = -Log(-Log(u)), u = (f32(bits) + 0.5) * 2^-23, where bits are the upper 23 of the first word of
// Philox4x32-10 of counter {token, choice, low word of position, high word of position} and key {low word, high word} of the seed.
// u lies in (0, 1).
std::uint32_t NoiseBits(std::uint64_t seed, std::uint32_t choice, std::int64_t position, std::int32_t token);
float GumbelOfBits(std::uint32_t bits);
inline float GumbelNoise(std::uint64_t seed, std::uint32_t choice, std::int64_t position, std::int32_t token) {
  return GumbelOfBits(NoiseBits(seed, choice, position, token));
}

// No draw is larger than kMaxGumbelNoise. A draw of at least t, for 0 <= t <= kMaxGumbelNoise, needs at least MinBitsForNoise(t) bits: a
// cheap and safe bound, so that a token which cannot win needs no logarithm.
inline constexpr float kMaxGumbelNoise = 17.0f;
std::uint32_t MinBitsForNoise(float t);

}  // namespace isobit::contract
