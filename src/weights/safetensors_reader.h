// safetensors reader: one file's bytes to tensor views. Knows no model family.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace isobit {

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::vector<TensorView> tensors;              // sorted by name
};

// Checks all that the format states: header length and JSON, no key twice, dtype, shape times size
// equal to the extent, no overlap, no hole, exact end of file. A tensor whose bytes lie at an
// address its elements cannot be read from is copied. Errors: kCorrupt, kUnsupported (a dtype by
// its name); Error::field is path for faults of the whole file, else the tensor's name.
Result<SafetensorsFile> ReadSafetensors(const std::shared_ptr<const MappedFile>& file);

// The same over bytes in memory, which keep_alive owns.
Result<SafetensorsFile> ParseSafetensors(std::span<const std::byte> bytes,
                                         std::shared_ptr<const void> keep_alive,
                                         std::string_view path);

}  // namespace isobit
