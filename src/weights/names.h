// What the name of a tensor or key may look like, in any container.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace isobit {

// Fails (kCorrupt) unless name is 1 to max_bytes bytes of valid UTF-8 without control characters,
// so that every name may be shown in a terminal. what: "tensor name", "metadata key"; file: goes
// into Error::field, because the name itself cannot be trusted.
Status CheckName(std::string_view name, std::size_t max_bytes, std::string_view what,
                 std::string_view file);

// text as it may be shown inside an error message: at most 80 bytes, anything but printable ASCII
// replaced by '?'.
std::string Printable(std::string_view text);

}  // namespace isobit
