// Comparer: two float matrices, bit by bit.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace isobit::conformance {

// Empty if equal. Else how many differ, and the first: row and column, both bit patterns and the distance in units in the last place.
// Two NaN are equal whatever their payload: no request survives one, and IEEE leaves the payload of a sum open.
std::string Compare(std::span<const float> expected, std::span<const float> actual, std::int64_t cols);

}  // namespace isobit::conformance
