#include "tokenizer/template_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "tokenizer/template_ast.h"
#include "tokenizer/template_interpreter.h"
#include "tokenizer/template_loop.h"
#include "tokenizer/template_strings.h"

namespace isobit::chat {
namespace {

int DepthOfAll(const std::vector<Value>& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, DepthOf(item));
  return deepest + 1;
}

void CheckDepth(int depth) {
  if (depth <= kMaxValueDepth) return;
  throw TemplateError{ErrorCode::kResourceExhausted, 0,
                      fmt::format("a value nests deeper than {}", kMaxValueDepth)};
}

bool IsHashable(const Value& key) {
  if (key.is_dict()) return false;
  if (!key.is_sequence()) return true;
  if (key.sequence().form != SequenceForm::kTuple) return false;
  return std::all_of(key.sequence().items.begin(), key.sequence().items.end(), IsHashable);
}

// Exact for any int64 against any double: the 64-bit mantissa of x87's long double holds both.
static_assert(std::numeric_limits<long double>::digits >= 64);
int CompareNumbers(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return left.integer() < right.integer() ? -1 : left.integer() > right.integer() ? 1 : 0;
  }
  const auto wide = [](const Value& v) {
    return v.is_float() ? static_cast<long double>(v.float_value())
                        : static_cast<long double>(v.integer());
  };
  return wide(left) < wide(right) ? -1 : wide(left) > wide(right) ? 1 : 0;
}

bool IsNan(const Value& value) { return value.is_float() && std::isnan(value.float_value()); }

bool EqualDicts(const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [key, value] : left.entries) {
    const Value* other = FindKey(right, key);
    if (other == nullptr || !AreEqual(value, *other)) return false;
  }
  return true;
}

std::string JoinReprs(const std::vector<Value>& items, std::string_view open,
                      std::string_view close) {
  std::string out(open);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    out += ToRepr(items[i]);
  }
  return out.append(close);
}

std::string SequenceRepr(const Sequence& sequence) {
  switch (sequence.form) {
    case SequenceForm::kList:
      return JoinReprs(sequence.items, "[", "]");
    case SequenceForm::kTuple:
      return JoinReprs(sequence.items, "(", sequence.items.size() == 1 ? ",)" : ")");
    case SequenceForm::kRange:
      return sequence.range_text;
    case SequenceForm::kItems:
      return JoinReprs(sequence.items, "dict_items([", "])");
    case SequenceForm::kKeys:
      return JoinReprs(sequence.items, "dict_keys([", "])");
    case SequenceForm::kValues:
      return JoinReprs(sequence.items, "dict_values([", "])");
  }
  ISOBIT_CHECK(false);
}

std::string PairsRepr(const std::vector<std::pair<Value, Value>>& entries) {
  std::string out = "{";
  for (const auto& [key, value] : entries) {
    if (out.size() > 1) out += ", ";
    out += ToRepr(key) + ": " + ToRepr(value);
  }
  return out + "}";
}

void AppendJsonString(std::string_view text, bool ensure_ascii, std::string& out) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<int>(c));
        } else if (static_cast<unsigned char>(c) < 0x80 || !ensure_ascii) {
          out += c;
        } else {
          const std::uint32_t code_point = DecodeAt(text, i);  // moves i behind the character
          if (code_point < 0x10000) {
            out += fmt::format("\\u{:04x}", code_point);
          } else {  // a surrogate pair
            out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code_point - 0x10000) >> 10),
                               0xDC00 + ((code_point - 0x10000) & 0x3FF));
          }
          continue;
        }
    }
    ++i;
  }
  out += '"';
}

std::string JsonNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return FloatText(value);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void Write(const Value& value) {
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += IsTrue(value) ? "true" : "false";
    } else if (value.is_int()) {
      out_ += std::to_string(value.integer());
    } else if (value.is_float()) {
      out_ += JsonNumber(value.float_value());
    } else if (value.is_string()) {
      AppendJsonString(value.string(), style_.ensure_ascii, out_);
    } else if (value.is_sequence() && (value.sequence().form == SequenceForm::kList ||
                                       value.sequence().form == SequenceForm::kTuple)) {
      WriteList(value.sequence().items);
    } else if (value.is_dict()) {
      WriteDict(value.dict());
    } else {
      throw Problem("Object of type {} is not JSON serializable", TypeName(value));
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  void NewLine() {
    if (!style_.has_indent) return;
    out_ += '\n';
    for (int i = 0; i < level_; ++i) out_ += style_.indent;
  }

  void WriteList(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      Write(items[i]);
    }
    --level_;
    NewLine();
    out_ += ']';
  }

  static std::string KeyText(const Value& key) {
    if (key.is_string()) return key.string();
    if (key.is_none()) return "null";
    if (key.is_bool()) return IsTrue(key) ? "true" : "false";
    if (key.is_int()) return std::to_string(key.integer());
    if (key.is_float()) return JsonNumber(key.float_value());
    throw Problem("keys must be str, int, float, bool or None, not {}", TypeName(key));
  }

  void WriteDict(const Dict& dict) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) order.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        return Compare(a->first, b->first, "<") < 0;
      });
    }
    out_ += '{';
    ++level_;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      AppendJsonString(KeyText(order[i]->first), style_.ensure_ascii, out_);
      out_ += style_.key_separator;
      Write(order[i]->second);
    }
    --level_;
    NewLine();
    out_ += '}';
  }

  const JsonStyle& style_;
  std::string out_;
  int level_ = 0;
};

