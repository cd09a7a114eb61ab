// The methods of strings, lists, dicts and loops.
#include <algorithm>

#include "tokenizer/template_format.h"
#include "tokenizer/template_functions.h"
#include "tokenizer/template_interpreter.h"
#include "tokenizer/template_loop.h"
#include "tokenizer/template_operators.h"
#include "tokenizer/template_strings.h"

namespace isobit::chat {
namespace {

// --- strings -------------------------------------------------------------------------------------

template <bool kLeft, bool kRight>
Value StripText(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("strip", arguments, {"chars"}, 0);
  interpreter.ChargeBytes(self.string().size());
  std::optional<std::string_view> chars;
  if (parameters.Has(0) && !parameters.Get(0).is_none()) chars = parameters.Text(0);
  return Value(Strip(self.string(), chars, {kLeft, kRight}));
}

template <bool kFromRight>
Value SplitText(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("split", arguments, {"sep", "maxsplit"}, 0);
  interpreter.CheckSize(self.string().size());
  std::optional<std::string_view> separator;
  if (parameters.Has(0) && !parameters.Get(0).is_none()) separator = parameters.Text(0);
  if (separator && separator->empty()) throw Problem("empty separator");
  const auto split = kFromRight ? SplitFromRight : Split;
  std::vector<Value> parts;
  for (const std::string_view part : split(self.string(), separator, parameters.Integer(1, -1)))
    parts.emplace_back(part);
  interpreter.Charge(static_cast<std::int64_t>(parts.size()));
  return MakeSequence(std::move(parts));
}

Value SplitTextLines(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("splitlines", arguments, {"keepends"}, 0);
  interpreter.CheckSize(self.string().size());
  std::vector<Value> lines;
  for (const std::string_view line : SplitLines(self.string(), parameters.Bool(0, false)))
    lines.emplace_back(line);
  interpreter.Charge(static_cast<std::int64_t>(lines.size()));
  return MakeSequence(std::move(lines));
}

// The part of self between the optional bounds `start` and `end`.
std::string_view Between(Interpreter& interpreter, const Value& self, const Parameters& parameters,
                         std::string& holder) {
  if (!parameters.Has(1) && !parameters.Has(2)) return self.string();
  const Value part =
      Slice(interpreter, self, parameters.GetOr(1, None{}), parameters.GetOr(2, None{}), None{});
  holder = part.string();
  return holder;
}

template <bool kAtEnd>
Value StartsOrEndsWith(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters(kAtEnd ? "endswith" : "startswith", arguments,
                              {"prefix", "start", "end"}, 1);
  std::string holder;
  const std::string_view text = Between(interpreter, self, parameters, holder);
  const auto fits = [&](const std::string& part) {
    if (part.size() > text.size()) return false;
    return (kAtEnd ? text.substr(text.size() - part.size()) : text.substr(0, part.size())) == part;
  };
  const Value& wanted = parameters.Get(0);
  if (!wanted.is_sequence() || wanted.sequence().form != SequenceForm::kTuple)
    return fits(parameters.Text(0));
  for (const Value& one : wanted.sequence().items) {
    if (!one.is_string()) throw Problem("startswith and endswith need a str or a tuple of str");
    if (fits(one.string())) return true;
  }
  return false;
}

template <std::string (*kMap)(std::string_view)>
Value Mapped(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Parameters("the method", arguments, {}, 0);
  interpreter.Charge(static_cast<std::int64_t>(self.string().size() / 8));
  return interpreter.MakeText(kMap(self.string()));
}

Value ReplaceText(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("replace", arguments, {"old", "new", "count"}, 2);
  const std::string &from = parameters.Text(0), &to = parameters.Text(1);
  const std::int64_t count = parameters.Integer(2, -1);
  interpreter.ChargeBytes(self.string().size());
  interpreter.CheckSize(ReplacedSize(self.string(), from, to, count));
  return Value(Replace(self.string(), from, to, count));
}

Value JoinText(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("join", arguments, {"iterable"}, 1);
  std::string text;
  std::size_t index = 0;
  for (const Value& item : interpreter.Iterate(parameters.Get(0))) {
    if (!item.is_string())
      throw Problem("sequence item {}: expected str instance, {} found", index, TypeName(item));
    if (index++ > 0) text += self.string();
    const std::size_t size_before = text.size();
    text += item.string();
    interpreter.ChargeBytes(text.size() - size_before);
  }
  return interpreter.MakeText(std::move(text));
}

enum class Missing { kMinusOne, kError };

template <bool kFromRight, Missing kMissing>
Value FindText(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("find", arguments, {"sub", "start", "end"}, 1);
  std::string holder;
  const std::string_view text = Between(interpreter, self, parameters, holder);
  interpreter.ChargeBytes(text.size());
  const std::size_t at =
      kFromRight ? text.rfind(parameters.Text(0)) : text.find(parameters.Text(0));
  if (at == std::string_view::npos) {
    if (kMissing == Missing::kError) throw Problem("substring not found");
    return std::int64_t{-1};
  }
  std::int64_t start = parameters.Integer(1, 0);
  if (start < 0) start = std::max<std::int64_t>(start + Length(self.string()), 0);
  return start + Length(text.substr(0, at));
}

Value CountText(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("count", arguments, {"sub", "start", "end"}, 1);
  std::string holder;
  interpreter.ChargeBytes(self.string().size());
  return CountOf(Between(interpreter, self, parameters, holder), parameters.Text(0));
}

Value FormatMethod(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return interpreter.MakeText(FormatBraces(interpreter, self.string(), arguments));
}

template <bool kSuffix>
Value RemoveAffix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters(kSuffix ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  const std::string& affix = parameters.Text(0);
  std::string_view text = self.string();
  interpreter.CheckSize(text.size());
  if (affix.size() <= text.size()) {
    if (kSuffix && text.substr(text.size() - affix.size()) == affix)
      text.remove_suffix(affix.size());
    else if (!kSuffix && text.substr(0, affix.size()) == affix)
      text.remove_prefix(affix.size());
  }
  return Value(text);
}

template <bool kFromRight>
Value Partition(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("partition", arguments, {"sep"}, 1);
  const std::string_view text = self.string(), separator = parameters.Text(0);
  if (separator.empty()) throw Problem("empty separator");
  interpreter.CheckSize(text.size());
  const std::size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
  std::vector<Value> parts;
  if (at != std::string_view::npos) {
    parts = {Value(text.substr(0, at)), Value(separator),
             Value(text.substr(at + separator.size()))};
  } else if (kFromRight) {
    parts = {Value(""), Value(""), self};
  } else {
    parts = {self, Value(""), Value("")};
  }
  return MakeSequence(std::move(parts), SequenceForm::kTuple);
}

enum class Side { kLeft, kRight, kCenter };

template <Side kText>
Value Justify(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("the method", arguments, {"width", "fillchar"}, 1);
  const std::string fill = parameters.Has(1) ? parameters.Text(1) : " ";
  if (Length(fill) != 1) throw Problem("the fill must be one character");
  const std::int64_t width = parameters.Integer(0, 0),
                     missing = std::max<std::int64_t>(width - Length(self.string()), 0);
  interpreter.CheckSize(self.string().size() +
                        static_cast<std::size_t>(std::min<std::int64_t>(missing, 1 << 30)) *
                            fill.size());
  // Python's center puts the odd one on the left if the width is odd.
  const std::int64_t left = kText == Side::kLeft    ? 0
                            : kText == Side::kRight ? missing
                                                    : missing / 2 + (missing & width & 1);
  std::string text;
  for (std::int64_t i = 0; i < left; ++i) text += fill;
  text += self.string();
  for (std::int64_t i = left; i < missing; ++i) text += fill;
  return Value(std::move(text));
}

Value ZeroFill(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("zfill", arguments, {"width"}, 1);
  const std::string& text = self.string();
  const std::int64_t missing = std::max<std::int64_t>(parameters.Integer(0, 0) - Length(text), 0);
  interpreter.CheckSize(text.size() +
                        static_cast<std::size_t>(std::min<std::int64_t>(missing, 1 << 30)));
  const std::size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  return Value(text.substr(0, sign) + std::string(static_cast<std::size_t>(missing), '0') +
               text.substr(sign));
}

template <bool (*kHas)(std::uint32_t)>
Value AllCharacters(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Parameters("the method", arguments, {}, 0);
  const std::string& text = self.string();
  interpreter.Charge(static_cast<std::int64_t>(text.size() / 8));
  for (std::size_t i = 0; i < text.size();) {
    if (!kHas(DecodeAt(text, i))) return false;
  }
  return !text.empty();
}

template <bool kUpper>
Value IsOfCase(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Parameters("the method", arguments, {}, 0);
  return interpreter.ApplyTest(kUpper ? "upper" : "lower", self, {});
}

// --- lists and tuples ----------------------------------------------------------------------------

Value CountItems(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("count", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.sequence().items;
  interpreter.Charge(static_cast<std::int64_t>(items.size()));
  return static_cast<std::int64_t>(
      std::count_if(items.begin(), items.end(),
                    [&](const Value& item) { return AreEqual(item, parameters.Get(0)); }));
}

Value IndexOfItem(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Parameters parameters("index", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.sequence().items;
  interpreter.Charge(static_cast<std::int64_t>(items.size()));
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& item) {
    return AreEqual(item, parameters.Get(0));
  });
  if (found == items.end()) throw Problem("the value is not in the list");
  return static_cast<std::int64_t>(found - items.begin());
}

Value Copy(Interpreter&, const Value& self, const Arguments& arguments) {
  Parameters("copy", arguments, {}, 0);
  return self;  // values do not change
}

// --- dicts ---------------------------------------------------------------------------------------

template <SequenceForm kForm>
Value View(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Parameters("the method", arguments, {}, 0);
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries) {
    if constexpr (kForm == SequenceForm::kKeys)
      items.push_back(key);
    else if constexpr (kForm == SequenceForm::kValues)
      items.push_back(value);
    else
      items.push_back(MakeSequence({key, value}, SequenceForm::kTuple));
  }
  interpreter.Charge(static_cast<std::int64_t>(items.size()));
  return MakeSequence(std::move(items), kForm);
}

Value GetKey(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters parameters("get", arguments, {"key", "default"}, 1);
  const Value* found = FindKey(self.dict(), parameters.Get(0));
  return found != nullptr ? *found : parameters.GetOr(1, None{});
}

// --- loops ---------------------------------------------------------------------------------------

Value Cycle(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Problem("no items for cycling given");
  return arguments
      .positional[static_cast<std::size_t>(self.loop()->index0) % arguments.positional.size()];
}

Value Changed(Interpreter&, const Value& self, const Arguments& arguments) {
  Value now = MakeSequence(arguments.positional, SequenceForm::kTuple);
  std::optional<Value>& last = self.loop()->last_changed;
  if (last && AreEqual(*last, now)) return false;
  last = std::move(now);
  return true;
}

struct Entry {
  const char* name;
  NativeFunction call;
};
constexpr Entry kStringMethods[] = {
    {"strip", StripText<true, true>},
    {"lstrip", StripText<true, false>},
    {"rstrip", StripText<false, true>},
    {"split", SplitText<false>},
    {"rsplit", SplitText<true>},
    {"splitlines", SplitTextLines},
    {"startswith", StartsOrEndsWith<false>},
    {"endswith", StartsOrEndsWith<true>},
    {"upper", Mapped<ToUpper>},
    {"lower", Mapped<ToLower>},
    {"title", Mapped<TitleCase>},
    {"capitalize", Mapped<Capitalize>},
    {"swapcase", Mapped<SwapCase>},
    {"replace", ReplaceText},
    {"join", JoinText},
    {"find", FindText<false, Missing::kMinusOne>},
    {"rfind", FindText<true, Missing::kMinusOne>},
    {"index", FindText<false, Missing::kError>},
    {"rindex", FindText<true, Missing::kError>},
    {"count", CountText},
    {"format", FormatMethod},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"ljust", Justify<Side::kLeft>},
    {"rjust", Justify<Side::kRight>},
    {"center", Justify<Side::kCenter>},
    {"zfill", ZeroFill},
    {"isalpha", AllCharacters<IsAlpha>},
    {"isdecimal", AllCharacters<IsDecimal>},
    {"isdigit", AllCharacters<IsDecimal>},
    {"isalnum", AllCharacters<IsAlphanumeric>},
    {"isspace", AllCharacters<IsSpace>},
    {"isupper", IsOfCase<true>},
    {"islower", IsOfCase<false>},
};
constexpr Entry kListMethods[] = {{"count", CountItems}, {"index", IndexOfItem}, {"copy", Copy}};
constexpr Entry kTupleMethods[] = {{"count", CountItems}, {"index", IndexOfItem}};
constexpr Entry kDictMethods[] = {{"items", View<SequenceForm::kItems>},
                                  {"keys", View<SequenceForm::kKeys>},
                                  {"values", View<SequenceForm::kValues>},
                                  {"get", GetKey},
                                  {"copy", Copy}};
