#include "tokenizer/template_format.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>

#include "base/utf8.h"
#include "tokenizer/template_interpreter.h"
#include "tokenizer/template_strings.h"

namespace isobit::chat {
namespace {

constexpr std::int64_t kMaxWidth = 10'000;  // of a padded field, and of digits

struct FieldSpec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '='; 0: by type
  char sign = '-';
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = 0;  // ',' or '_'
  std::optional<std::int64_t> precision;
  char type = 0;
};

// Reads digits at `at`; nullopt if there are none.
std::optional<std::int64_t> ReadNumber(std::string_view text, std::size_t& at) {
  std::int64_t number = 0;
  const auto result = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (result.ptr == text.data() + at || text[at] == '-') return std::nullopt;
  if (result.ec != std::errc() || number > kMaxWidth)
    throw Problem("a format asks for a width or precision above {}", kMaxWidth);
  at = static_cast<std::size_t>(result.ptr - text.data());
  return number;
}

std::string Repeated(std::string_view fill, std::int64_t count) {
  std::string out;
  for (std::int64_t i = 0; i < count; ++i) out += fill;
  return out;
}

// body: sign or prefix and digits apart, so that '=' can pad between them.
std::string Pad(std::string prefix, std::string body, const FieldSpec& spec, char default_align) {
  const std::int64_t missing = spec.width - Length(prefix) - Length(body);
  if (missing <= 0) return prefix + body;
  switch (spec.align != 0 ? spec.align : default_align) {
    case '<':
      return prefix + body + Repeated(spec.fill, missing);
    case '^':
      return Repeated(spec.fill, missing / 2) + prefix + body +
             Repeated(spec.fill, missing - missing / 2);
    case '=':
      return prefix + Repeated(spec.fill, missing) + body;
    default:
      return Repeated(spec.fill, missing) + prefix + body;
  }
}

std::string Group(const std::string& digits, char separator, std::size_t every) {
  std::size_t whole = 0;
  while (whole < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[whole])) != 0 &&
         digits[whole] != 'e')
    ++whole;
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string SignText(bool negative, char sign) {
  return negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

std::string FormatInteger(std::int64_t value, const FieldSpec& spec) {
  const std::uint64_t magnitude =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string digits, prefix = SignText(value < 0, spec.sign);
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      break;
    default:
      digits = fmt::format("{}", magnitude);
  }
  const bool decimal = spec.type == 0 || spec.type == 'd' || spec.type == 'n' || spec.type == 'i' ||
                       spec.type == 'u';
  if (spec.alternate && !decimal) prefix.append("0").append(1, spec.type);
  if (spec.precision && static_cast<std::int64_t>(digits.size()) < *spec.precision) {
    digits.insert(0, static_cast<std::size_t>(*spec.precision) - digits.size(), '0');
  }
  if (spec.grouping != 0) digits = Group(digits, spec.grouping, decimal ? 3 : 4);
  return Pad(std::move(prefix), std::move(digits), spec, '>');
}

std::string FormatNumber(double value, const FieldSpec& spec) {
  const bool upper = spec.type == 'F' || spec.type == 'E' || spec.type == 'G';
  const double magnitude = std::fabs(value);
  const int precision = static_cast<int>(spec.precision.value_or(6));
  std::string digits;
  if (std::isnan(value)) {
    digits = "nan";
  } else if (std::isinf(value)) {
    digits = "inf";
  } else {
    switch (spec.type) {
      case 'f':
      case 'F':
        digits = fmt::format("{:.{}f}", magnitude, precision);
        break;
      case 'e':
      case 'E':
        digits = fmt::format("{:.{}e}", magnitude, precision);
        break;
      case '%':
        digits = fmt::format("{:.{}f}%", magnitude * 100, precision);
        break;
      case 'g':
      case 'G':
        digits = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
        break;
      default:
        digits = spec.precision ? fmt::format("{:.{}g}", magnitude, std::max(precision, 1))
                                : FloatText(magnitude);
    }
  }
  if (upper) digits = ToUpper(digits);
  if (spec.grouping != 0) digits = Group(digits, spec.grouping, 3);
  return Pad(SignText(std::signbit(value) && !std::isnan(value), spec.sign), std::move(digits),
             spec, '>');
}

