// Parameters, and the global functions of templates.
#include "tokenizer/template_functions.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "tokenizer/template_format.h"
#include "tokenizer/template_interpreter.h"

namespace isobit::chat {

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<std::string_view> names, std::size_t num_required)
    : function_(function) {
  ISOBIT_CHECK(names.size() <= std::size(values_));
  if (arguments.positional.size() > names.size()) {
    throw Problem("{} takes at most {} argument(s), {} given", function, names.size(),
                  arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) throw Problem("{} takes no argument '{}'", function, name);
    const auto i = static_cast<std::size_t>(place - names.begin());
    if (values_[i] != nullptr) throw Problem("{} got the argument '{}' twice", function, name);
    values_[i] = &value;
  }
  for (std::size_t i = 0; i < num_required; ++i) {
    if (values_[i] == nullptr)
      throw Problem("{} needs the argument '{}'", function, names.begin()[i]);
  }
}

const std::string& Parameters::Text(std::size_t i) const {
  if (!Get(i).is_string()) {
    if (Get(i).is_undefined()) FailUndefined(Get(i));
    throw Problem("{} needs a str, not {}", function_, TypeName(Get(i)));
  }
  return Get(i).string();
}

std::int64_t Parameters::Integer(std::size_t i, std::int64_t fallback) const {
  if (!Has(i) || Get(i).is_none()) return fallback;
  if (!Get(i).is_integral()) {
    if (Get(i).is_undefined()) FailUndefined(Get(i));
    throw Problem("{} needs an integer, not {}", function_, TypeName(Get(i)));
  }
  return Get(i).integer();
}

namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as in the reference environment

Value Range(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Parameters parameters("range", arguments, {"start", "stop", "step"}, 1);
  const bool only_stop = !parameters.Has(1);
  const std::int64_t start = only_stop ? 0 : parameters.Integer(0, 0);
  const std::int64_t stop = only_stop ? parameters.Integer(0, 0) : parameters.Integer(1, 0);
  const std::int64_t step = parameters.Integer(2, 1);
  if (step == 0) throw Problem("range() arg 3 must not be zero");
  // In 128 bits, so that no bounds can overflow.
  const __int128 span =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > kMaxRange) throw Problem("a range may have at most {} elements", kMaxRange);
  interpreter.Charge(static_cast<std::int64_t>(count));
  Sequence sequence;
  sequence.form = SequenceForm::kRange;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i)
    sequence.items.emplace_back(start + i * step);
  sequence.range_text = step == 1 ? fmt::format("range({}, {})", start, stop)
                                  : fmt::format("range({}, {}, {})", start, stop, step);
  return std::make_shared<const Sequence>(std::move(sequence));
}

// dict(mapping or pairs, key=value, ...)
void FillDict(Interpreter& interpreter, std::string_view function, const Arguments& arguments,
              DictBuilder& builder) {
  if (arguments.positional.size() > 1)
    throw Problem("{} takes at most 1 argument without a name", function);
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_undefined()) FailUndefined(source);
    if (source.is_dict()) {
      for (const auto& [key, value] : source.dict().entries) builder.Set(key, value);
    } else {
      for (const Value& pair : interpreter.Iterate(source)) {
        std::vector<Value> parts = interpreter.Iterate(pair);
        if (parts.size() != 2)
          throw Problem("{} needs pairs, but found {} element(s)", function, parts.size());
        builder.Set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) builder.Set(Value(name), value);
  interpreter.Charge(static_cast<std::int64_t>(arguments.named.size()));
}

Value MakeDict(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  DictBuilder builder;
  FillDict(interpreter, "dict", arguments, builder);
  return std::move(builder).Build();
}

Value MakeNamespace(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  DictBuilder builder;
  FillDict(interpreter, "namespace", arguments, builder);
  Namespace* space = interpreter.NewNamespace();
  const Value filled = std::move(builder).Build();
  for (const auto& [key, value] : filled.dict().entries) {
    if (!key.is_string())
      throw Problem("the attributes of a namespace must be str, not {}", TypeName(key));
    space->attributes.emplace_back(key.string(), value);
  }
  return space;
}

Value RaiseException(Interpreter&, const Value&, const Arguments& arguments) {
  const Parameters parameters("raise_exception", arguments, {"message"}, 1);
  TemplateError error;
  error.message = ToText(parameters.Get(0));
  error.raised = true;
  throw error;
}

Value StrftimeNow(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Parameters parameters("strftime_now", arguments, {"format"}, 1);
  return interpreter.MakeText(FormatTime(parameters.Text(0), interpreter.unix_seconds()));
}

struct Global {
  const char* name;
  NativeFunction call;
};
constexpr Global kGlobals[] = {{"range", Range},
                               {"dict", MakeDict},
                               {"namespace", MakeNamespace},
                               {"raise_exception", RaiseException},
                               {"strftime_now", StrftimeNow}};

}  // namespace

Value FindGlobal(std::string_view name) {
  for (const Global& global : kGlobals) {
    if (name == global.name)
      return std::make_shared<const Function>(Function{global.name, global.call, {}});
  }
  return Value();
}

}  // namespace isobit::chat
