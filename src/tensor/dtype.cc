#include "tensor/dtype.h"

#include "base/check.h"

namespace isobit {

const DTypeInfo& Info(DType dtype) {
  static constexpr DTypeInfo kF32{"f32", 1, 4}, kF16{"f16", 1, 2}, kBF16{"bf16", 1, 2}, kI8{"i8", 1, 1},
      kI32{"i32", 1, 4}, kI64{"i64", 1, 8}, kQ8_0{"q8_0", 32, 34}, kQ4_0{"q4_0", 32, 18}, kQ4_1{"q4_1", 32, 20},
      kI8G128{"i8g128", 128, 132};
  switch (dtype) {
    case DType::kF32: return kF32;
    case DType::kF16: return kF16;
    case DType::kBF16: return kBF16;
    case DType::kI8: return kI8;
    case DType::kI32: return kI32;
    case DType::kI64: return kI64;
    case DType::kQ8_0: return kQ8_0;
    case DType::kQ4_0: return kQ4_0;
    case DType::kQ4_1: return kQ4_1;
    case DType::kI8G128: return kI8G128;
  }
  ISOBIT_CHECK(false, "unknown dtype {}", static_cast<int>(dtype));
}

std::int64_t RowBytes(DType dtype, std::int64_t num_values) {
  const DTypeInfo& info = Info(dtype);
  const bool may_be_short = dtype == DType::kI8G128;
  ISOBIT_CHECK(num_values >= 0 && (may_be_short || num_values % info.block_values == 0), "{} values in blocks of {}",
               num_values, info.block_values);
  return (num_values + info.block_values - 1) / info.block_values * info.block_bytes;
}

}  // namespace isobit
