// The operators of the template language over values, with Python's meaning. Integer overflow is an
// error.
#pragma once

#include <optional>

#include "tokenizer/template_ast.h"
#include "tokenizer/template_value.h"

namespace isobit::chat {

Value Arithmetic(Interpreter& interpreter, Operator op, const Value& left, const Value& right);
Value Negate(const Value& value);
Value UnaryPlus(const Value& value);

// A comparison, `in` or `not in`.
bool Holds(Interpreter& interpreter, Operator op, const Value& left, const Value& right);
bool Contains(Interpreter& interpreter, const Value& container, const Value& item);

// value[index] of a string or sequence, from the end if negative; nullopt outside.
std::optional<Value> Element(Interpreter& interpreter, const Value& value, std::int64_t index);
// value[start:stop:step]; each bound an integer or None.
Value Slice(Interpreter& interpreter, const Value& value, const Value& start, const Value& stop,
            const Value& step);

}  // namespace isobit::chat
