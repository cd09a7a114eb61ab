#include "contract/norm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "contract/elementary.h"
#include "contract/linear.h"

namespace isobit::contract {

float JoinLanes(std::span<float> lanes) {
  ISOBIT_CHECK(lanes.size() == static_cast<std::size_t>(kLanes));
  for (int h = kLanes / 2; h >= 1; h /= 2) {
    for (int i = 0; i < h; ++i) lanes[i] = lanes[i] + lanes[i + h];
  }
  return lanes[0];
}

std::vector<float> RmsNorm(std::span<const float> x, std::span<const float> weight, float eps) {
  ISOBIT_CHECK(x.size() == weight.size() && !x.empty());
  std::array<float, kLanes> lanes{};
  for (std::size_t k = 0; k < x.size(); ++k) lanes[k % kLanes] = std::fma(x[k], x[k], lanes[k % kLanes]);
  const float sum = JoinLanes(lanes);
  const float r = 1.0f / std::sqrt(sum / static_cast<float>(x.size()) + eps);
  std::vector<float> y(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) y[k] = (x[k] * r) * weight[k];
  return y;
}

float SumExp(std::span<const float> logits, float max) {
  const auto size = static_cast<std::int64_t>(logits.size());
  std::vector<KRange> segments;
  std::vector<float> sums;
  for (int s = 0; s < kSegments; ++s) {
    const KRange segment{s * size / kSegments, (s + 1) * size / kSegments};
    std::array<float, kLanes> lanes{};
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      float& lane = lanes[(i - segment.begin) % kLanes];
      lane = lane + Exp(logits[i] - max);
    }
    segments.push_back(segment);
    sums.push_back(JoinLanes(lanes));
  }
  return JoinChunks(Topology::kTree, segments, sums);
}

LogSumExp ComputeLogSumExp(std::span<const float> logits) {
  ISOBIT_CHECK(!logits.empty());
  const float max = *std::max_element(logits.begin(), logits.end());
  return {max, Log(SumExp(logits, max))};
}

}  // namespace isobit::contract
