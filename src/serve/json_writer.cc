#include "serve/json_writer.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/utf8.h"

namespace isobit {
namespace {

void AppendEscaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        else out += c;
    }
  }
}

}  // namespace

std::string JsonFloatText(float value) {
  std::string text = FormatFloat(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void JsonWriter::Separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  out_ += '{';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  out_ += '}';
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  out_ += '[';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  out_ += ']';
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  String(key);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  out_ += '"';
  if (IsValidUtf8(value)) AppendEscaped(value, out_);
  else AppendEscaped(ReplaceInvalidUtf8(value), out_);
  out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Int(std::int64_t value) { return Raw(fmt::format("{}", value)); }
JsonWriter& JsonWriter::Uint(std::uint64_t value) { return Raw(fmt::format("{}", value)); }
JsonWriter& JsonWriter::Float(float value) { return Raw(JsonFloatText(value)); }
JsonWriter& JsonWriter::Bool(bool value) { return Raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::Null() { return Raw("null"); }

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

}  // namespace isobit
