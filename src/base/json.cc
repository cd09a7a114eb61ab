#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <vector>

namespace isobit {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxKeys = 10000;  // of one object: an ordered object is searched front to back, so cost grows with its square

// Builds the value while refusing what nlohmann's own parser lets pass: duplicate keys and deep nesting.
struct Guard {
  std::vector<std::set<std::string>> keys;
  std::string problem;

  bool operator()(int depth, nlohmann::json::parse_event_t event, Json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (!problem.empty()) return false;  // nothing more is kept
    if (depth > kMaxDepth) problem = fmt::format("nests deeper than {}", kMaxDepth);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end && !keys.empty()) keys.pop_back();
    if (event == Event::key && !keys.empty()) {
      const std::string key = parsed.get<std::string>();
      if (!keys.back().insert(key).second) problem = fmt::format("has the key \"{}\" twice", key);
      if (keys.back().size() > kMaxKeys) problem = fmt::format("has an object with more than {} keys", kMaxKeys);
    }
    return problem.empty();
  }
};

// Nesting is checked before parsing, because the parser itself recurses on destruction of deep values.
bool TooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

void WriteCanonical(const Json& value, std::string& out) {
  switch (value.type()) {
    case Json::value_t::object: {
      std::vector<std::string> keys;
      for (const auto& [key, _] : value.items()) keys.push_back(key);
      std::sort(keys.begin(), keys.end());
      out += '{';
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (i > 0) out += ',';
        out += DumpJson(Json(keys[i]));
        out += ':';
        WriteCanonical(value.at(keys[i]), out);
      }
      out += '}';
      break;
    }
    case Json::value_t::array: {
      out += '[';
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) out += ',';
        WriteCanonical(value[i], out);
      }
      out += ']';
      break;
    }
    case Json::value_t::number_float:
      ISOBIT_CHECK(false, "a float has no canonical text; write it as a string");
      break;
    default: out += DumpJson(value);
  }
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view field) {
  if (TooDeep(text)) {
    return Fail(ErrorCode::kInvalidArgument, std::string(field), "JSON nests deeper than {}", kMaxDepth);
  }
  Guard guard;
  try {
    Json value = Json::parse(text.begin(), text.end(), std::ref(guard), /*allow_exceptions=*/true);
    if (!guard.problem.empty()) {
      return Fail(ErrorCode::kInvalidArgument, std::string(field), "JSON {}", guard.problem);
    }
    return value;
  } catch (const Json::parse_error& error) {
    return Fail(ErrorCode::kInvalidArgument, std::string(field), "is not valid JSON at byte {}", error.byte);
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kInvalidArgument, std::string(field), "is not valid JSON (number out of range)");
  }
}

std::string DumpJson(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string FormatFloat(float value) {
  ISOBIT_CHECK(std::isfinite(value));
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
}

Json JsonFloat(float value) {
  const std::string text = FormatFloat(value);
  double wide = 0;
  std::from_chars(text.data(), text.data() + text.size(), wide);
  return Json(wide);
}

std::string CanonicalJson(const Json& value) {
  std::string out;
  WriteCanonical(value, out);
  return out;
}

}  // namespace isobit
