// PagedKv: the keys and values of every layer in blocks (layout: CacheLayer in kernels.h), zeroed at start.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend_cpu/aligned_buffer.h"
#include "backend_cpu/kernels.h"

namespace isobit::cpu {

class PagedKv : public KvMemory {
 public:
  static Result<std::unique_ptr<PagedKv>> Make(const KvMemorySpec& spec);

  std::int64_t size_bytes() const override;
  CacheLayer Layer(std::int64_t layer) const;

  // Stores one head's key and value of one token, rounded to the cache's type.
  void Write(std::int64_t layer, std::int64_t block, std::int64_t inside, std::int64_t head, std::span<const float> key,
             std::span<const float> value);

 private:
  std::int64_t run_ = 0, value_stride_ = 0, key_block_bytes_ = 0, value_block_bytes_ = 0, scale_block_bytes_ = 0;
  AlignedBuffer keys_, values_, key_scales_, value_scales_;  // [layer][block][head]...
};

}  // namespace isobit::cpu
