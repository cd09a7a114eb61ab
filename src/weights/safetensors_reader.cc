#include "weights/safetensors_reader.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "weights/names.h"
#include "weights/owned_bytes.h"

namespace isobit {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors is read in place as little-endian");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxRank = 8;

struct Entry {
  std::string dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;  // begin, end
};

// Reads the header's JSON as events: linear in its length whatever it holds, where building a tree
// would not be. Accepts exactly
//   { "__metadata__": {string: string...}, NAME: {"dtype": string, "shape": [n...], "data_offsets":
//   [n, n]}... }
class HeaderHandler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit HeaderHandler(std::string_view path) : path_(path) {}

  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;
  std::optional<Error> error;

  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) {
    return Unexpected("a number that is no integer");
  }
  bool binary(binary_t&) { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (where_ != Where::kList) return Unexpected("a number");
    const std::size_t most = list_ == &entry_->shape ? kMaxRank : 2;
    if ((*list_)->size() == most)
      return Refuse(name_, fmt::format("has more than {} numbers in \"{}\"", most, field_));
    (*list_)->push_back(value);
    return true;
  }

  bool string(string_t& value) {
    if (where_ == Where::kMetadata) {
      metadata[field_] = value;
      return true;
    }
    if (where_ != Where::kEntry || field_ != "dtype") return Unexpected("a string");
    entry_->dtype = value;
    return true;
  }

  bool start_object(std::size_t) {
    if (where_ == Where::kStart) {
      where_ = Where::kTop;
    } else if (where_ == Where::kTop) {
      where_ = name_ == "__metadata__" ? Where::kMetadata : Where::kEntry;
      fields_.clear();
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool key(string_t& key) {
    if (where_ == Where::kTop) {
      if (const Status status = CheckName(key, kMaxNameBytes, "tensor name", path_); !status.ok()) {
        error = status.error();
        return false;
      }
      name_ = key;
      if (name_ == "__metadata__") {
        if (std::exchange(has_metadata_, true)) return Refuse(name_, "appears twice");
        return true;
      }
      const auto [position, inserted] = entries.try_emplace(name_);
      if (!inserted) return Refuse(name_, "appears twice");
      entry_ = &position->second;
      return true;
    }
    field_ = key;
    if (where_ == Where::kMetadata) {
      if (metadata.contains(field_))
        return Refuse(name_, fmt::format("has the key \"{}\" twice", Printable(field_)));
      return true;
    }
    if (field_ != "dtype" && field_ != "shape" && field_ != "data_offsets") {
      return Refuse(name_, fmt::format("has the field \"{}\", which safetensors does not define",
                                       Printable(field_)));
    }
    if (std::find(fields_.begin(), fields_.end(), field_) != fields_.end()) {
      return Refuse(name_, fmt::format("has \"{}\" twice", field_));
    }
    fields_.push_back(field_);
    return true;
  }

  bool end_object() {
    where_ = where_ == Where::kTop ? Where::kEnd : Where::kTop;
    return true;
  }

  bool start_array(std::size_t) {
    if (where_ != Where::kEntry || field_ == "dtype") return Unexpected("an array");
    list_ = field_ == "shape" ? &entry_->shape : &entry_->offsets;
    list_->emplace();
    where_ = Where::kList;
    return true;
  }

  bool end_array() {
    where_ = Where::kEntry;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) {
    error = Fail(ErrorCode::kCorrupt, path_,
                 "has a header that is not valid JSON at its byte {}; fetch the file again", byte);
    return false;
  }

 private:
  enum class Where { kStart, kTop, kMetadata, kEntry, kList, kEnd };

  bool Unexpected(std::string_view what) {
    const bool inside =
        where_ == Where::kMetadata || where_ == Where::kEntry || where_ == Where::kList;
    if (inside) return Refuse(name_, fmt::format("has {} in \"{}\"", what, Printable(field_)));
    return Refuse(where_ == Where::kStart ? path_ : name_,
                  fmt::format("is {} where an object is expected", what));
  }

  bool Refuse(const std::string& field, std::string_view what) {
    error = Fail(ErrorCode::kCorrupt, field,
                 "{} in the safetensors header; the file was written by a faulty tool", what);
    return false;
  }

  std::string path_;
  Where where_ = Where::kStart;
  bool has_metadata_ = false;
  std::string name_;                 // key at the top
  std::string field_;                // key inside name_
  std::vector<std::string> fields_;  // seen inside name_
  Entry* entry_ = nullptr;
  std::optional<std::vector<std::uint64_t>>* list_ = nullptr;
};

struct NamedDType {
  const char* name;
  DType dtype;
};
constexpr NamedDType kDTypes[] = {{"F32", DType::kF32},   {"F16", DType::kF16},
                                  {"BF16", DType::kBF16}, {"I8", DType::kI8},
                                  {"I32", DType::kI32},   {"I64", DType::kI64}};

struct Extent {
  std::uint64_t begin;
  std::uint64_t end;
  const std::string* name;
};

Error TensorError(const std::string& name, std::string_view what) {
  return Fail(ErrorCode::kCorrupt, name,
              "this tensor {}; the file is damaged or was written by a faulty tool", what);
}

// dtype and shape into view; the extent must hold exactly them.
Status Describe(const std::string& name, const Entry& entry, TensorView& view) {
  if (entry.dtype.empty()) return TensorError(name, "has no \"dtype\"");
  if (!entry.shape.has_value()) return TensorError(name, "has no \"shape\"");
  if (!entry.offsets.has_value() || entry.offsets->size() != 2)
    return TensorError(name, "has no two \"data_offsets\"");
  const auto* type = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                  [&](const NamedDType& t) { return entry.dtype == t.name; });
  if (type == std::end(kDTypes)) {
    return Fail(ErrorCode::kUnsupported, name,
                "dtype {} is not supported; F32, F16, BF16, I8, I32 and I64 are read",
                Printable(entry.dtype));
  }
  view.name = name;
  view.dtype = type->dtype;
  std::int64_t num_elements = 1;
  for (const std::uint64_t dim : *entry.shape) {
    if (dim > std::uint64_t{std::numeric_limits<std::int64_t>::max()} ||
        __builtin_mul_overflow(num_elements, static_cast<std::int64_t>(dim), &num_elements)) {
      return TensorError(name, "has more elements than 63 bits can count");
    }
    view.shape.push_back(static_cast<std::int64_t>(dim));
  }
  std::int64_t size = 0;
  if (__builtin_mul_overflow(num_elements, std::int64_t{Info(view.dtype).block_bytes}, &size)) {
    return TensorError(name, "has more bytes than 63 bits can count");
  }
  const std::uint64_t begin = (*entry.offsets)[0], end = (*entry.offsets)[1];
  if (begin > end)
    return TensorError(name,
                       fmt::format("has data_offsets [{}, {}] that run backwards", begin, end));
  if (end - begin != static_cast<std::uint64_t>(size)) {
    return TensorError(name, fmt::format("holds {} bytes, but {} {} needs {}", end - begin,
                                         entry.dtype, ToString(view.shape), size));
  }
  return {};
}

