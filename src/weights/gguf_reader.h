// GGUF reader: the bytes of a GGUF v2 or v3 file to metadata and tensor views. Everything the
// format states is checked before it returns; nothing is allocated before the bytes left in the
// file prove it plausible. Knows no model family.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace isobit {

struct GgufFile {
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  Json metadata;                    // object, file order; f32 and f64 as double, all integers exact
  std::vector<TensorView> tensors;  // file order; GGUF's own names; shape outermost first (the file
                                    // has it innermost first)
};

// Errors: kCorrupt for bytes that break the format, kUnsupported for another version or a tensor
// type not read yet. Error::field is path for faults of the whole file, else the key's or tensor's
// name.
Result<GgufFile> ReadGguf(const std::shared_ptr<const MappedFile>& file);

// The same over bytes in memory, which keep_alive owns and which begin at an address that is a
// multiple of 8.
Result<GgufFile> ParseGguf(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive,
                           std::string_view path);

}  // namespace isobit