constexpr Entry kLoopMethods[] = {{"cycle", Cycle}, {"changed", Changed}};

constexpr std::string_view kListChanges[] = {"append", "clear", "pop",    "reverse",
                                             "insert", "sort",  "extend", "remove"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <std::size_t kCount>
std::optional<Value> FindIn(const Entry (&entries)[kCount], const Value& self,
                            std::string_view name) {
  for (const Entry& entry : entries) {
    if (name == entry.name)
      return Value(std::make_shared<const Function>(Function{entry.name, entry.call, self}));
  }
  return std::nullopt;
}

template <std::size_t kCount>
std::optional<Value> FindChange(const std::string_view (&names)[kCount], const Value& self,
                                std::string_view name) {
  if (std::find(std::begin(names), std::end(names), name) == std::end(names)) return std::nullopt;
  return MakeUndefined(fmt::format(
      "'{}' would change a {}, which templates may not do; build a new one or use a namespace",
      name, TypeName(self)));
}

}  // namespace

std::optional<Value> FindMethod(const Value& value, std::string_view name) {
  if (value.is_string()) return FindIn(kStringMethods, value, name);
  if (value.loop() != nullptr) return FindIn(kLoopMethods, value, name);
  std::optional<Value> found;
  if (value.is_dict()) {
    found = FindIn(kDictMethods, value, name);
    if (!found) found = FindChange(kDictChanges, value, name);
  } else if (value.is_sequence() && value.sequence().form == SequenceForm::kList) {
    found = FindIn(kListMethods, value, name);
    if (!found) found = FindChange(kListChanges, value, name);
  } else if (value.is_sequence()) {
    found = FindIn(kTupleMethods, value, name);
  }
  return found;
}

}  // namespace isobit::chat