// The extents must tile the data: no overlap, no hole, an exact end.
Status CheckTiling(std::vector<Extent>& extents, std::uint64_t data_size, const std::string& path) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.begin, a.end, *a.name) < std::tie(b.begin, b.end, *b.name);
  });
  std::uint64_t position = 0;
  for (const Extent& extent : extents) {
    if (extent.begin < position) {
      return TensorError(*extent.name,
                         fmt::format("begins at {}, inside the tensor before it", extent.begin));
    }
    if (extent.begin > position) {
      return TensorError(*extent.name,
                         fmt::format("begins at {}, {} expected: a hole", extent.begin, position));
    }
    if (extent.end > data_size) {
      return TensorError(*extent.name,
                         fmt::format("ends at {}, behind the {} bytes of data in the file",
                                     extent.end, data_size));
    }
    position = extent.end;
  }
  if (position != data_size) {
    return Fail(ErrorCode::kCorrupt, path,
                "has {} bytes behind its last tensor; fetch the file again", data_size - position);
  }
  return {};
}

}  // namespace

Result<SafetensorsFile> ParseSafetensors(std::span<const std::byte> bytes,
                                         std::shared_ptr<const void> keep_alive,
                                         std::string_view path_view) {
  const std::string path(path_view);
  std::uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size) {
    return Fail(ErrorCode::kCorrupt, path,
                "has {} bytes, too few for a safetensors file; fetch it again", bytes.size());
  }
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > kMaxHeaderBytes || header_size > bytes.size() - sizeof header_size) {
    return Fail(
        ErrorCode::kCorrupt, path,
        "claims a header of {} bytes in a file of {}; it is truncated or not a safetensors file",
        header_size, bytes.size());
  }
  const std::string_view header{reinterpret_cast<const char*>(bytes.data()) + sizeof header_size,
                                header_size};
  if (header.empty() || header.front() != '{') {
    return Fail(ErrorCode::kCorrupt, path,
                "has a header that does not begin with '{{'; it is not a safetensors file");
  }
  HeaderHandler handler(path);
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &handler)) {
    ISOBIT_CHECK(handler.error.has_value());
    return *handler.error;
  }

  const auto data = bytes.subspan(sizeof header_size + header_size);
  SafetensorsFile file;
  file.metadata = std::move(handler.metadata);
  std::vector<Extent> extents;
  for (const auto& [name, entry] : handler.entries) {
    ISOBIT_TRY(Describe(name, entry, file.tensors.emplace_back()));
    extents.push_back({(*entry.offsets)[0], (*entry.offsets)[1], &name});
  }
  ISOBIT_TRY(CheckTiling(extents, data.size(), path));

  for (TensorView& view : file.tensors) {
    const Entry& entry = handler.entries.at(view.name);
    view.data = data.subspan((*entry.offsets)[0], (*entry.offsets)[1] - (*entry.offsets)[0]);
    view.keep_alive = keep_alive;
    const auto element_bytes = static_cast<std::uintptr_t>(Info(view.dtype).block_bytes);
    if (reinterpret_cast<std::uintptr_t>(view.data.data()) % element_bytes != 0) {
      const auto copy = AllocateOwnedBytes(view.data.size());
      std::copy(view.data.begin(), view.data.end(), copy.get());
      view.data = {copy.get(), view.data.size()};
      view.keep_alive = copy;
    }
  }
  return file;
}

Result<SafetensorsFile> ReadSafetensors(const std::shared_ptr<const MappedFile>& file) {
  return ParseSafetensors(file->bytes(), file, file->path());
}

}  // namespace isobit
