// FieldReader: the fields of one JSON object, read by name, type and range. The first error is kept and names the field; null means
// absent everywhere; what nobody asked for can be listed at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace isobit {

class FieldReader {
 public:
  // prefix: what comes before a name in errors, e.g. "stream_options.".
  explicit FieldReader(const Json& object, std::string prefix = {}) : object_(object), prefix_(std::move(prefix)) {}

  // The value, or nullptr if absent or null. Marks the name as known.
  const Json* Find(const char* name);

  // Each leaves *out as it is if the field is absent, null or wrong.
  void Bool(const char* name, bool* out);
  void Int(const char* name, std::int64_t min, std::int64_t max, std::int64_t* out);
  void OptionalInt(const char* name, std::int64_t min, std::int64_t max, std::optional<std::int64_t>* out);
  void Float(const char* name, float* out);  // any JSON number that is a finite float32
  void String(const char* name, std::size_t max_bytes, std::string* out);
  // A list of ids in [0, vocab_size), made ascending, each once.
  void IdSet(const char* name, std::int64_t vocab_size, std::vector<std::int32_t>* out);

  void Fail(Error error);
  // Error{code, prefix + name, message}
  void Fail(ErrorCode code, std::string_view name, std::string message);
  bool failed() const { return error_.has_value(); }
  Status status() const { return error_ ? Status(*error_) : Status(); }

  // Names present with a value other than null that were never asked for, in the order sent.
  std::vector<std::string> Unread() const;

 private:
  const Json& object_;
  std::string prefix_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

const char* JsonTypeName(const Json& value);  // "a string", "a list", ...

// value as an id in [0, vocab_size); the error says `what`.
Result<std::int32_t> JsonTokenId(const Json& value, std::int64_t vocab_size, const std::string& field);

}  // namespace isobit
