// The list of backend ops by name: the conformance suite fails if one has no case.
#pragma once

#include <array>

namespace isobit {

inline constexpr std::array kBackendOps = {"Embed",     "RmsNorm", "Linear", "Rope",       "WriteKv",    "Attention",
                                           "SiluMul",   "Add",     "GatherRows"};

}  // namespace isobit
