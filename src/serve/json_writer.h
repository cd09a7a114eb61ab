// JsonWriter: JSON text, written in order. Every answer is made with it: floats through FormatFloat, so that equal bits are equal
// text, and no byte of model text can break a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isobit {

class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);  // invalid UTF-8 becomes U+FFFD
  JsonWriter& Int(std::int64_t value);
  JsonWriter& Uint(std::uint64_t value);
  JsonWriter& Float(float value);  // always with a point or an exponent; CHECKs that it is finite
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Raw(std::string_view json);  // one value, already JSON

  const std::string& text() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  void Separate();

  std::string out_;
  bool comma_ = false;
};

// The float's JSON text: FormatFloat, with ".0" where it has neither point nor exponent, so that readers see a float.
std::string JsonFloatText(float value);

}  // namespace isobit
