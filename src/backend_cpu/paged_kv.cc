#include "backend_cpu/paged_kv.h"

#include <bit>
#include <cstring>

#include "contract/float_bits.h"
#include "contract/weight_formats.h"

namespace isobit::cpu {
namespace {

std::int64_t ElementBytes(contract::KvType type) {
  switch (type) {
    case contract::KvType::kF32: return 4;
    case contract::KvType::kF16:
    case contract::KvType::kBf16: return 2;
    case contract::KvType::kInt8: return 1;
  }
  ISOBIT_CHECK(false);
}

KvElement ElementOf(contract::KvType type) {
  switch (type) {
    case contract::KvType::kF32: return KvElement::kF32;
    case contract::KvType::kF16: return KvElement::kF16;
    case contract::KvType::kBf16: return KvElement::kBf16;
    case contract::KvType::kInt8: return KvElement::kInt8;
  }
  ISOBIT_CHECK(false);
}

// Rounds `from` to the type and scatters it at `stride` elements; returns the scale of int8.
float StoreHead(contract::KvType type, std::span<const float> from, std::byte* to, std::int64_t stride) {
  const auto count = static_cast<std::int64_t>(from.size());
  switch (type) {
    case contract::KvType::kF32:
      for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride * 4, &from[i], 4);
      return 0;
    case contract::KvType::kF16:
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint16_t bits = contract::F16FromF32(from[i]);
        std::memcpy(to + i * stride * 2, &bits, 2);
      }
      return 0;
    case contract::KvType::kBf16:
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint16_t bits = contract::Bf16FromF32(from[i]);
        std::memcpy(to + i * stride * 2, &bits, 2);
      }
      return 0;
    case contract::KvType::kInt8: {
      std::int8_t q[kMaxHeadDim];
      const contract::QuantizedGroup group = contract::QuantizeGroup(from, q);
      for (std::int64_t i = 0; i < count; ++i) to[i * stride] = static_cast<std::byte>(q[i]);
      return group.scale;
    }
  }
  ISOBIT_CHECK(false);
}

}  // namespace

Result<std::unique_ptr<PagedKv>> PagedKv::Make(const KvMemorySpec& spec) {
  if (spec.block_size < 8 || spec.block_size > 256 || !std::has_single_bit(static_cast<std::uint64_t>(spec.block_size))) {
    return Fail(ErrorCode::kInvalidArgument, "--block-size", "{} is not a power of two from 8 to 256", spec.block_size);
  }
  if (spec.num_layers <= 0 || spec.num_kv_heads <= 0 || spec.num_blocks <= 0 || spec.head_dim <= 0 || spec.head_dim > kMaxHeadDim) {
    return Fail(ErrorCode::kInvalidArgument, "kv_cache", "{} layers, {} kv heads of {} and {} blocks: each must be positive, a head at most {}",
                spec.num_layers, spec.num_kv_heads, spec.head_dim, spec.num_blocks, kMaxHeadDim);
  }
  auto kv = std::make_unique<PagedKv>();
  kv->spec = spec;
  kv->run_ = std::min<std::int64_t>(spec.block_size, kVectorLanes);
  kv->value_stride_ = (spec.head_dim + kVectorLanes - 1) / kVectorLanes * kVectorLanes;
  const std::int64_t bytes = ElementBytes(spec.type), blocks = spec.num_layers * spec.num_blocks;
  kv->key_block_bytes_ = spec.num_kv_heads * spec.block_size * spec.head_dim * bytes;
  kv->value_block_bytes_ = spec.num_kv_heads * spec.block_size * kv->value_stride_ * bytes;
  kv->scale_block_bytes_ = spec.type == contract::KvType::kInt8 ? spec.num_kv_heads * spec.block_size * 4 : 0;
  const auto take = [&](AlignedBuffer& buffer, std::int64_t block_bytes) -> Status {
    ISOBIT_ASSIGN(buffer, AlignedBuffer::Make(__int128{blocks} * block_bytes, "--kv-tokens"));
    return {};
  };
  ISOBIT_TRY(take(kv->keys_, kv->key_block_bytes_));
  ISOBIT_TRY(take(kv->values_, kv->value_block_bytes_));
  ISOBIT_TRY(take(kv->key_scales_, kv->scale_block_bytes_));
  ISOBIT_TRY(take(kv->value_scales_, kv->scale_block_bytes_));
  return kv;
}

std::int64_t PagedKv::size_bytes() const { return keys_.size() + values_.size() + key_scales_.size() + value_scales_.size(); }

CacheLayer PagedKv::Layer(std::int64_t layer) const {
  const std::int64_t first_block = layer * spec.num_blocks;
  return {.element = ElementOf(spec.type),
          .block_size = spec.block_size,
          .run = run_,
          .head_dim = spec.head_dim,
          .value_stride = value_stride_,
          .num_kv_heads = spec.num_kv_heads,
          .keys = keys_.data() + first_block * key_block_bytes_,
          .values = values_.data() + first_block * value_block_bytes_,
          .key_scales = reinterpret_cast<const float*>(key_scales_.data() + first_block * scale_block_bytes_),
          .value_scales = reinterpret_cast<const float*>(value_scales_.data() + first_block * scale_block_bytes_),
          .key_head_bytes = key_block_bytes_ / spec.num_kv_heads,
          .value_head_bytes = value_block_bytes_ / spec.num_kv_heads};
}

void PagedKv::Write(std::int64_t layer, std::int64_t block, std::int64_t inside, std::int64_t head, std::span<const float> key,
                    std::span<const float> value) {
  const std::int64_t bytes = ElementBytes(spec.type), index = layer * spec.num_blocks + block;
  std::byte* key_head = keys_.data() + index * key_block_bytes_ + head * (key_block_bytes_ / spec.num_kv_heads);
  std::byte* value_head = values_.data() + index * value_block_bytes_ + head * (value_block_bytes_ / spec.num_kv_heads);
  const std::int64_t key_place = inside / run_ * spec.head_dim * run_ + inside % run_;
  const float key_scale = StoreHead(spec.type, key, key_head + key_place * bytes, run_);
  const float value_scale = StoreHead(spec.type, value, value_head + inside * value_stride_ * bytes, 1);
  if (spec.type == contract::KvType::kInt8) {
    const std::int64_t place = index * scale_block_bytes_ + (head * spec.block_size + inside) * 4;
    std::memcpy(key_scales_.data() + place, &key_scale, 4);
    std::memcpy(value_scales_.data() + place, &value_scale, 4);
  }
}

}  // namespace isobit::cpu
