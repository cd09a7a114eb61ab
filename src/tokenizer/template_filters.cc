// The filters of templates: x|trim, x|tojson, ...
#include <algorithm>
#include <charconv>
#include <cmath>

#include "tokenizer/template_format.h"
#include "tokenizer/template_functions.h"
#include "tokenizer/template_interpreter.h"
#include "tokenizer/template_operators.h"
#include "tokenizer/template_strings.h"

namespace isobit::chat {
namespace {

// --- attributes by path --------------------------------------------------------------------------

// "a.b.0": what x.a.b[0] gives; nullptr: x itself.
Value FollowPath(Interpreter& interpreter, const Value& start, const Value* path,
                 const Value* fallback = nullptr) {
  if (path == nullptr || path->is_none()) return start;
  if (!path->is_string()) return interpreter.GetItem(start, *path);
  Value value = start;
  for (const std::string_view part : Split(path->string(), ".", -1)) {
    std::int64_t index = 0;
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    const bool is_index =
        digits && std::from_chars(part.data(), part.data() + part.size(), index).ec == std::errc();
    value = interpreter.GetItem(value, is_index ? Value(index) : Value(part));
    if (value.is_undefined() && fallback != nullptr && !fallback->is_none()) value = *fallback;
  }
  return value;
}

// What values are ordered and compared by: lower case of strings unless case counts.
Value KeyOf(Interpreter& interpreter, const Value& value, const Value* path, bool case_sensitive) {
  Value key = FollowPath(interpreter, value, path);
  return key.is_string() && !case_sensitive ? interpreter.MakeText(ToLower(key.string())) : key;
}

// Sorts by the keys, stable, also when reversed.
std::vector<Value> SortedByKey(Interpreter& interpreter, std::vector<Value> items,
                               const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    interpreter.Charge(1);
    return reverse ? Compare(keys[b], keys[a], "<") < 0 : Compare(keys[a], keys[b], "<") < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t i : order) sorted.push_back(std::move(items[i]));
  return sorted;
}

// --- text ----------------------------------------------------------------------------------------

template <std::string (*kMap)(std::string_view)>
Value MapText(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Parameters("the filter", arguments, {}, 0);
  const std::string text = ToText(value);
  interpreter.Charge(static_cast<std::int64_t>(text.size() / 8));
  return interpreter.MakeText(kMap(text));
}

// Not str.title: words begin behind white space, '-' and opening brackets only.
std::string TitleWords(std::string_view text) {
  std::string out;
  const auto is_break = [](std::uint32_t c) {
    return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    std::size_t next = at;
    const bool breaks = is_break(DecodeAt(text, next));
    for (end = next; end < text.size(); end = next) {
      if (is_break(DecodeAt(text, next)) != breaks) break;
    }
    const std::string_view word = text.substr(at, end - at);
    std::size_t first = 0;
    DecodeAt(word, first);
    out += ToUpper(word.substr(0, first)) + ToLower(word.substr(first));
    at = end;
  }
  return out;
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string SameText(std::string_view text) { return std::string(text); }

Value Trim(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("trim", arguments, {"chars"}, 0);
  const std::string text = ToText(value);
  std::optional<std::string_view> chars;
  if (parameters.Has(0) && !parameters.Get(0).is_none()) chars = parameters.Text(0);
  return interpreter.MakeText(std::string(Strip(text, chars)));
}

Value ReplaceAll(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("replace", arguments, {"old", "new", "count"}, 2);
  const std::string text = ToText(value), from = ToText(parameters.Get(0)),
                    to = ToText(parameters.Get(1));
  const std::int64_t count = parameters.Integer(2, -1);
  interpreter.ChargeBytes(text.size());
  interpreter.CheckSize(ReplacedSize(text, from, to, count));
  return Value(Replace(text, from, to, count));
}

Value Indent(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("indent", arguments, {"width", "first", "blank"}, 0);
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_string()) throw Problem("indent needs a str, not {}", TypeName(value));
  std::string indention;
  if (parameters.Has(0) && parameters.Get(0).is_string()) {
    indention = parameters.Text(0);
  } else {
    const std::int64_t width = std::max<std::int64_t>(parameters.Integer(0, 4), 0);
    interpreter.CheckSize(static_cast<std::size_t>(width));
    indention.assign(static_cast<std::size_t>(width), ' ');
  }
  const bool first = parameters.Bool(1, false), blank = parameters.Bool(2, false);
  interpreter.CheckSize(value.string().size());
  const std::string text = value.string() + "\n";
  std::string out;
  bool is_first = true;
  for (const std::string_view line : SplitLines(text, false)) {
    if (!is_first) out += '\n';
    if (is_first ? first : blank || !line.empty()) {
      interpreter.CheckSize(out.size() + indention.size());
      out += indention;
    }
    out += line;
    is_first = false;
  }
  return interpreter.MakeText(std::move(out));
}

Value FormatFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    throw Problem("can't handle positional and keyword arguments at the same time");
  Value values = MakeSequence(arguments.positional, SequenceForm::kTuple);
  if (!arguments.named.empty()) {
    DictBuilder builder;
    for (const auto& [name, argument] : arguments.named) builder.Set(Value(name), argument);
    values = std::move(builder).Build();
  }
  return interpreter.MakeText(FormatPercent(interpreter, ToText(value), values));
}

