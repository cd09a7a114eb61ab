#include "tensor/tensor.h"

#include <fmt/format.h>

#include "base/check.h"

namespace isobit {

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i > 0 ? ", " : "", shape[i]);
  return text + "]";
}

std::int64_t NumElements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) {
    ISOBIT_CHECK(dim >= 0 && !__builtin_mul_overflow(count, dim, &count), "shape {} overflows", ToString(shape));
  }
  return count;
}

}  // namespace isobit
