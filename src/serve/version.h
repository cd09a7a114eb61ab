// The server's version, as /version, fingerprints, metrics and traces state it.
#pragma once

namespace isobit {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace isobit
