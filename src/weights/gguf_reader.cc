#include "weights/gguf_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "base/utf8.h"
#include "weights/gguf_format.h"
#include "weights/names.h"

namespace isobit {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place as little-endian");

// The fewest bytes that one element of a type takes: what a count is checked against before
// anything is allocated. 0: no such type.
std::uint64_t MinValueBytes(std::uint32_t type) {
  switch (static_cast<GgufValueType>(type)) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16:
      return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32:
      return 4;
    case GgufValueType::kString:
    case GgufValueType::kU64:
    case GgufValueType::kI64:
    case GgufValueType::kF64:
      return 8;
    case GgufValueType::kArray:
      return 12;  // element type and count
  }
  return 0;
}

// Empty names count here and get their own error later.
constexpr std::uint64_t kMinPairBytes = 8 + 4 + 1;  // key length, type, value
constexpr std::uint64_t kMinTensorInfoBytes =
    8 + 4 + 8 + 4 + 8;  // name length, n_dims, one dim, type, offset

// What a tensor info says before offsets are known to fit the file.
struct TensorInfo {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t offset;  // from the start of the data section
  std::uint64_t size;    // bytes
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view path) : bytes_(bytes), path_(path) {}

  Result<GgufFile> Parse(const std::shared_ptr<const void>& keep_alive) {
    GgufFile file;
    ISOBIT_TRY(ReadHeader(file));
    ISOBIT_TRY(ReadMetadata(file));
    ISOBIT_TRY(ReadAlignment(file));
    ISOBIT_TRY(ReadTensorInfos());
    ISOBIT_TRY(PlaceTensors(file, keep_alive));
    return file;
  }

 private:
  std::uint64_t remaining() const { return bytes_.size() - position_; }

  Error Corrupt(std::string_view what) const {
    return Fail(ErrorCode::kCorrupt, path_, "{}; fetch the file again", what);
  }

  template <class T>
  Status Take(T& value, std::string_view what) {
    if (remaining() < sizeof(T))
      return Corrupt(fmt::format("ends inside {} at byte {}", what, bytes_.size()));
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return {};
  }

  // A length-prefixed string, still in the file's bytes.
  Status TakeString(std::string_view& text, std::uint64_t max_bytes, std::string_view what) {
    std::uint64_t length = 0;
    ISOBIT_TRY(Take(length, what));
    if (length > remaining()) {
      return Corrupt(
          fmt::format("{} claims {} bytes where {} are left", what, length, remaining()));
    }
    if (length > max_bytes)
      return Corrupt(
          fmt::format("{} has {} bytes, the most allowed is {}", what, length, max_bytes));
    text = {reinterpret_cast<const char*>(bytes_.data() + position_), length};
    position_ += length;
    return {};
  }

  Status ReadHeader(GgufFile& file) {
    std::uint32_t magic = 0;
    ISOBIT_TRY(Take(magic, "the magic"));
    if (magic != 0x46554747)
      return Corrupt("does not begin with \"GGUF\", so it is not a GGUF file");
    ISOBIT_TRY(Take(file.version, "the version"));
    if (file.version == std::uint32_t{2} << 24 || file.version == std::uint32_t{3} << 24) {
      return Fail(ErrorCode::kUnsupported, path_,
                  "is a big-endian GGUF file; convert it to little-endian");
    }
    if (file.version != 2 && file.version != 3) {
      return Fail(ErrorCode::kUnsupported, path_, "is GGUF version {}; versions 2 and 3 are read",
                  file.version);
    }
    ISOBIT_TRY(Take(num_tensors_, "the tensor count"));
    ISOBIT_TRY(Take(num_keys_, "the metadata count"));
    if (num_tensors_ > remaining() / kMinTensorInfoBytes || num_tensors_ > kMaxGgufTensors) {
      return Corrupt(
          fmt::format("claims {} tensors; its {} bytes cannot hold them, or they are more than {}",
                      num_tensors_, bytes_.size(), kMaxGgufTensors));
    }
    if (num_keys_ > remaining() / kMinPairBytes || num_keys_ > kMaxGgufKeys) {
      return Corrupt(fmt::format(
          "claims {} metadata keys; its {} bytes cannot hold them, or they are more than {}",
          num_keys_, bytes_.size(), kMaxGgufKeys));
    }
    return {};
  }

  Status ReadMetadata(GgufFile& file) {
    file.metadata = Json::object();
    auto& object = file.metadata.get_ref<Json::object_t&>();
    object.reserve(num_keys_);  // growth would copy every vocabulary read so far
    std::set<std::string_view> seen;
    for (std::uint64_t i = 0; i < num_keys_; ++i) {
      std::string_view key;
      ISOBIT_TRY(TakeString(key, kMaxGgufKeyBytes, fmt::format("metadata key {}", i)));
      ISOBIT_TRY(CheckName(key, kMaxGgufKeyBytes, "metadata key", path_));
      if (!seen.insert(key).second) return KeyError(key, "appears twice");
      std::uint32_t type = 0;
      ISOBIT_TRY(Take(type, fmt::format("the type of {}", Printable(key))));
      object.emplace_back(std::string(key), Json());
      ISOBIT_TRY(ReadValue(key, type, /*depth=*/0, object.back().second));
    }
    return {};
  }

  static Error KeyError(std::string_view key, std::string_view what) {
    return Fail(ErrorCode::kCorrupt, std::string(key),
                "this metadata key {}; the file is damaged or was written by a faulty tool", what);
  }

  template <class T>
  Status TakeNumber(std::string_view key, Json& out) {
    T value{};
    if (remaining() < sizeof(T)) return KeyError(key, "ends behind the end of the file");
    ISOBIT_TRY(Take(value, key));
    if constexpr (std::is_same_v<T, float>) {
      out = static_cast<double>(value);
    } else {
      out = value;
    }
    return {};
  }

  Status ReadValue(std::string_view key, std::uint32_t type, int depth, Json& out) {
    switch (static_cast<GgufValueType>(type)) {
      case GgufValueType::kU8:
        return TakeNumber<std::uint8_t>(key, out);
      case GgufValueType::kI8:
        return TakeNumber<std::int8_t>(key, out);
      case GgufValueType::kU16:
        return TakeNumber<std::uint16_t>(key, out);
      case GgufValueType::kI16:
        return TakeNumber<std::int16_t>(key, out);
      case GgufValueType::kU32:
        return TakeNumber<std::uint32_t>(key, out);
      case GgufValueType::kI32:
        return TakeNumber<std::int32_t>(key, out);
      case GgufValueType::kF32:
        return TakeNumber<float>(key, out);
      case GgufValueType::kU64:
        return TakeNumber<std::uint64_t>(key, out);
      case GgufValueType::kI64:
        return TakeNumber<std::int64_t>(key, out);
      case GgufValueType::kF64:
        return TakeNumber<double>(key, out);
      case GgufValueType::kBool: {
        std::uint8_t value = 0;
        if (remaining() < 1) return KeyError(key, "ends behind the end of the file");
        ISOBIT_TRY(Take(value, key));
        if (value > 1)
          return KeyError(key, fmt::format("is a bool of value {}; 0 or 1 expected", value));
        out = value == 1;
        return {};
      }
      case GgufValueType::kString:
        return ReadString(key, out);
      case GgufValueType::kArray:
        return ReadArray(key, depth, out);
    }
    return KeyError(key, fmt::format("has value type {}, which GGUF does not define", type));
  }

  Status ReadString(std::string_view key, Json& out) {
    std::uint64_t length = 0;
    if (remaining() < sizeof length) return KeyError(key, "ends behind the end of the file");
    ISOBIT_TRY(Take(length, key));
    if (length > remaining()) {
      return KeyError(key, fmt::format("holds a string that claims {} bytes where {} are left",
                                       length, remaining()));
    }
    if (length > kMaxGgufStringBytes) {
      return KeyError(key, fmt::format("holds a string of {} bytes, the most allowed is {}", length,
                                       kMaxGgufStringBytes));
    }
    const std::string_view text{reinterpret_cast<const char*>(bytes_.data() + position_), length};
    if (!IsValidUtf8(text))
      return KeyError(key,
                      fmt::format("holds a string that is not valid UTF-8 at byte {}", position_));
    position_ += length;
    out = std::string(text);
    return {};
  }

  Status ReadArray(std::string_view key, int depth, Json& out) {
    if (depth >= kMaxGgufArrayDepth)
      return KeyError(key, fmt::format("nests arrays deeper than {}", kMaxGgufArrayDepth));
    std::uint32_t type = 0;
    std::uint64_t count = 0;
    if (remaining() < sizeof type + sizeof count)
      return KeyError(key, "ends behind the end of the file");
    ISOBIT_TRY(Take(type, key));
    ISOBIT_TRY(Take(count, key));
    const std::uint64_t element_bytes = MinValueBytes(type);
    if (element_bytes == 0)
      return KeyError(key, fmt::format("has element type {}, which GGUF does not define", type));
    if (count > remaining() / element_bytes) {
      return KeyError(
          key, fmt::format("claims {} elements where {} bytes are left", count, remaining()));
    }
    num_array_elements_ += count;  // no overflow: both are bounded by the file's size
    if (num_array_elements_ > kMaxGgufArrayElements) {
      return KeyError(
          key, fmt::format("brings the file's array elements above {}", kMaxGgufArrayElements));
    }
    Json::array_t elements(count);
    for (Json& element : elements) ISOBIT_TRY(ReadValue(key, type, depth + 1, element));
    out = std::move(elements);
    return {};
  }

  Status ReadAlignment(GgufFile& file) {
    file.alignment = kDefaultGgufAlignment;
    const auto found = file.metadata.find("general.alignment");
    if (found != file.metadata.end()) {
      if (!found->is_number_unsigned())
        return KeyError("general.alignment", "is not an unsigned integer");
      file.alignment = found->get<std::uint64_t>();
      if (file.alignment == 0 || file.alignment % 8 != 0 || file.alignment > kMaxGgufAlignment) {
        return KeyError("general.alignment", fmt::format("is {}; a multiple of 8 up to {} expected",
                                                         file.alignment, kMaxGgufAlignment));
      }
    }
    alignment_ = file.alignment;
    return {};
  }

  static Error TensorError(std::string_view name, std::string_view what) {
    return Fail(ErrorCode::kCorrupt, std::string(name),
                "this tensor {}; the file is damaged or was written by a faulty tool", what);
  }

  Status ReadTensorInfos() {
    infos_.reserve(num_tensors_);
    std::set<std::string_view> seen;
    for (std::uint64_t i = 0; i < num_tensors_; ++i) {
      std::string_view name;
      ISOBIT_TRY(TakeString(name, kMaxGgufTensorNameBytes, fmt::format("tensor name {}", i)));
      ISOBIT_TRY(CheckName(name, kMaxGgufTensorNameBytes, "tensor name", path_));
      if (!seen.insert(name).second) return TensorError(name, "appears twice");
      ISOBIT_TRY(ReadTensorInfo(name));
    }
    return {};
  }

  Status ReadTensorInfo(std::string_view name) {
    const std::string what = fmt::format("the description of tensor {}", Printable(name));
    std::uint32_t num_dims = 0, type_number = 0;
    ISOBIT_TRY(Take(num_dims, what));
    if (num_dims < 1 || num_dims > 4)
      return TensorError(name, fmt::format("has {} dimensions; 1 to 4 expected", num_dims));
    TensorInfo info{.name = std::string(name),
                    .dtype = DType::kF32,
                    .shape = Shape(num_dims),
                    .offset = 0,
                    .size = 0};
    std::int64_t num_elements = 1;
    for (std::uint32_t d = 0; d < num_dims; ++d) {
      std::uint64_t dim = 0;
      ISOBIT_TRY(Take(dim, what));
      if (dim == 0) return TensorError(name, fmt::format("has dimension {} of size 0", d));
      if (dim > std::uint64_t{std::numeric_limits<std::int64_t>::max()} ||
          __builtin_mul_overflow(num_elements, static_cast<std::int64_t>(dim), &num_elements)) {
        return TensorError(name, "has more elements than 63 bits can count");
      }
      info.shape[num_dims - 1 - d] =
          static_cast<std::int64_t>(dim);  // the file has the contiguous dimension first
    }
    ISOBIT_TRY(Take(type_number, what));
    ISOBIT_TRY(Take(info.offset, what));

    const GgmlType* type = FindGgmlType(type_number);
    if (type == nullptr) {
      return Fail(ErrorCode::kUnsupported, info.name,
                  "has tensor type {}, which is not known; is the file newer than this program?",
                  type_number);
    }
    if (!type->dtype.has_value()) {
      return Fail(
          ErrorCode::kUnsupported, info.name,
          "{} is not supported yet; use a file of f32, f16, bf16, q8_0, q4_0 and q4_1 tensors",
          type->name);
    }
    info.dtype = *type->dtype;
    const DTypeInfo& layout = Info(info.dtype);
    if (info.shape.back() % layout.block_values != 0) {
      return TensorError(name,
                         fmt::format("has rows of {} values, not a multiple of {}'s block of {}",
                                     info.shape.back(), layout.name, layout.block_values));
    }
    std::int64_t size = 0;
    if (__builtin_mul_overflow(num_elements / layout.block_values, std::int64_t{layout.block_bytes},
                               &size)) {
      return TensorError(name, "has more bytes than 63 bits can count");
    }
    info.size = static_cast<std::uint64_t>(size);
    if (info.size > bytes_.size()) {
      return TensorError(name,
                         fmt::format("needs {} bytes in a file of {}", info.size, bytes_.size()));
    }
    if (info.offset % alignment_ != 0) {
      return TensorError(
          name, fmt::format("begins at offset {}, not a multiple of the alignment {}", info.offset,
                            alignment_));
    }
    infos_.push_back(std::move(info));
    return {};
  }

  // Rounded up to the alignment. The arguments are at most the file's size plus one alignment, so
  // nothing wraps.
  std::uint64_t Align(std::uint64_t value) const {
    return (value + alignment_ - 1) / alignment_ * alignment_;
  }

  // The tensors must tile the data section: in offset order each begins where the one before it
  // ends, padding included, and the file ends with the last one, with or without its padding.
  Status PlaceTensors(GgufFile& file, const std::shared_ptr<const void>& keep_alive) {
    const std::uint64_t data_start = Align(position_);
    std::vector<const TensorInfo*> by_offset;
    for (const TensorInfo& info : infos_) by_offset.push_back(&info);
    std::sort(by_offset.begin(), by_offset.end(), [](const TensorInfo* a, const TensorInfo* b) {
      return std::tie(a->offset, a->name) < std::tie(b->offset, b->name);
    });
    std::uint64_t end = 0;  // of the data seen so far, from data_start
    for (const TensorInfo* info : by_offset) {
      if (info->offset < end) {
        return TensorError(
            info->name,
            fmt::format("begins at offset {}, inside the tensor before it", info->offset));
      }
      if (info->offset > Align(end)) {
        return TensorError(info->name, fmt::format("begins at offset {}, {} expected: a hole",
                                                   info->offset, Align(end)));
      }
      if (data_start > bytes_.size() || info->offset > bytes_.size() - data_start ||
          info->size > bytes_.size() - data_start - info->offset) {
        return TensorError(
            info->name,
            fmt::format(
                "ends behind the end of the file ({} bytes from offset {} of the data at {}, file "
                "of {})",
                info->size, info->offset, data_start, bytes_.size()));
      }
      end = info->offset + info->size;
    }
    const std::uint64_t header_end = infos_.empty() ? position_ : data_start;
    const std::uint64_t file_end = Align(header_end + end);
    if (bytes_.size() > file_end) {
      return Corrupt(fmt::format("has {} bytes behind its last tensor, which ends at byte {}",
                                 bytes_.size() - header_end - end, header_end + end));
    }

    file.tensors.reserve(infos_.size());
    for (TensorInfo& info : infos_) {
      const auto data = bytes_.subspan(data_start + info.offset, info.size);
      file.tensors.push_back(
          {std::move(info.name), info.dtype, std::move(info.shape), data, keep_alive});
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  std::string path_;
  std::size_t position_ = 0;
  std::uint64_t num_tensors_ = 0;
  std::uint64_t num_keys_ = 0;
  std::uint64_t num_array_elements_ = 0;
  std::uint64_t alignment_ = kDefaultGgufAlignment;
  std::vector<TensorInfo> infos_;
};

}  // namespace

Result<GgufFile> ParseGguf(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive,
                           std::string_view path) {
  return Parser(bytes, path).Parse(keep_alive);
}

Result<GgufFile> ReadGguf(const std::shared_ptr<const MappedFile>& file) {
  return ParseGguf(file->bytes(), file, file->path());
}

}  // namespace isobit