Value Center(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("center", arguments, {"width"}, 0);
  Arguments width;
  width.positional.emplace_back(parameters.Integer(0, 80));
  return interpreter.Call(*FindMethod(Value(ToText(value)), "center"), std::move(width));
}

Value WordCount(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Parameters("wordcount", arguments, {}, 0);
  const std::string text = ToText(value);
  interpreter.Charge(static_cast<std::int64_t>(text.size() / 8));
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::uint32_t c = DecodeAt(text, i);
    const bool is_word = c == '_' || IsAlphanumeric(c);
    count += is_word && !inside;
    inside = is_word;
  }
  return count;
}

Value JsonFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("tojson", arguments,
                              {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  JsonStyle style;
  style.ensure_ascii = parameters.Bool(0, false);
  if (parameters.Has(1) && !parameters.Get(1).is_none()) {
    style.has_indent = true;
    style.item_separator = ",";
    if (parameters.Get(1).is_string())
      style.indent = parameters.Text(1);
    else
      style.indent.assign(
          static_cast<std::size_t>(std::clamp<std::int64_t>(parameters.Integer(1, 0), 0, 100)),
          ' ');
  }
  if (parameters.Has(2) && !parameters.Get(2).is_none()) {
    const std::vector<Value> separators = interpreter.Iterate(parameters.Get(2));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      throw Problem("tojson needs two strings as separators");
    }
    style.item_separator = separators[0].string();
    style.key_separator = separators[1].string();
  }
  style.sort_keys = parameters.Bool(3, false);
  return interpreter.MakeText(ToJson(value, style));
}

// --- numbers -------------------------------------------------------------------------------------

// Python's float(text); nullopt if it is none.
std::optional<double> ParseFloat(std::string_view text) {
  text = Strip(text);
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit_at = [&](std::size_t k) {
      return k < text.size() && text[k] >= '0' && text[k] <= '9';
    };
    if (text[i] == '_' && i > 0 && digit_at(i - 1) && digit_at(i + 1)) continue;
    digits += text[i];
  }
  std::string_view body = digits;
  const bool negative = !body.empty() && body[0] == '-';
  if (negative || (!body.empty() && body[0] == '+')) body.remove_prefix(1);
  if (body.empty() || body[0] == '-' || body[0] == '+') return std::nullopt;
  double number = 0;
  const auto result = std::from_chars(body.data(), body.data() + body.size(),
                                      number);  // takes "inf" and "nan" as Python does
  if (result.ptr != body.data() + body.size() || body.find('(') != std::string_view::npos)
    return std::nullopt;
  if (result.ec == std::errc::result_out_of_range)
    number = body.find("e-") != std::string_view::npos || body.find("E-") != std::string_view::npos
                 ? 0
                 : HUGE_VAL;
  else if (result.ec != std::errc())
    return std::nullopt;
  return negative ? -number : number;
}

