#include "serve/field_reader.h"

#include <algorithm>
#include <cmath>

namespace isobit {
namespace {

// Unsigned values above 2^63 have no int64: the nearest that still fails every range check.
std::int64_t ClampedInt(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return INT64_MAX;
  return value.get<std::int64_t>();
}

}  // namespace

const char* JsonTypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return "a boolean";
    case Json::value_t::string: return "a string";
    case Json::value_t::array: return "a list";
    case Json::value_t::object: return "an object";
    case Json::value_t::number_float: return "a number with a fraction, or too large for an integer";
    default: return "an integer";
  }
}

Result<std::int32_t> JsonTokenId(const Json& value, std::int64_t vocab_size, const std::string& field) {
  if (!value.is_number_integer()) {
    return isobit::Fail(ErrorCode::kInvalidArgument, field, "must hold token ids, not {}", JsonTypeName(value));
  }
  const std::int64_t id = ClampedInt(value);
  if (id < 0 || id >= vocab_size) {
    return isobit::Fail(ErrorCode::kInvalidArgument, field, "token id {} is outside the vocabulary; use 0 to {}", value.dump(),
                        vocab_size - 1);
  }
  return static_cast<std::int32_t>(id);
}

const Json* FieldReader::Find(const char* name) {
  known_.emplace_back(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void FieldReader::Bool(const char* name, bool* out) {
  const Json* value = Find(name);
  if (!value) return;
  if (value->is_boolean()) *out = value->get<bool>();
  else Fail(ErrorCode::kInvalidArgument, name, fmt::format("must be true or false, not {}", JsonTypeName(*value)));
}

void FieldReader::Int(const char* name, std::int64_t min, std::int64_t max, std::int64_t* out) {
  const Json* value = Find(name);
  if (!value) return;
  if (!value->is_number_integer()) {
    Fail(ErrorCode::kInvalidArgument, name, fmt::format("must be an integer, not {}", JsonTypeName(*value)));
    return;
  }
  const std::int64_t number = ClampedInt(*value);
  if (number < min || number > max) {
    Fail(ErrorCode::kInvalidArgument, name, fmt::format("is {}; use {} to {}", value->dump(), min, max));
    return;
  }
  *out = number;
}

void FieldReader::OptionalInt(const char* name, std::int64_t min, std::int64_t max, std::optional<std::int64_t>* out) {
  std::int64_t number = min - 1;
  Int(name, min, max, &number);
  if (number >= min) *out = number;
}

void FieldReader::Float(const char* name, float* out) {
  const Json* value = Find(name);
  if (!value) return;
  if (!value->is_number()) {
    Fail(ErrorCode::kInvalidArgument, name, fmt::format("must be a number, not {}", JsonTypeName(*value)));
    return;
  }
  const float number = static_cast<float>(value->get<double>());
  if (!std::isfinite(number)) {
    Fail(ErrorCode::kInvalidArgument, name, "is too large for a 32-bit float");
    return;
  }
  *out = number;
}

void FieldReader::String(const char* name, std::size_t max_bytes, std::string* out) {
  const Json* value = Find(name);
  if (!value) return;
  if (!value->is_string()) {
    Fail(ErrorCode::kInvalidArgument, name, fmt::format("must be a string, not {}", JsonTypeName(*value)));
    return;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > max_bytes) {
    Fail(ErrorCode::kInvalidArgument, name, fmt::format("has {} bytes; at most {} are allowed", text.size(), max_bytes));
    return;
  }
  *out = text;
}

void FieldReader::IdSet(const char* name, std::int64_t vocab_size, std::vector<std::int32_t>* out) {
  const Json* value = Find(name);
  if (!value) return;
  if (!value->is_array()) {
    Fail(ErrorCode::kInvalidArgument, name, fmt::format("must be a list of token ids, not {}", JsonTypeName(*value)));
    return;
  }
  std::vector<std::int32_t> ids;
  for (const Json& item : *value) {
    const Result<std::int32_t> id = JsonTokenId(item, vocab_size, prefix_ + name);
    if (!id.ok()) {
      Fail(id.error());
      return;
    }
    ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  *out = std::move(ids);
}

void FieldReader::Fail(Error error) {
  if (!error_) error_ = std::move(error);
}

void FieldReader::Fail(ErrorCode code, std::string_view name, std::string message) {
  Fail(Error{code, prefix_ + std::string(name), std::move(message)});
}

std::vector<std::string> FieldReader::Unread() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : object_.items()) {
    if (!value.is_null() && std::find(known_.begin(), known_.end(), key) == known_.end()) unread.push_back(key);
  }
  return unread;
}

}  // namespace isobit
