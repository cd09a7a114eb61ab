// AlignedBuffer: zeroed memory on a cache-line boundary, with a spare line behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/result.h"

namespace isobit::cpu {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // calloc: large sizes come from the kernel as zero pages that cost nothing before they are used.
  explicit AlignedBuffer(std::int64_t size) { ISOBIT_CHECK(Take(size), "no memory for {} bytes", size); }
  // kResourceExhausted naming `field` (a flag) if the machine does not give that much.
  static Result<AlignedBuffer> Make(__int128 size, const char* field) {
    constexpr __int128 kMax = __int128{1} << 46;
    AlignedBuffer buffer;
    if (size > kMax || !buffer.Take(static_cast<std::int64_t>(size))) {
      return Fail(ErrorCode::kResourceExhausted, field, "asks for {} MiB of memory, more than there is; ask for less",
                  static_cast<std::int64_t>(size >> 20));
    }
    return buffer;
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::int64_t size() const { return size_; }

 private:
  static constexpr std::size_t kAlignment = 64;

  bool Take(std::int64_t size) {
    memory_.reset(std::calloc(1, static_cast<std::size_t>(size) + 2 * kAlignment));
    if (memory_ == nullptr) return false;
    size_ = size;
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    data_ = reinterpret_cast<std::byte*>((address + kAlignment - 1) / kAlignment * kAlignment);
    return true;
  }

  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::int64_t size_ = 0;
  std::unique_ptr<void, Free> memory_;
  std::byte* data_ = nullptr;
};

}  // namespace isobit::cpu