Value FromJsonAt(const Json& json, int depth) {
  CheckDepth(depth);
  switch (json.type()) {
    case Json::value_t::null:
      return None{};
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw Problem("the number {} in the messages does not fit 64 bits", number);
      }
      return static_cast<std::int64_t>(number);
    }
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!IsValidUtf8(text)) throw Problem("a string in the messages is not valid UTF-8");
      return text;
    }
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(FromJsonAt(item, depth + 1));
      return MakeSequence(std::move(items));
    }
    case Json::value_t::object: {
      DictBuilder builder;
      for (const auto& [key, value] : json.items()) {
        if (!IsValidUtf8(key)) throw Problem("a key in the messages is not valid UTF-8");
        builder.Set(Value(key), FromJsonAt(value, depth + 1));
      }
      return std::move(builder).Build();
    }
    default:
      throw Problem("the messages hold a value that is no JSON");
  }
}

}  // namespace

Value MakeSequence(std::vector<Value> items, SequenceForm form) {
  const int depth = DepthOfAll(items);
  CheckDepth(depth);
  return std::make_shared<const Sequence>(Sequence{form, std::move(items), {}, depth});
}

Value MakeIterator(std::vector<Value> items) {
  const int depth = DepthOfAll(items);
  CheckDepth(depth);
  return std::make_shared<Iterator>(Iterator{std::move(items), 0, depth});
}

Value MakeUndefined(std::string why) {
  return Undefined{std::make_shared<const std::string>(std::move(why))};
}

int DepthOf(const Value& value) {
  if (value.is_sequence()) return value.sequence().depth;
  if (value.is_dict()) return value.dict().depth;
  if (const Iterator* iterator = value.iterator()) return iterator->depth;
  if (const Function* function = value.function()) return DepthOf(function->self) + 1;
  if (const LoopState* loop = value.loop()) return loop->depth;
  return 0;
}

void DictBuilder::Set(const Value& key, Value value) {
  if (!IsHashable(key)) throw Problem("unhashable type: '{}'", TypeName(key));
  if (all_strings_ && key.is_string()) {
    const auto place = std::lower_bound(by_key_.begin(), by_key_.end(), key.string(),
                                        [&](std::uint32_t entry, const std::string& wanted) {
                                          return entries_[entry].first.string() < wanted;
                                        });
    if (place != by_key_.end() && entries_[*place].first.string() == key.string()) {
      entries_[*place].second = std::move(value);
      return;
    }
    by_key_.insert(place, static_cast<std::uint32_t>(entries_.size()));
  } else {
    all_strings_ = false;
    by_key_.clear();
    for (auto& [old_key, old_value] : entries_) {
      if (AreEqual(old_key, key)) {
        old_value = std::move(value);
        return;
      }
    }
  }
  entries_.emplace_back(key, std::move(value));
}

Value DictBuilder::Build() && {
  int depth = 0;
  for (const auto& [key, value] : entries_) depth = std::max({depth, DepthOf(key), DepthOf(value)});
  CheckDepth(depth + 1);
  return std::make_shared<const Dict>(Dict{std::move(entries_), std::move(by_key_), depth + 1});
}

const Value* FindKey(const Dict& dict, std::string_view key) {
  if (!dict.by_key.empty()) {
    const auto place =
        std::lower_bound(dict.by_key.begin(), dict.by_key.end(), key,
                         [&](std::uint32_t entry, std::string_view wanted) {
                           return std::string_view(dict.entries[entry].first.string()) < wanted;
                         });
    const bool found = place != dict.by_key.end() && dict.entries[*place].first.string() == key;
    return found ? &dict.entries[*place].second : nullptr;
  }
  for (const auto& [entry_key, value] : dict.entries) {
    if (entry_key.is_string() && entry_key.string() == key) return &value;
  }
  return nullptr;
}

const Value* FindKey(const Dict& dict, const Value& key) {
  if (!IsHashable(key)) throw Problem("unhashable type: '{}'", TypeName(key));
  if (key.is_string()) return FindKey(dict, std::string_view(key.string()));
  if (!dict.by_key.empty()) return nullptr;
  for (const auto& [entry_key, value] : dict.entries) {
    if (AreEqual(entry_key, key)) return &value;
  }
  return nullptr;
}

