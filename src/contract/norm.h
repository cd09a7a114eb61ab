// RMSNorm and the lane rule of the law.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/contract.h"

namespace isobit::contract {

// Joins kLanes partial sums: lane[i] = lane[i] + lane[i + h] for h = 128, 64, ..., 1. Returns lane 0.
float JoinLanes(std::span<float> lanes);

// y = (x * r) * w, r = 1 / sqrt(sum / K + eps). sum: lane l of 256 takes k = l, l + 256, ...: acc = fma(x, x, acc) from +0, ascending;
// then JoinLanes. K as f32; division and square root are IEEE.
std::vector<float> RmsNorm(std::span<const float> x, std::span<const float> weight, float eps);

// Log-probability parts of a row of logits. max: the largest. log_sum: Log of sum exp(x - max), where the vocabulary V is cut into
// 8 segments [floor(i V / 8), floor((i + 1) V / 8)), inside a segment lane l of 256 adds Exp(x - max) of its l-th, (l + 256)-th, ...
// element ascending from +0, JoinLanes inside, the tree ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)) across; an empty segment is
// absent. The log-probability of token t is (x[t] - max) - log_sum. All logits are finite.
struct LogSumExp {
  float max;
  float log_sum;
  float LogProb(float logit) const { return (logit - max) - log_sum; }
};
LogSumExp ComputeLogSumExp(std::span<const float> logits);

// The sum inside it: of Exp(x - max), where an absent element is written as -infinity and counts as +0 (exact).
float SumExp(std::span<const float> logits, float max);

}  // namespace isobit::contract
