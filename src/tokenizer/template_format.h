// Python's ways to fill values into text: "%s has %d" % values, "{} has {n}".format(...), and
// strftime.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/template_value.h"

namespace isobit::chat {

// values: a tuple, or a dict for %(name)s, or one value.
std::string FormatPercent(Interpreter& interpreter, std::string_view format, const Value& values);
std::string FormatBraces(Interpreter& interpreter, std::string_view format,
                         const Arguments& arguments);

// UTC, the C locale. Directives: a A b B c d e f H I j m M p S s T F D R u w x X y Y Z z %, with
// '-' before them for no padding.
std::string FormatTime(std::string_view format, std::int64_t unix_seconds);

// Python's round(value, digits) for floats: the exact decimal value, halves to even.
double RoundTo(double value, int digits);

}  // namespace isobit::chat