bool IsTrue(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_integral()) return value.integer() != 0;
  if (value.is_float()) return value.float_value() != 0;
  if (value.is_string()) return !value.string().empty();
  if (value.is_sequence()) return !value.sequence().items.empty();
  if (value.is_dict()) return !value.dict().entries.empty();
  return true;
}

bool AreEqual(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number())
    return !IsNan(left) && !IsNan(right) && CompareNumbers(left, right) == 0;
  if (left.is_string() && right.is_string()) return left.string() == right.string();
  if (left.is_none() || right.is_none()) return left.is_none() && right.is_none();
  if (left.is_undefined() || right.is_undefined())
    return left.is_undefined() && right.is_undefined();
  if (left.is_sequence() && right.is_sequence()) {
    const Sequence &a = left.sequence(), &b = right.sequence();
    return a.form == b.form &&
           std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), AreEqual);
  }
  if (left.is_dict() && right.is_dict()) return EqualDicts(left.dict(), right.dict());
  // The rest are equal only to themselves.
  if (left.macro() != nullptr) return left.macro() == right.macro();
  if (left.name_space() != nullptr) return left.name_space() == right.name_space();
  if (left.iterator() != nullptr) return left.iterator() == right.iterator();
  if (left.loop() != nullptr) return left.loop() == right.loop();
  return left.function() != nullptr && left.function() == right.function();
}

int Compare(const Value& left, const Value& right, std::string_view sign) {
  if (left.is_number() && right.is_number()) return CompareNumbers(left, right);
  if (left.is_string() && right.is_string()) {  // order of bytes is order of code points
    const int order = left.string().compare(right.string());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  const auto ordered = [](const Value& v) {
    return v.is_sequence() &&
           (v.sequence().form == SequenceForm::kList || v.sequence().form == SequenceForm::kTuple);
  };
  if (ordered(left) && ordered(right) && left.sequence().form == right.sequence().form) {
    const std::vector<Value>&a = left.sequence().items, &b = right.sequence().items;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!AreEqual(a[i], b[i])) return Compare(a[i], b[i], sign);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined())
      throw Problem("{}",
                    side->undefined_reason() ? *side->undefined_reason() : "a value is undefined");
  }
  throw Problem("'{}' not supported between instances of '{}' and '{}'", sign, TypeName(left),
                TypeName(right));
}

std::string_view TypeName(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_int()) return "int";
  if (value.is_float()) return "float";
  if (value.is_string()) return "str";
  if (value.is_dict()) return "dict";
  if (value.iterator() != nullptr) return "generator";
  if (value.loop() != nullptr) return "LoopContext";
  if (value.name_space() != nullptr) return "Namespace";
  if (value.macro() != nullptr) return "Macro";
  if (!value.is_sequence()) return "function";
  switch (value.sequence().form) {
    case SequenceForm::kList:
      return "list";
    case SequenceForm::kTuple:
      return "tuple";
    case SequenceForm::kRange:
      return "range";
    case SequenceForm::kItems:
      return "dict_items";
    case SequenceForm::kKeys:
      return "dict_keys";
    case SequenceForm::kValues:
      return "dict_values";
  }
  ISOBIT_CHECK(false);
}

std::string ToText(const Value& value) {
  if (value.is_string()) return value.string();
  if (value.is_undefined()) return "";
  return ToRepr(value);
}

std::string ToRepr(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "Undefined";
  if (value.is_bool()) return IsTrue(value) ? "True" : "False";
  if (value.is_int()) return std::to_string(value.integer());
  if (value.is_float()) return FloatText(value.float_value());
  if (value.is_string()) {
    std::string out;
    AppendQuoted(value.string(), out);
    return out;
  }
  if (value.is_sequence()) return SequenceRepr(value.sequence());
  if (value.is_dict()) return PairsRepr(value.dict().entries);
  if (const Macro* macro = value.macro()) return fmt::format("<Macro '{}'>", macro->syntax->name);
  // Python prints an address here, or text that no template means to show.
  throw Problem("a value of type '{}' has no text of its own{}", TypeName(value),
                value.iterator() != nullptr ? "; put |list behind it" : "");
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits that read back as the same number, laid out by Python's rule: an exponent
  // below 1e-4 and from 1e16 on.
  char buffer[40];
  const char* end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::size_t digits_at = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.' && c != '-') digits += c;
  }
  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out.append(".").append(digits, 1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const std::size_t num_whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < num_whole) digits.append(num_whole - digits.size(), '0');
  out.append(digits, 0, num_whole).append(".");
  return digits.size() == num_whole ? out + "0" : out.append(digits, num_whole);
}

void AppendQuoted(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out += quote;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const std::uint32_t c = DecodeAt(text, i);
    if (c == static_cast<std::uint32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      out += text.substr(begin, i - begin);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += fmt::format("\\U{:08x}", c);
    }
  }
  out += quote;
}

std::string ToJson(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.Write(value);
  return writer.Take();
}

Value FromJson(const Json& json) { return FromJsonAt(json, 1); }

}  // namespace isobit::chat