std::string FormatText(std::string_view text, const FieldSpec& spec) {
  std::string body(text);
  if (spec.precision) {
    std::size_t at = 0;
    for (std::int64_t i = 0; i < *spec.precision && at < text.size(); ++i) DecodeAt(text, at);
    body.resize(at);
  }
  return Pad("", std::move(body), spec, '<');
}

constexpr std::string_view kFloatTypes = "eEfFgG%";

// format(value, spec)
std::string FormatField(const Value& value, std::string_view text) {
  if (text.empty()) return ToText(value);
  FieldSpec spec;
  std::size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  std::size_t after_first = 0;
  DecodeAt(text, after_first);
  if (after_first < text.size() && is_align(text[after_first])) {
    spec.fill = std::string(text.substr(0, after_first));
    spec.align = text[after_first];
    at = after_first + 1;
  } else if (is_align(text[0])) {
    spec.align = text[at++];
  }
  const auto take = [&](std::string_view set) {
    return at < text.size() && set.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = ReadNumber(text, at).value_or(0);
  spec.grouping = take(",_");
  if (take(".") != 0) {
    spec.precision = ReadNumber(text, at);
    if (!spec.precision) throw Problem("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) throw Problem("Invalid format specifier '{}'", text);
  if (value.is_string()) {
    if (spec.type != 0 && spec.type != 's')
      throw Problem("Unknown format code '{}' for object of type 'str'", spec.type);
    if (spec.align == '=' && spec.fill == "0") spec.align = '<';
    return FormatText(value.string(), spec);
  }
  const bool float_type = spec.type != 0 && kFloatTypes.find(spec.type) != std::string_view::npos;
  if (value.is_float() || (value.is_integral() && float_type)) {
    if (spec.type != 0 && !float_type)
      throw Problem("Unknown format code '{}' for object of type 'float'", spec.type);
    return FormatNumber(value.number(), spec);
  }
  if (value.is_integral()) {
    if (spec.type == 'c') {
      std::string character;
      AppendUtf8(static_cast<std::uint32_t>(std::clamp<std::int64_t>(value.integer(), 0, 0x10FFFF)),
                 character);
      return Pad("", std::move(character), spec, '<');
    }
    if (spec.type != 0 && std::string_view("bdoxXn").find(spec.type) == std::string_view::npos) {
      throw Problem("Unknown format code '{}' for object of type 'int'", spec.type);
    }
    if (spec.precision) throw Problem("Precision not allowed in integer format specifier");
    return FormatInteger(value.integer(), spec);
  }
  throw Problem("unsupported format string passed to {}.__format__", TypeName(value));
}

}  // namespace

std::string FormatPercent(Interpreter& interpreter, std::string_view format, const Value& values) {
  const bool is_tuple = values.is_sequence() && values.sequence().form == SequenceForm::kTuple;
  std::size_t next = 0;
  const auto take_value = [&]() -> Value {
    const std::size_t count = is_tuple ? values.sequence().items.size() : 1;
    if (next >= count) throw Problem("not enough arguments for format string");
    return is_tuple ? values.sequence().items[next++] : (++next, values);
  };
  std::string out;
  bool by_name = false;
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    const auto more = [&] {
      if (at >= format.size()) throw Problem("incomplete format");
      return format[at];
    };
    ++at;
    std::optional<Value> named;
    if (more() == '(') {
      const std::size_t close = format.find(')', at);
      if (close == std::string_view::npos) throw Problem("incomplete format key");
      if (!values.is_dict()) throw Problem("format requires a mapping");
      const std::string_view key = format.substr(at + 1, close - at - 1);
      const Value* found = FindKey(values.dict(), key);
      if (found == nullptr) throw Problem("the format names '{}', which the mapping lacks", key);
      named = *found;
      by_name = true;
      at = close + 1;
    }
    FieldSpec spec;
    for (; std::string_view("-+ #0").find(more()) != std::string_view::npos; ++at) {
      const char flag = format[at];
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign == '-')) spec.sign = flag;
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.fill = "0";
    }
    if (spec.align == '<') spec.fill = " ";
    spec.width = ReadNumber(format, at).value_or(0);
    if (more() == '.') {
      ++at;
      spec.precision = ReadNumber(format, at).value_or(0);
    }
    spec.type = more();
    ++at;
    if (spec.type == '%') {
      out += '%';
      continue;
    }
    const Value value = named ? *named : take_value();
    const bool pads_with_zero = spec.fill == "0";
    if (spec.type == 's' || spec.type == 'r') {
      spec.fill = " ";
      if (spec.align == 0) spec.align = '>';
      out += FormatText(spec.type == 's' ? ToText(value) : ToRepr(value), spec);
    } else if (kFloatTypes.find(spec.type) != std::string_view::npos) {
      if (!value.is_number()) throw Problem("must be real number, not {}", TypeName(value));
      if (pads_with_zero) spec.align = '=';
      out += FormatNumber(value.number(), spec);
    } else if (std::string_view("diuxXo").find(spec.type) != std::string_view::npos) {
      if (!value.is_number() || (value.is_float() && !(std::fabs(value.float_value()) < 9e18))) {
        throw Problem("%{} format: a real number is required, not {}", spec.type, TypeName(value));
      }
      if (value.is_float() && std::string_view("xXo").find(spec.type) != std::string_view::npos) {
        throw Problem("%{} format: an integer is required, not float", spec.type);
      }
      if (pads_with_zero) spec.align = '=';
      out += FormatInteger(
          value.is_float() ? static_cast<std::int64_t>(value.float_value()) : value.integer(),
          spec);
    } else {
      throw Problem("unsupported format character '{}'", spec.type);
    }
    interpreter.CheckSize(out.size());
  }
  const std::size_t num_given = is_tuple                      ? values.sequence().items.size()
                                : values.is_dict() || by_name ? next
                                                              : 1;
  if (!by_name && next < num_given)
    throw Problem("not all arguments converted during string formatting");
  return out;
}

