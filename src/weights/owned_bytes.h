// OwnedBytes: a buffer for weights that cannot be used where they lie in the file. Not initialised;
// aligned to a cache line.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace isobit {

inline std::shared_ptr<std::byte[]> AllocateOwnedBytes(std::size_t size) {
  constexpr std::align_val_t kCacheLine{64};
  return {static_cast<std::byte*>(::operator new[](size, kCacheLine)),
          [](std::byte* data) { ::operator delete[](data, kCacheLine); }};
}

}  // namespace isobit
