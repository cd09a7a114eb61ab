// The tests of templates: x is defined, x is string, ...
#include <cmath>

#include "tokenizer/template_functions.h"
#include "tokenizer/template_interpreter.h"
#include "tokenizer/template_operators.h"
#include "tokenizer/template_strings.h"

namespace isobit::chat {
namespace {

void NoArguments(const Arguments& arguments) { Parameters("the test", arguments, {}, 0); }

template <bool (*kHolds)(const Value&)>
Value Simple(Interpreter&, const Value& value, const Arguments& arguments) {
  NoArguments(arguments);
  return kHolds(value);
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsBoolean(const Value& value) { return value.is_bool(); }
bool IsTrueConstant(const Value& value) { return value.is_bool() && value.integer() == 1; }
bool IsFalseConstant(const Value& value) { return value.is_bool() && value.integer() == 0; }
bool IsInteger(const Value& value) { return value.is_int(); }
bool IsFloat(const Value& value) { return value.is_float(); }
bool IsNumber(const Value& value) { return value.is_number(); }  // a bool is one, as in Python
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is_dict(); }
bool IsEscaped(const Value&) { return false; }

bool IsSequence(const Value& value) {
  if (value.is_string() || value.is_dict()) return true;
  if (!value.is_sequence()) return false;
  const SequenceForm form = value.sequence().form;
  return form == SequenceForm::kList || form == SequenceForm::kTuple ||
         form == SequenceForm::kRange;
}

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_dict() || value.is_sequence() ||
         value.iterator() != nullptr || value.loop() != nullptr;
}

bool IsCallable(const Value& value) {
  return value.macro() != nullptr || value.function() != nullptr || value.loop() != nullptr;
}

// Every cased character is of one case, and there is one.
bool AllOfCase(const Value& value, bool (*wanted)(std::uint32_t), bool (*refused)(std::uint32_t)) {
  const std::string text = ToText(value);
  bool found = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::uint32_t c = DecodeAt(text, i);
    if (refused(c)) return false;
    found = found || wanted(c);
  }
  return found;
}
bool IsLowerText(const Value& value) { return AllOfCase(value, IsLower, IsUpper); }
bool IsUpperText(const Value& value) { return AllOfCase(value, IsUpper, IsLower); }

std::int64_t IntegerOf(const Value& value) {
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_integral()) throw Problem("the test needs an integer, not {}", TypeName(value));
  return value.integer();
}

Value Odd(Interpreter&, const Value& value, const Arguments& arguments) {
  NoArguments(arguments);
  return IntegerOf(value) % 2 != 0;
}
Value Even(Interpreter&, const Value& value, const Arguments& arguments) {
  NoArguments(arguments);
  return IntegerOf(value) % 2 == 0;
}
Value DivisibleBy(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters parameters("divisibleby", arguments, {"num"}, 1);
  const std::int64_t divisor = IntegerOf(parameters.Get(0));
  if (divisor == 0) throw Problem("division by zero");
  return divisor == -1 || IntegerOf(value) % divisor == 0;
}

template <Operator kOperator>
Value Compared(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Parameters parameters("the test", arguments, {"other"}, 1);
  return Holds(interpreter, kOperator, value, parameters.Get(0));
}

Value SameAs(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters parameters("sameas", arguments, {"other"}, 1);
  const Value& other = parameters.Get(0);
  return TypeName(value) == TypeName(other) && AreEqual(value, other);
}

Value IsFilter(Interpreter&, const Value& value, const Arguments& arguments) {
  NoArguments(arguments);
  return value.is_string() && FindFilter(value.string()) != nullptr;
}
Value IsTest(Interpreter&, const Value& value, const Arguments& arguments) {
  NoArguments(arguments);
  return value.is_string() && FindTest(value.string()) != nullptr;
}

struct Entry {
  std::string_view name;
  NativeFunction test;
};
constexpr Entry kTests[] = {
    {"defined", Simple<IsDefined>},
    {"undefined", Simple<IsUndefined>},
    {"none", Simple<IsNone>},
    {"boolean", Simple<IsBoolean>},
    {"true", Simple<IsTrueConstant>},
    {"false", Simple<IsFalseConstant>},
    {"integer", Simple<IsInteger>},
    {"float", Simple<IsFloat>},
    {"number", Simple<IsNumber>},
    {"string", Simple<IsString>},
    {"mapping", Simple<IsMapping>},
    {"sequence", Simple<IsSequence>},
    {"iterable", Simple<IsIterable>},
    {"callable", Simple<IsCallable>},
    {"escaped", Simple<IsEscaped>},
    {"lower", Simple<IsLowerText>},
    {"upper", Simple<IsUpperText>},
    {"odd", Odd},
    {"even", Even},
    {"divisibleby", DivisibleBy},
    {"sameas", SameAs},
    {"filter", IsFilter},
    {"test", IsTest},
    {"in", Compared<Operator::kIn>},
    {"==", Compared<Operator::kEqual>},
    {"eq", Compared<Operator::kEqual>},
    {"equalto", Compared<Operator::kEqual>},
    {"!=", Compared<Operator::kNotEqual>},
    {"ne", Compared<Operator::kNotEqual>},
    {">", Compared<Operator::kGreater>},
    {"gt", Compared<Operator::kGreater>},
    {"greaterthan", Compared<Operator::kGreater>},
    {">=", Compared<Operator::kGreaterEqual>},
    {"ge", Compared<Operator::kGreaterEqual>},
    {"<", Compared<Operator::kLess>},
    {"lt", Compared<Operator::kLess>},
    {"lessthan", Compared<Operator::kLess>},
    {"<=", Compared<Operator::kLessEqual>},
    {"le", Compared<Operator::kLessEqual>},
};

}  // namespace

NativeFunction FindTest(std::string_view name) {
  for (const Entry& entry : kTests) {
    if (entry.name == name) return entry.test;
  }
  return nullptr;
}

std::vector<std::string_view> TestNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kTests) names.push_back(entry.name);
  return names;
}

}  // namespace isobit::chat