std::string FormatBraces(Interpreter& interpreter, std::string_view format,
                         const Arguments& arguments) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < format.size();) {
    const char c = format[at];
    if (c != '{' && c != '}') {
      out += format[at++];
      continue;
    }
    if (at + 1 < format.size() && format[at + 1] == c) {
      out += c;
      at += 2;
      continue;
    }
    if (c == '}') throw Problem("Single '}}' encountered in format string");
    const std::size_t close = format.find('}', at);
    if (close == std::string_view::npos) throw Problem("expected '}}' before end of string");
    std::string_view field = format.substr(at + 1, close - at - 1);
    at = close + 1;
    if (field.find('{') != std::string_view::npos)
      throw Problem("a format inside a format is not supported");
    const std::size_t colon = field.find(':');
    const std::string_view spec =
        colon == std::string_view::npos ? std::string_view() : field.substr(colon + 1);
    field = field.substr(0, colon);
    char conversion = 0;
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.remove_suffix(2);
    }
    // name, then .attribute and [key] as often as they come
    std::size_t end = std::min(field.find_first_of(".["), field.size());
    const std::string_view name = field.substr(0, end);
    Value value;
    std::size_t number_end = 0;
    const std::optional<std::int64_t> number =
        name.empty() ? std::nullopt : ReadNumber(name, number_end);
    if (name.empty() || (number && number_end == name.size())) {
      const std::size_t index = name.empty() ? next++ : static_cast<std::size_t>(*number);
      if (index >= arguments.positional.size())
        throw Problem("Replacement index {} out of range for positional args tuple", index);
      value = arguments.positional[index];
    } else {
      const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto& one) { return one.first == name; });
      if (found == arguments.named.end())
        throw Problem("the format names '{}', which the call lacks", name);
      value = found->second;
    }
    while (end < field.size()) {
      if (field[end] == '.') {
        const std::size_t stop = std::min(field.find_first_of(".[", end + 1), field.size());
        value = interpreter.GetAttribute(value, field.substr(end + 1, stop - end - 1));
        end = stop;
      } else {
        const std::size_t stop = field.find(']', end);
        if (stop == std::string_view::npos) throw Problem("Missing ']' in format string");
        const std::string_view key = field.substr(end + 1, stop - end - 1);
        std::size_t key_end = 0;
        const std::optional<std::int64_t> index =
            key.empty() ? std::nullopt : ReadNumber(key, key_end);
        value =
            interpreter.GetItem(value, index && key_end == key.size() ? Value(*index) : Value(key));
        end = stop + 1;
      }
    }
    if (conversion == 'r')
      value = Value(ToRepr(value));
    else if (conversion == 's')
      value = Value(ToText(value));
    else if (conversion != 0)
      throw Problem("unknown conversion specifier '{}'", conversion);
    out += FormatField(value, spec);
    interpreter.CheckSize(out.size());
  }
  return out;
}

