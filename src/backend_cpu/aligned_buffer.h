// AlignedBuffer: zeroed memory on a cache-line boundary, with a spare line behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/check.h"

namespace isobit::cpu {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // calloc: large sizes come from the kernel as zero pages that cost nothing before they are used.
  explicit AlignedBuffer(std::int64_t size) : size_(size), memory_(std::calloc(1, size + 2 * kAlignment)) {
    ISOBIT_CHECK(memory_ != nullptr, "no memory for {} bytes", size);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    data_ = reinterpret_cast<std::byte*>((address + kAlignment - 1) / kAlignment * kAlignment);
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::int64_t size() const { return size_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::int64_t size_ = 0;
  std::unique_ptr<void, Free> memory_;
  std::byte* data_ = nullptr;
};

}  // namespace isobit::cpu
