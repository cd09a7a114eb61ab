// safetensors writer: tensor views to a file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace isobit {

// Writes path atomically: header padded to a multiple of 8, widest elements first, so that every
// tensor lies aligned; equal input gives equal bytes. kInvalidArgument for a name used twice, empty
// or reserved; kUnsupported for a dtype the format lacks (block formats).
Status WriteSafetensors(const std::string& path, const std::vector<TensorView>& tensors,
                        const std::map<std::string, std::string>& metadata = {});

// The bytes that WriteSafetensors writes.
Result<std::string> SafetensorsBytes(const std::vector<TensorView>& tensors,
                                     const std::map<std::string, std::string>& metadata = {});

}  // namespace isobit
