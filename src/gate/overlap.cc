#include "gate/overlap.h"

#include <algorithm>

namespace isobit::gate {

double MeanOverlap(std::span<const std::vector<std::int64_t>> token_nanos) {
  std::int64_t num_events = 0, num_pairs = 0;
  for (const auto& own : token_nanos) {
    const auto num_own = static_cast<std::int64_t>(own.size());
    const std::int64_t reach = std::max<std::int64_t>(1, num_own / 8);
    for (std::int64_t i = 0; i < num_own; ++i) {
      const std::int64_t begin = own[std::max<std::int64_t>(0, i - reach)];
      const std::int64_t end = own[std::min(num_own - 1, i + reach)];
      ++num_events;
      for (const auto& other : token_nanos) {
        if (&other == &own) {
          ++num_pairs;
          continue;
        }
        const auto first = std::lower_bound(other.begin(), other.end(), begin);
        if (first != other.end() && *first <= end) ++num_pairs;
      }
    }
  }
  return num_events == 0 ? 0.0 : static_cast<double>(num_pairs) / static_cast<double>(num_events);
}

double RequiredOverlap(std::int64_t concurrency) { return 1.0 + 0.4 * static_cast<double>(concurrency - 1); }

}  // namespace isobit::gate