std::string FormatTime(std::string_view format, std::int64_t unix_seconds) {
  using namespace std::chrono;
  static constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                          "Thursday", "Friday", "Saturday"};
  static constexpr const char* kMonths[] = {"January",   "February", "March",    "April",
                                            "May",       "June",     "July",     "August",
                                            "September", "October",  "November", "December"};
  // Years 1 to 9999, as Python's datetime.
  const std::int64_t seconds_in =
      std::clamp<std::int64_t>(unix_seconds, -62'135'596'800, 253'402'300'799);
  const sys_seconds time{seconds{seconds_in}};
  const sys_days day = floor<days>(time);
  const year_month_day date(day);
  const std::int64_t second_of_day = (time - day).count();
  const int year = static_cast<int>(date.year()), hour = static_cast<int>(second_of_day / 3600);
  const int minute = static_cast<int>(second_of_day / 60 % 60),
            second = static_cast<int>(second_of_day % 60);
  const unsigned month = static_cast<unsigned>(date.month()),
                 day_of_month = static_cast<unsigned>(date.day());
  const unsigned weekday_index = weekday(day).c_encoding();
  const auto day_of_year = (day - sys_days(date.year() / January / 1)).count() + 1;
  const int hour12 = hour % 12 == 0 ? 12 : hour % 12;

  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool bare = format[i + 1] == '-' && i + 2 < format.size();
    i += bare ? 2 : 1;
    const auto number = [&](std::int64_t value, int width, char fill = '0') {
      std::string digits = std::to_string(value);
      if (!bare && static_cast<int>(digits.size()) < width)
        digits.insert(0, static_cast<std::size_t>(width) - digits.size(), fill);
      out += digits;
    };
    switch (format[i]) {
      case 'a':
        out += std::string_view(kDays[weekday_index]).substr(0, 3);
        break;
      case 'A':
        out += kDays[weekday_index];
        break;
      case 'b':
      case 'h':
        out += std::string_view(kMonths[month - 1]).substr(0, 3);
        break;
      case 'B':
        out += kMonths[month - 1];
        break;
      case 'c':
        out += FormatTime("%a %b %e %H:%M:%S %Y", unix_seconds);
        break;
      case 'd':
        number(day_of_month, 2);
        break;
      case 'D':
      case 'x':
        out += FormatTime("%m/%d/%y", unix_seconds);
        break;
      case 'e':
        number(day_of_month, 2, ' ');
        break;
      case 'f':
        out += "000000";
        break;
      case 'F':
        out += FormatTime("%Y-%m-%d", unix_seconds);
        break;
      case 'H':
        number(hour, 2);
        break;
      case 'I':
        number(hour12, 2);
        break;
      case 'j':
        number(day_of_year, 3);
        break;
      case 'm':
        number(month, 2);
        break;
      case 'M':
        number(minute, 2);
        break;
      case 'p':
        out += hour < 12 ? "AM" : "PM";
        break;
      case 'R':
        out += FormatTime("%H:%M", unix_seconds);
        break;
      case 's':
        out += std::to_string(seconds_in);
        break;
      case 'S':
        number(second, 2);
        break;
      case 'T':
      case 'X':
        out += FormatTime("%H:%M:%S", unix_seconds);
        break;
      case 'u':
        number(weekday_index == 0 ? 7 : weekday_index, 1);
        break;
      case 'w':
        number(weekday_index, 1);
        break;
      case 'y':
        number(year % 100, 2);
        break;
      case 'Y':
        number(year, 1);
        break;
      case 'Z':
        out += "UTC";
        break;
      case 'z':
        out += "+0000";
        break;
      case '%':
        out += '%';
        break;
      default:
        throw Problem("strftime_now does not know '%{}'", format.substr(i, 1));
    }
  }
  return out;
}

double RoundTo(double value, int digits) {
  if (!std::isfinite(value) || digits > 22) return value;
  const std::string text = fmt::format("{:.{}f}", value, std::max(digits, 0));
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

}  // namespace isobit::chat
