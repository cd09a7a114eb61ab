#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/utf8.h"

namespace isobit {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxKeys = 10000;  // of one object: an ordered object is searched front to back
constexpr std::size_t kMaxShownKeyBytes = 64;

std::string Shown(std::string_view key) { return ReplaceInvalidUtf8(key.substr(0, kMaxShownKeyBytes)); }

// Builds the value in time linear in the text (but for sorting each object's keys) while refusing what nlohmann's own parser lets
// pass: duplicate keys, wide objects and deep nesting. Not that parser's callback: with one, it searches the whole enclosing list
// after every list or object that ends, and half a megabyte of "{}," would keep a server for half a minute.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Json TakeValue() { return std::move(root_); }
  const std::string& problem() const { return problem_; }  // empty: none

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Refuse("JSON holds binary data"); }  // not reached from text
  bool start_object(std::size_t) override { return Open(Json::value_t::object); }
  bool start_array(std::size_t) override { return Open(Json::value_t::array); }

  bool key(string_t& name) override {
    auto& members = open_.back()->get_ref<Json::object_t&>();
    if (members.size() == kMaxKeys) return Refuse(fmt::format("JSON has an object with more than {} keys", kMaxKeys));
    // The base's: an ordered map's own would search all members for the key, which end_object() does in less time.
    static_cast<Json::object_t::Container&>(members).emplace_back(std::move(name), nullptr);
    return true;
  }

  bool end_object() override {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : open_.back()->get_ref<const Json::object_t&>()) names.emplace_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) return Refuse(fmt::format("JSON has the key \"{}\" twice", Shown(*twice)));
    open_.pop_back();
    return true;
  }

  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    problem_ = fmt::format("is not valid JSON at byte {}", byte);
    for (auto level = open_.rbegin(); level != open_.rend(); ++level) {
      if (!(*level)->is_object() || (*level)->empty()) continue;
      problem_ += fmt::format(", near the key \"{}\"", Shown((*level)->get_ref<const Json::object_t&>().back().first));
      break;
    }
    if (error.id == kNumberOutOfRange) problem_ += ": the number is too large";
    return false;
  }

 private:
  static constexpr int kNumberOutOfRange = 406;  // nlohmann's

  bool Refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  // Where the next value goes. A list or object grows only while nothing inside it is open, so pointers to open ones stay good.
  Json& Slot() {
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return open_.back()->get_ref<Json::object_t&>().back().second;
    return open_.back()->get_ref<Json::array_t&>().emplace_back();
  }

  bool Add(Json value) {
    Slot() = std::move(value);
    return true;
  }

  bool Open(Json::value_t kind) {
    if (open_.size() == kMaxDepth) return Refuse(fmt::format("JSON nests deeper than {}", kMaxDepth));
    Json& slot = Slot();
    slot = Json(kind);
    open_.push_back(&slot);
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // the lists and objects around the next value, outermost first
  std::string problem_;
};

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
  Builder builder;
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return builder.TakeValue();
  return Fail(ErrorCode::kInvalidArgument, std::string(field), "{}", builder.problem());
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
