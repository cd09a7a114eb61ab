// Files: read-only maps and whole reads, with errors that name the path.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isobit {

// A file mapped read-only for as long as the object lives.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size) : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const std::byte* data_;
  std::size_t size_;
};

// Reads a whole file of at most max_bytes.
Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes = std::size_t{1} << 30);

// Writes path by way of a temporary file beside it, so that a reader sees the old content or the new, never a part.
Status WriteFile(const std::string& path, std::string_view content);

}  // namespace isobit
