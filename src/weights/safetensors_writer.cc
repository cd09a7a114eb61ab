#include "weights/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <tuple>

#include "base/file.h"
#include "base/json.h"

namespace isobit {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors is written as it lies in memory");

const char* FormatName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kI8:
      return "I8";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
    default:
      return nullptr;
  }
}

}  // namespace

Result<std::string> SafetensorsBytes(const std::vector<TensorView>& tensors,
                                     const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorView*> order;
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == "__metadata__") {
      return Fail(ErrorCode::kInvalidArgument, tensor.name,
                  "a tensor cannot have this name; choose another");
    }
    if (!names.insert(tensor.name).second) {
      return Fail(ErrorCode::kInvalidArgument, tensor.name,
                  "two tensors have this name; rename one");
    }
    if (FormatName(tensor.dtype) == nullptr) {
      return Fail(ErrorCode::kUnsupported, tensor.name,
                  "safetensors has no dtype for {}; widen the tensor first", Name(tensor.dtype));
    }
    ISOBIT_CHECK(static_cast<std::int64_t>(tensor.data.size()) ==
                     NumElements(tensor.shape) * Info(tensor.dtype).block_bytes,
                 "{}: {} bytes for {} {}", tensor.name, tensor.data.size(), Name(tensor.dtype),
                 ToString(tensor.shape));
    order.push_back(&tensor);
  }
  // Widest elements first keeps every tensor aligned behind an aligned header.
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    const int a_width = -Info(a->dtype).block_bytes, b_width = -Info(b->dtype).block_bytes;
    return std::tie(a_width, a->name) < std::tie(b_width, b->name);
  });

  std::string header = "{";
  const auto separate = [&] { return header.size() > 1 ? "," : ""; };
  if (!metadata.empty()) {
    Json texts = Json::object();
    for (const auto& [key, value] : metadata) texts[key] = value;
    header += "\"__metadata__\":" + DumpJson(texts);
  }
  std::size_t position = 0;
  for (const TensorView* tensor : order) {
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          separate(), DumpJson(Json(tensor->name)), FormatName(tensor->dtype),
                          DumpJson(Json(tensor->shape)), position, position + tensor->data.size());
    position += tensor->data.size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');

  const std::uint64_t header_size = header.size();
  std::string bytes;
  bytes.reserve(sizeof header_size + header.size() + position);
  bytes.append(reinterpret_cast<const char*>(&header_size), sizeof header_size);
  bytes += header;
  for (const TensorView* tensor : order)
    bytes.append(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size());
  return bytes;
}

Status WriteSafetensors(const std::string& path, const std::vector<TensorView>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  ISOBIT_ASSIGN(const std::string bytes, SafetensorsBytes(tensors, metadata));
  return WriteFile(path, bytes);
}

}  // namespace isobit
