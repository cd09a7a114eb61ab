// CHECK: an invariant of our own code. Always on; a broken one prints where and why, and aborts.
// Bad input and failed I/O are not invariants: they are Result<T> (result.h).
#pragma once

#include <fmt/format.h>

#include <string>

namespace isobit {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const std::string& message);
}  // namespace isobit

// ISOBIT_CHECK(rows > 0) or ISOBIT_CHECK(rows > 0, "rows = {}", rows)
#define ISOBIT_CHECK(condition, ...)                                                            \
  do {                                                                                          \
    if (!(condition)) [[unlikely]]                                                              \
      ::isobit::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__));      \
  } while (false)