// Python's int(text, base); nullopt if it is none.
std::optional<std::int64_t> ParseInteger(std::string_view text, int base) {
  text = Strip(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    if ((base == 16 && letter == 'x') || (base == 8 && letter == 'o') ||
        (base == 2 && letter == 'b'))
      text.remove_prefix(2);
  }
  if (text.empty() || text.front() == '_' || text.back() == '_' ||
      text.find("__") != std::string_view::npos)
    return std::nullopt;
  std::string digits = negative ? "-" : "";
  for (const char c : text) {
    if (c == '-' || c == '+') return std::nullopt;
    if (c != '_') digits += c;
  }
  std::int64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (result.ptr != digits.data() + digits.size() || result.ec == std::errc::invalid_argument)
    return std::nullopt;
  if (result.ec == std::errc::result_out_of_range)
    throw Problem("the integer {} does not fit 64 bits", digits);
  return number;
}

Value Truncated(double number, const Value& fallback) {
  if (!std::isfinite(number)) return fallback;
  if (std::fabs(number) >= 9.2e18) throw Problem("the number {} does not fit 64 bits", number);
  return static_cast<std::int64_t>(number);
}

Value ToInteger(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters parameters("int", arguments, {"default", "base"}, 0);
  const Value fallback = parameters.GetOr(0, std::int64_t{0});
  const std::int64_t base = parameters.Integer(1, 10);
  if (base < 2 || base > 36) throw Problem("int needs a base from 2 to 36");
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_integral()) return value.integer();
  if (value.is_float()) return Truncated(value.float_value(), fallback);
  if (!value.is_string()) return fallback;
  if (const auto number = ParseInteger(value.string(), static_cast<int>(base))) return *number;
  const auto number = ParseFloat(value.string());
  return number ? Truncated(*number, fallback) : fallback;
}

Value ToFloat(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters parameters("float", arguments, {"default"}, 0);
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_number()) return value.number();
  if (value.is_string()) {
    if (const auto number = ParseFloat(value.string())) return *number;
  }
  return parameters.GetOr(0, 0.0);
}

const Value& NeedNumber(const Value& value) {
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_number()) throw Problem("the filter needs a number, not {}", TypeName(value));
  return value;
}

Value Absolute(Interpreter&, const Value& value, const Arguments& arguments) {
  Parameters("abs", arguments, {}, 0);
  if (NeedNumber(value).is_float()) return std::fabs(value.float_value());
  return value.integer() < 0 ? Negate(value) : Value(value.integer());
}

