#include "tokenizer/template_operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "tokenizer/template_format.h"
#include "tokenizer/template_interpreter.h"
#include "tokenizer/template_strings.h"

namespace isobit::chat {
namespace {

std::string_view SignOf(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    case Operator::kPower:
      return "**";
    case Operator::kEqual:
      return "==";
    case Operator::kNotEqual:
      return "!=";
    case Operator::kLess:
      return "<";
    case Operator::kLessEqual:
      return "<=";
    case Operator::kGreater:
      return ">";
    case Operator::kGreaterEqual:
      return ">=";
    case Operator::kIn:
      return "in";
    case Operator::kNotIn:
      return "not in";
  }
  ISOBIT_CHECK(false);
}

TemplateError Overflow() { return Problem("an integer does not fit 64 bits"); }

std::int64_t FloorDivide(std::int64_t left, std::int64_t right) {
  if (left == std::numeric_limits<std::int64_t>::min() && right == -1) throw Overflow();
  const std::int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

std::int64_t FloorModulo(std::int64_t left, std::int64_t right) {
  if (right == -1) return 0;
  const std::int64_t rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

std::int64_t Power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) throw Overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) throw Overflow();
  }
  return result;
}

Value IntegerArithmetic(Operator op, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case Operator::kDivide:
      return static_cast<double>(left) / static_cast<double>(right);
    case Operator::kFloorDivide:
      return FloorDivide(left, right);
    case Operator::kModulo:
      return FloorModulo(left, right);
    case Operator::kPower:
      if (right < 0) return std::pow(static_cast<double>(left), static_cast<double>(right));
      return Power(left, right);
    default:
      ISOBIT_CHECK(false);
  }
  if (overflow) throw Overflow();
  return result;
}

Value FloatArithmetic(Operator op, double left, double right) {
  switch (op) {
    case Operator::kAdd:
      return left + right;
    case Operator::kSubtract:
      return left - right;
    case Operator::kMultiply:
      return left * right;
    case Operator::kDivide:
      return left / right;
    case Operator::kFloorDivide: {
      double rest = std::fmod(left, right);
      double quotient = (left - rest) / right;
      if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
      const double floored = std::floor(quotient);
      return quotient - floored > 0.5 ? floored + 1 : floored;
    }
    case Operator::kModulo: {
      const double rest = std::fmod(left, right);
      if (rest == 0) return std::copysign(0.0, right);
      return (rest < 0) != (right < 0) ? rest + right : rest;
    }
    case Operator::kPower:
      return std::pow(left, right);
    default:
      ISOBIT_CHECK(false);
  }
}

Value NumberArithmetic(Operator op, const Value& left, const Value& right) {
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && right.number() == 0) throw Problem("division by zero");
  if (op == Operator::kPower && left.number() == 0 && right.number() < 0)
    throw Problem("zero cannot be raised to a negative power");
  if (left.is_integral() && right.is_integral())
    return IntegerArithmetic(op, left.integer(), right.integer());
  return FloatArithmetic(op, left.number(), right.number());
}

bool IsListOrTuple(const Value& value) {
  return value.is_sequence() && (value.sequence().form == SequenceForm::kList ||
                                 value.sequence().form == SequenceForm::kTuple);
}

Value Repeat(Interpreter& interpreter, const Value& value, std::int64_t count) {
  count = std::max<std::int64_t>(count, 0);
  const std::size_t size =
      value.is_string() ? value.string().size() : value.sequence().items.size();
  std::int64_t total = 0;
  if (__builtin_mul_overflow(static_cast<std::int64_t>(size), count, &total))
    total = std::numeric_limits<std::int64_t>::max();
  if (value.is_string()) {
    interpreter.CheckSize(static_cast<std::size_t>(total));
    std::string text;
    text.reserve(static_cast<std::size_t>(total));
    for (std::int64_t i = 0; size > 0 && i < count; ++i) text += value.string();
    return Value(std::move(text));
  }
  interpreter.Charge(std::min(total, std::numeric_limits<std::int64_t>::max() / 2));
  std::vector<Value> items;
  const std::vector<Value>& source = value.sequence().items;
  for (std::int64_t i = 0; size > 0 && i < count; ++i)
    items.insert(items.end(), source.begin(), source.end());
  return MakeSequence(std::move(items), value.sequence().form);
}

