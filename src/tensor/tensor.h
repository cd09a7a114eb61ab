// TensorView: named bytes with a dtype and a row-major shape, outermost dimension first. Owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace isobit {

using Shape = std::vector<std::int64_t>;  // outermost first; [] is a scalar

std::string ToString(const Shape& shape);        // "[576, 1536]"
std::int64_t NumElements(const Shape& shape);    // CHECKs against overflow; readers of files check before

struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> data;         // rows packed, little-endian; exactly the bytes of shape and dtype
  std::shared_ptr<const void> keep_alive;  // the file map or buffer behind data

  std::int64_t num_rows() const { return shape.size() < 2 ? 1 : shape[0]; }
  std::int64_t num_columns() const { return shape.empty() ? 1 : shape.back(); }
};

}  // namespace isobit