Value Round(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters parameters("round", arguments, {"precision", "method"}, 0);
  const std::int64_t precision = parameters.Integer(0, 0);
  const std::string method = parameters.Has(1) ? parameters.Text(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    throw Problem("method must be common, ceil or floor");
  if (precision < 0 || precision > 300) throw Problem("round needs a precision from 0 to 300");
  NeedNumber(value);
  if (method == "common") {
    if (value.is_integral()) return value.integer();
    return RoundTo(value.float_value(), static_cast<int>(precision));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision)),
               scaled = value.number() * scale;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value Sum(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("sum", arguments, {"attribute", "start"}, 0);
  Value total = parameters.GetOr(1, std::int64_t{0});
  if (total.is_string()) throw Problem("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : interpreter.Iterate(value)) {
    total =
        Arithmetic(interpreter, Operator::kAdd, total,
                   FollowPath(interpreter, item, parameters.Has(0) ? &parameters.Get(0) : nullptr));
  }
  return total;
}

// --- any value -----------------------------------------------------------------------------------

Value Default(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters parameters("default", arguments, {"default_value", "boolean"}, 0);
  const bool replace = value.is_undefined() || (parameters.Bool(1, false) && !IsTrue(value));
  return replace ? parameters.GetOr(0, "") : value;
}

Value AttributeOnly(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("attr", arguments, {"name"}, 1);
  const std::string& name = parameters.Text(0);
  if (!value.is_dict()) return interpreter.GetAttribute(value, name);
  if (std::optional<Value> method = FindMethod(value, name)) return *std::move(method);
  return MakeUndefined(fmt::format("'dict object' has no attribute '{}'", name));
}

// --- sequences -----------------------------------------------------------------------------------

Value CountElements(Interpreter&, const Value& value, const Arguments& arguments) {
  Parameters("length", arguments, {}, 0);
  if (value.is_undefined()) return std::int64_t{0};
  if (value.is_string()) return Length(value.string());
  if (value.is_sequence()) return static_cast<std::int64_t>(value.sequence().items.size());
  if (value.is_dict()) return static_cast<std::int64_t>(value.dict().entries.size());
  throw Problem("object of type '{}' has no len()", TypeName(value));
}

Value First(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Parameters("first", arguments, {}, 0);
  if (Iterator* iterator = value.iterator()) {
    if (iterator->next < iterator->items.size()) return iterator->items[iterator->next++];
  } else if (value.is_sequence()) {
    if (!value.sequence().items.empty()) return value.sequence().items.front();
  } else if (const std::vector<Value> items = interpreter.Iterate(value); !items.empty()) {
    return items.front();
  }
  return MakeUndefined("No first item, sequence was empty.");
}

Value Last(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Parameters("last", arguments, {}, 0);
  if (value.iterator() != nullptr)
    throw Problem("'generator' object is not reversible; put |list before |last");
  if (value.is_sequence()) {
    if (!value.sequence().items.empty()) return value.sequence().items.back();
  } else if (const std::vector<Value> items = interpreter.Iterate(value); !items.empty()) {
    return items.back();
  }
  return MakeUndefined("No last item, sequence was empty.");
}

Value ToList(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Parameters("list", arguments, {}, 0);
  return MakeSequence(interpreter.Iterate(value));
}

Value JoinItems(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("join", arguments, {"d", "attribute"}, 0);
  const std::string separator = parameters.Has(0) ? ToText(parameters.Get(0)) : "";
  std::string text;
  bool is_first = true;
  for (const Value& item : interpreter.Iterate(value)) {
    const std::string part =
        ToText(FollowPath(interpreter, item, parameters.Has(1) ? &parameters.Get(1) : nullptr));
    interpreter.ChargeBytes(separator.size() + part.size());
    if (!is_first) text += separator;
    text += part;
    is_first = false;
  }
  return interpreter.MakeText(std::move(text));
}

Value Reverse(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Parameters("reverse", arguments, {}, 0);
  if (value.is_string()) return Slice(interpreter, value, None{}, None{}, std::int64_t{-1});
  std::vector<Value> items = interpreter.Iterate(value);
  std::reverse(items.begin(), items.end());
  return value.iterator() != nullptr ? MakeSequence(std::move(items))
                                     : MakeIterator(std::move(items));
}

Value Items(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Parameters("items", arguments, {}, 0);
  std::vector<Value> pairs;
  if (value.is_undefined()) return MakeIterator(std::move(pairs));
  if (!value.is_dict()) throw Problem("Can only get item pairs from a mapping.");
  for (const auto& [key, item] : value.dict().entries)
    pairs.push_back(MakeSequence({key, item}, SequenceForm::kTuple));
  interpreter.Charge(static_cast<std::int64_t>(pairs.size()));
  return MakeIterator(std::move(pairs));
}

// Anything that counts as false is an empty list to map, select and their kin: {% set tools = none
// %} is common.
std::vector<Value> IterateIfTrue(Interpreter& interpreter, const Value& value) {
  return IsTrue(value) ? interpreter.Iterate(value) : std::vector<Value>();
}

Value Map(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  std::vector<Value> items = IterateIfTrue(interpreter, value);
  if (arguments.positional.empty()) {
    const Parameters parameters("map", arguments, {"attribute", "default"}, 1);
    for (Value& item : items)
      item = FollowPath(interpreter, item, &parameters.Get(0),
                        parameters.Has(1) ? &parameters.Get(1) : nullptr);
    return MakeIterator(std::move(items));
  }
  if (!arguments.positional[0].is_string()) throw Problem("map needs the name of a filter");
  const std::string& name = arguments.positional[0].string();
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = arguments.named;
  for (Value& item : items) {
    interpreter.Charge(1);
    item = interpreter.ApplyFilter(name, item, rest);
  }
  return MakeIterator(std::move(items));
}

// select(test, ...), reject(...), selectattr(path, test, ...), rejectattr(...)
template <bool kByAttribute, bool kKeep>
Value Choose(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  std::size_t next = 0;
  const Value* path = nullptr;
  if (kByAttribute) {
    if (arguments.positional.empty()) throw Problem("missing the name of the attribute");
    path = &arguments.positional[next++];
  }
  const Value* test = next < arguments.positional.size() ? &arguments.positional[next++] : nullptr;
  if (test != nullptr && !test->is_string()) throw Problem("needs the name of a test");
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(next),
                         arguments.positional.end());
  rest.named = arguments.named;
  std::vector<Value> chosen;
  for (Value& item : IterateIfTrue(interpreter, value)) {
    interpreter.Charge(1);
    const Value subject = FollowPath(interpreter, item, path);
    const bool holds =
        test == nullptr ? IsTrue(subject) : interpreter.ApplyTest(test->string(), subject, rest);
    if (holds == kKeep) chosen.push_back(std::move(item));
  }
  return MakeIterator(std::move(chosen));
}

