// AlignedBuffer: zeroed memory on a cache-line boundary, with a spare line behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace isobit::cpu {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::int64_t size) : size_(size), bytes_(static_cast<std::byte*>(::operator new(size + 64, std::align_val_t{64}))) {
    std::memset(bytes_.get(), 0, size + 64);
  }
  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  std::int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::int64_t size_ = 0;
  std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace isobit::cpu
