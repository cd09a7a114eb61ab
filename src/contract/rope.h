// Rotary position embedding of the law: tables of correctly rounded cosines and sines, and the rotation.
//
// inv_freq[i] = theta^(-2 i / head_dim), correctly rounded to f32 (computed to 100 bits; no libm). llama3 scaling: in binary64,
//   wavelength = 2 pi / inv_freq; longer than original / low_freq_factor: inv_freq / factor; shorter than original /
//   high_freq_factor: kept; between: s = (original / wavelength - low) / (high - low), (1 - s) * inv_freq / factor + s * inv_freq;
//   rounded once to f32. Divisors (GGUF): inv_freq / divisor, one f32 division.
// angle = f32(position) * inv_freq[i], one f32 multiplication; cos and sin of that f32 angle, correctly rounded to f32.
// Rotation of pair (a, b) = (x[i], x[i + head_dim / 2]): a' = fma(a, cos, -(b * sin)), b' = fma(b, cos, a * sin), where the product
//   inside is rounded once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isobit::contract {

struct RopeSpec {
  double theta = 10000.0;
  std::int64_t head_dim = 0;
  bool llama3 = false;
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_max_positions = 0;
  std::vector<float> frequency_divisors;  // empty, or [head_dim / 2]
};

std::vector<float> RopeInverseFrequencies(const RopeSpec& spec);  // [head_dim / 2]

// cos and sin of every angle of positions [0, num_positions): [num_positions, head_dim / 2] each, row-major.
struct RopeTable {
  std::int64_t half_dim = 0;
  std::vector<float> cos, sin;
};
RopeTable MakeRopeTable(const RopeSpec& spec, std::int64_t num_positions);

// Correctly rounded to f32 for |x| < 2^20.
float CosCorrectlyRounded(float x);
float SinCorrectlyRounded(float x);

// Rotates one head in place. head: [head_dim]; cos, sin: [head_dim / 2] of the head's position.
void RotateHead(std::span<float> head, std::span<const float> cos, std::span<const float> sin);

}  // namespace isobit::contract
