// JSON: nlohmann's ordered value for reading, and our own writer, so that equal floats are equal text and no byte of model text
// can throw.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isobit {

using Json = nlohmann::ordered_json;

// Parses one JSON value. Errors (kInvalidArgument, field) name the byte offset. Refuses: invalid UTF-8, duplicate keys in an
// object, more than 10000 keys in one object, nesting deeper than 64, and NaN or infinity spelled as numbers.
Result<Json> ParseJson(std::string_view text, std::string_view field);

// Compact text. Floats that came from float32 must be put in with JsonFloat. Invalid UTF-8 in strings becomes U+FFFD; never throws.
std::string DumpJson(const Json& value, int indent = -1);

// The shortest decimal text that reads back as the same float32: "-2.674426". Non-finite values are the caller's business: CHECK.
std::string FormatFloat(float value);

// A number whose JSON text is FormatFloat(value): the double nearest to that text, so that any writer prints it short.
Json JsonFloat(float value);

// Canonical form for hashing: keys sorted by bytes, no spaces, integers only where the value is an integer, floats forbidden
// (a contract writes them as strings of their bits or decimals).
std::string CanonicalJson(const Json& value);

}  // namespace isobit