Value Sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0);
  const bool case_sensitive = parameters.Bool(1, false);
  std::vector<Value> items = interpreter.Iterate(value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    if (parameters.Has(2) && parameters.Get(2).is_string()) {  // "a,b": by a, then by b
      std::vector<Value> key;
      for (const std::string_view part : Split(parameters.Text(2), ",", -1)) {
        const Value path(part);
        key.push_back(KeyOf(interpreter, item, &path, case_sensitive));
      }
      keys.push_back(MakeSequence(std::move(key)));
    } else {
      keys.push_back(KeyOf(interpreter, item, parameters.Has(2) ? &parameters.Get(2) : nullptr,
                           case_sensitive));
    }
  }
  return MakeSequence(SortedByKey(interpreter, std::move(items), keys, parameters.Bool(0, false)));
}

Value DictSort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0);
  const std::string by = parameters.Has(1) ? parameters.Text(1) : "key";
  if (by != "key" && by != "value")
    throw Problem("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_dict()) throw Problem("dictsort needs a mapping, not {}", TypeName(value));
  std::vector<Value> pairs, keys;
  for (const auto& [key, item] : value.dict().entries) {
    pairs.push_back(MakeSequence({key, item}, SequenceForm::kTuple));
    keys.push_back(
        KeyOf(interpreter, by == "key" ? key : item, nullptr, parameters.Bool(0, false)));
  }
  interpreter.Charge(static_cast<std::int64_t>(pairs.size()));
  return MakeSequence(SortedByKey(interpreter, std::move(pairs), keys, parameters.Bool(2, false)));
}

Value Unique(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("unique", arguments, {"case_sensitive", "attribute"}, 0);
  std::vector<Value> chosen, seen;
  for (Value& item : interpreter.Iterate(value)) {
    Value key = KeyOf(interpreter, item, parameters.Has(1) ? &parameters.Get(1) : nullptr,
                      parameters.Bool(0, false));
    interpreter.Charge(static_cast<std::int64_t>(seen.size()));
    if (std::any_of(seen.begin(), seen.end(),
                    [&](const Value& other) { return AreEqual(other, key); }))
      continue;
    seen.push_back(std::move(key));
    chosen.push_back(std::move(item));
  }
  return MakeIterator(std::move(chosen));
}

