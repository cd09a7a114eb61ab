// Result<T>: a value, or an Error that says what went wrong, in which field, and what to do next. Never thrown across a room.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace isobit {

enum class ErrorCode {
  kInvalidArgument,    // the caller's value is wrong: HTTP 400, exit code 2
  kNotFound,           // no such file, model or name: HTTP 404
  kUnsupported,        // understood, but not done here: HTTP 400
  kCorrupt,            // bytes on disk that break their format
  kIo,                 // the system refused a read or a write
  kResourceExhausted,  // a stated maximum is reached: HTTP 429
  kNumeric,            // NaN or infinity where a number must be: fails that request only
  kCancelled,          // the asker left
  kInternal,           // a fault of ours that was caught
};

const char* ErrorCodeName(ErrorCode code);  // "invalid_argument", "not_found", ...

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string field;    // the request field, flag, file or tensor; may be empty
  std::string message;  // one sentence: what is wrong and what to do

  std::string ToString() const { return field.empty() ? message : field + ": " + message; }
};

// Fail(ErrorCode::kCorrupt, "model.gguf", "ends at byte {}, {} expected", a, b)
template <class... Args>
Error Fail(ErrorCode code, std::string field, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, std::move(field), fmt::format(format, std::forward<Args>(args)...)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: a value is a result
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: an error is a result

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    ISOBIT_CHECK(ok(), "{}", std::get<1>(state_).ToString());
    return std::get<0>(state_);
  }
  const T& value() const& {
    ISOBIT_CHECK(ok(), "{}", std::get<1>(state_).ToString());
    return std::get<0>(state_);
  }
  T&& value() && {
    ISOBIT_CHECK(ok(), "{}", std::get<1>(state_).ToString());
    return std::move(std::get<0>(state_));
  }
  const Error& error() const {
    ISOBIT_CHECK(!ok());
    return std::get<1>(state_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: an error is a result

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    ISOBIT_CHECK(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace isobit

#define ISOBIT_CONCAT_INNER(a, b) a##b
#define ISOBIT_CONCAT(a, b) ISOBIT_CONCAT_INNER(a, b)

// ISOBIT_TRY(Status expression): returns its error from the enclosing function.
#define ISOBIT_TRY(expression)                                        \
  do {                                                                \
    if (auto try_status = (expression); !try_status.ok()) return try_status.error(); \
  } while (false)

// ISOBIT_ASSIGN(auto value, Result expression): declares value, or returns the error.
#define ISOBIT_ASSIGN(declaration, expression)                                        \
  auto ISOBIT_CONCAT(try_result_, __LINE__) = (expression);                           \
  if (!ISOBIT_CONCAT(try_result_, __LINE__).ok())                                     \
    return ISOBIT_CONCAT(try_result_, __LINE__).error();                              \
  declaration = std::move(ISOBIT_CONCAT(try_result_, __LINE__)).value()
