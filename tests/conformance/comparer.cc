#include "comparer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "contract/float_bits.h"

namespace isobit::conformance {
namespace {

bool Equal(float a, float b) { return contract::BitsOf(a) == contract::BitsOf(b) || (std::isnan(a) && std::isnan(b)); }

// Floats on an integer line: neighbours are one apart, -0 and +0 too.
std::int64_t OnLine(float x) {
  const auto bits = static_cast<std::int32_t>(contract::BitsOf(x));
  return bits >= 0 ? bits : std::int64_t{INT32_MIN} - bits - 1;
}

}  // namespace

std::string Compare(std::span<const float> expected, std::span<const float> actual, std::int64_t cols) {
  if (expected.size() != actual.size()) return fmt::format("{} values where {} belong", actual.size(), expected.size());
  std::size_t count = 0, first = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (Equal(expected[i], actual[i])) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  const float want = expected[first], got = actual[first];
  return fmt::format("{} of {} differ, first at [{}, {}]: law {:08x} ({:g}), backend {:08x} ({:g}), {} ulp apart", count, expected.size(),
                     first / cols, first % cols, contract::BitsOf(want), want, contract::BitsOf(got), got,
                     std::abs(OnLine(want) - OnLine(got)));
}

}  // namespace isobit::conformance