template <bool kLargest>
Value Extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters(kLargest ? "max" : "min", arguments, {"case_sensitive", "attribute"},
                              0);
  const std::vector<Value> items = interpreter.Iterate(value);
  if (items.empty()) return MakeUndefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    return KeyOf(interpreter, item, parameters.Has(1) ? &parameters.Get(1) : nullptr,
                 parameters.Bool(0, false));
  };
  std::size_t best = 0;
  Value best_key = key_of(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(items[i]);
    const int order = Compare(key, best_key, kLargest ? ">" : "<");
    if (kLargest ? order <= 0 : order >= 0) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value Batch(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t size = parameters.Integer(0, 0);
  if (size < 1) throw Problem("batch needs a size above 0");
  std::vector<Value> batches, batch;
  const auto close = [&] { batches.push_back(MakeSequence(std::exchange(batch, {}))); };
  for (Value& item : interpreter.Iterate(value)) {
    if (static_cast<std::int64_t>(batch.size()) == size) close();
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (parameters.Has(1) && !parameters.Get(1).is_none()) {
      interpreter.Charge(size - static_cast<std::int64_t>(batch.size()));
      batch.resize(static_cast<std::size_t>(size), parameters.Get(1));
    }
    close();
  }
  return MakeIterator(std::move(batches));
}

Value SliceInto(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t num_slices = parameters.Integer(0, 0);
  if (num_slices < 1) throw Problem("slice needs a number of slices above 0");
  interpreter.Charge(num_slices);
  const std::vector<Value> items = interpreter.Iterate(value);
  const std::int64_t num_items = static_cast<std::int64_t>(items.size());
  const std::int64_t each = num_items / num_slices, num_longer = num_items % num_slices;
  std::vector<Value> slices;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < num_slices; ++i) {
    const std::int64_t end = at + each + (i < num_longer ? 1 : 0);
    std::vector<Value> slice(items.begin() + at, items.begin() + end);
    if (parameters.Has(1) && !parameters.Get(1).is_none() && i >= num_longer)
      slice.push_back(parameters.Get(1));
    slices.push_back(MakeSequence(std::move(slice)));
    at = end;
  }
  return MakeIterator(std::move(slices));
}

struct Entry {
  std::string_view name;
  NativeFunction filter;
};
constexpr Entry kFilters[] = {
    {"abs", Absolute},
    {"attr", AttributeOnly},
    {"batch", Batch},
    {"capitalize", MapText<Capitalize>},
    {"center", Center},
    {"count", CountElements},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSort},
    {"e", MapText<EscapeHtml>},
    {"escape", MapText<EscapeHtml>},
    {"first", First},
    {"float", ToFloat},
    {"forceescape", MapText<EscapeHtml>},
    {"format", FormatFilter},
    {"indent", Indent},
    {"int", ToInteger},
    {"items", Items},
    {"join", JoinItems},
    {"last", Last},
    {"length", CountElements},
    {"list", ToList},
    {"lower", MapText<ToLower>},
    {"map", Map},
    {"max", Extreme<true>},
    {"min", Extreme<false>},
    {"reject", Choose<false, false>},
    {"rejectattr", Choose<true, false>},
    {"replace", ReplaceAll},
    {"reverse", Reverse},
    {"round", Round},
    {"safe", MapText<SameText>},
    {"select", Choose<false, true>},
    {"selectattr", Choose<true, true>},
    {"slice", SliceInto},
    {"sort", Sort},
    {"string", MapText<SameText>},
    {"sum", Sum},
    {"title", MapText<TitleWords>},
    {"tojson", JsonFilter},
    {"trim", Trim},
    {"unique", Unique},
    {"upper", MapText<ToUpper>},
    {"wordcount", WordCount},
};

}  // namespace

NativeFunction FindFilter(std::string_view name) {
  for (const Entry& entry : kFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

std::vector<std::string_view> FilterNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kFilters) names.push_back(entry.name);
  return names;
}

}  // namespace isobit::chat
