// RawJson: a JSON value that keeps every number as the text the server wrote, because the gate compares digits, not values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isobit::gate {

struct RawJson {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool truth = false;             // of kBool
  std::string text;               // kNumber: its digits as written; kString: its bytes, unescaped
  std::vector<std::string> keys;  // of kObject, in the server's order; keys[i] belongs to items[i]
  std::vector<RawJson> items;     // of kArray and kObject

  bool is_null() const { return kind == Kind::kNull; }
  bool is_number() const { return kind == Kind::kNumber; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_object() const { return kind == Kind::kObject; }

  // The member, or null when this is no object or has none of that name. The first of equal keys.
  const RawJson* Find(std::string_view key) const;
  // The member's bytes if it is a string, else an empty text.
  std::string StringAt(std::string_view key) const;
  // The value if this is a whole number of at most 18 digits.
  std::optional<std::int64_t> Integer() const;
};

// Parses one value; depth at most 64. Bytes that are not UTF-8 pass unchanged: the gate wants to see them. An escaped lone
// surrogate becomes U+FFFD. Errors name the byte offset.
Result<RawJson> ParseRawJson(std::string_view text);

}  // namespace isobit::gate