Value Join(Interpreter& interpreter, const Value& left, const Value& right) {
  if (left.is_string()) {
    interpreter.CheckSize(left.string().size() + right.string().size());
    return Value(left.string() + right.string());
  }
  std::vector<Value> items = left.sequence().items;
  const std::vector<Value>& more = right.sequence().items;
  interpreter.Charge(static_cast<std::int64_t>(items.size() + more.size()));
  items.insert(items.end(), more.begin(), more.end());
  return MakeSequence(std::move(items), left.sequence().form);
}

// Python's rules for the bounds of a slice over `length` elements.
struct Bounds {
  std::int64_t start, stop, step;
};
Bounds ResolveBounds(std::int64_t length, const Value& start, const Value& stop,
                     const Value& step) {
  for (const Value* bound : {&start, &stop, &step}) {
    if (bound->is_undefined()) FailUndefined(*bound);
    if (!bound->is_none() && !bound->is_integral())
      throw Problem("slice indices must be integers or None, not {}", TypeName(*bound));
  }
  Bounds bounds{};
  bounds.step = step.is_none() ? 1 : step.integer();
  if (bounds.step == 0) throw Problem("slice step cannot be zero");
  bounds.step = std::clamp(bounds.step, -length - 1,
                           length + 1);  // as far as any step goes, and i += step cannot overflow
  const bool backward = bounds.step < 0;
  const std::int64_t low = backward ? -1 : 0, high = backward ? length - 1 : length;
  const auto resolve = [&](const Value& bound, std::int64_t absent) {
    if (bound.is_none()) return absent;
    std::int64_t index = bound.integer();
    if (index < 0) index = index < -length ? -1 : index + length;
    return std::clamp(index, low, high);
  };
  bounds.start = resolve(start, backward ? high : low);
  bounds.stop = resolve(stop, backward ? low : high);
  return bounds;
}

}  // namespace

Value Arithmetic(Interpreter& interpreter, Operator op, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    // "%" fills an undefined value into its text.
    if (side->is_undefined() && !(op == Operator::kModulo && left.is_string()))
      FailUndefined(*side);
  }
  if (left.is_number() && right.is_number()) return NumberArithmetic(op, left, right);
  if (op == Operator::kAdd) {
    const bool same_lists = IsListOrTuple(left) && IsListOrTuple(right) &&
                            left.sequence().form == right.sequence().form;
    if ((left.is_string() && right.is_string()) || same_lists)
      return Join(interpreter, left, right);
    if (left.is_string())
      throw Problem("can only concatenate str (not \"{}\") to str", TypeName(right));
  }
  if (op == Operator::kMultiply) {
    const bool repeatable_left = left.is_string() || IsListOrTuple(left),
               repeatable_right = right.is_string() || IsListOrTuple(right);
    if (repeatable_left && right.is_integral()) return Repeat(interpreter, left, right.integer());
    if (repeatable_right && left.is_integral()) return Repeat(interpreter, right, left.integer());
  }
  if (op == Operator::kModulo && left.is_string())
    return interpreter.MakeText(FormatPercent(interpreter, left.string(), right));
  throw Problem("unsupported operand type(s) for {}: '{}' and '{}'", SignOf(op), TypeName(left),
                TypeName(right));
}

Value Negate(const Value& value) {
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_float()) return -value.float_value();
  if (!value.is_integral()) throw Problem("bad operand type for unary -: '{}'", TypeName(value));
  return IntegerArithmetic(Operator::kSubtract, 0, value.integer());
}

Value UnaryPlus(const Value& value) {
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_bool()) return value.integer();
  if (!value.is_number()) throw Problem("bad operand type for unary +: '{}'", TypeName(value));
  return value;
}

bool Contains(Interpreter& interpreter, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      if (item.is_undefined()) FailUndefined(item);
      throw Problem("'in <string>' requires string as left operand, not {}", TypeName(item));
    }
    interpreter.ChargeBytes(container.string().size());
    return container.string().find(item.string()) != std::string::npos;
  }
  if (container.is_dict()) return FindKey(container.dict(), item) != nullptr;
  if (container.is_sequence()) {
    const std::vector<Value>& items = container.sequence().items;
    interpreter.Charge(static_cast<std::int64_t>(items.size()));
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& one) { return AreEqual(one, item); });
  }
  if (container.is_undefined()) return false;
  if (Iterator* iterator = container.iterator()) {  // stops behind the item, as Python does
    while (iterator->next < iterator->items.size()) {
      interpreter.Charge(1);
      if (AreEqual(iterator->items[iterator->next++], item)) return true;
    }
    return false;
  }
  throw Problem("argument of type '{}' is not iterable", TypeName(container));
}

bool Holds(Interpreter& interpreter, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kIn:
      return Contains(interpreter, right, left);
    case Operator::kNotIn:
      return !Contains(interpreter, right, left);
    case Operator::kEqual:
      return AreEqual(left, right);
    case Operator::kNotEqual:
      return !AreEqual(left, right);
    default:
      break;
  }
  const auto is_nan = [](const Value& v) { return v.is_float() && std::isnan(v.float_value()); };
  const int order = Compare(left, right, SignOf(op));
  if (is_nan(left) || is_nan(right)) return false;
  switch (op) {
    case Operator::kLess:
      return order < 0;
    case Operator::kLessEqual:
      return order <= 0;
    case Operator::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

std::optional<Value> Element(Interpreter& interpreter, const Value& value, std::int64_t index) {
  if (value.is_sequence()) {
    const std::vector<Value>& items = value.sequence().items;
    const bool indexable = IsListOrTuple(value) || value.sequence().form == SequenceForm::kRange;
    if (index < 0) index += static_cast<std::int64_t>(items.size());
    if (!indexable || index < 0 || index >= static_cast<std::int64_t>(items.size()))
      return std::nullopt;
    return items[static_cast<std::size_t>(index)];
  }
  const std::string& text = value.string();
  interpreter.ChargeBytes(text.size());
  if (index < 0) index += Length(text);
  if (index < 0) return std::nullopt;
  std::size_t at = 0;
  for (; at < text.size() && index > 0; --index) DecodeAt(text, at);
  if (at >= text.size()) return std::nullopt;
  const std::size_t begin = at;
  DecodeAt(text, at);
  return Value(std::string_view(text).substr(begin, at - begin));
}

Value Slice(Interpreter& interpreter, const Value& value, const Value& start, const Value& stop,
            const Value& step) {
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_string()) {
    const std::string& text = value.string();
    interpreter.CheckSize(text.size());
    const std::vector<std::string_view> characters = Characters(text);
    const Bounds bounds =
        ResolveBounds(static_cast<std::int64_t>(characters.size()), start, stop, step);
    std::string out;
    const auto add = [&](std::int64_t i) { out += characters[static_cast<std::size_t>(i)]; };
    if (bounds.step > 0) {
      for (std::int64_t i = bounds.start; i < bounds.stop; i += bounds.step) add(i);
    } else {
      for (std::int64_t i = bounds.start; i > bounds.stop; i += bounds.step) add(i);
    }
    return Value(std::move(out));
  }
  const bool sliceable = value.is_sequence() &&
                         (IsListOrTuple(value) || value.sequence().form == SequenceForm::kRange);
  if (!sliceable) return MakeUndefined(fmt::format("{} object cannot be sliced", TypeName(value)));
  const std::vector<Value>& items = value.sequence().items;
  const Bounds bounds = ResolveBounds(static_cast<std::int64_t>(items.size()), start, stop, step);
  interpreter.Charge(static_cast<std::int64_t>(items.size()));
  std::vector<Value> out;
  if (bounds.step > 0) {
    for (std::int64_t i = bounds.start; i < bounds.stop; i += bounds.step)
      out.push_back(items[static_cast<std::size_t>(i)]);
  } else {
    for (std::int64_t i = bounds.start; i > bounds.stop; i += bounds.step)
      out.push_back(items[static_cast<std::size_t>(i)]);
  }
  // A slice of a range is a range in Python, which prints otherwise; as a list it can be walked and
  // counted all the same.
  return MakeSequence(std::move(out), value.sequence().form == SequenceForm::kTuple
                                          ? SequenceForm::kTuple
                                          : SequenceForm::kList);
}

}  // namespace isobit::chat
