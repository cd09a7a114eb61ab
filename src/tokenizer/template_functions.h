// What a template can call by name: filters, tests, methods of strings, lists and dicts, and global
// functions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/template_value.h"

namespace isobit::chat {

NativeFunction FindFilter(std::string_view name);  // nullptr if there is none
NativeFunction FindTest(std::string_view name);
Value FindGlobal(std::string_view name);  // undefined if there is none
// The method `name` of value, bound to it. A method that would change a list or dict is found as an
// undefined value that says so: the reference environment is immutable too.
std::optional<Value> FindMethod(const Value& value, std::string_view name);

std::vector<std::string_view> FilterNames();
std::vector<std::string_view> TestNames();

// The arguments of a native call by the names of its parameters.
class Parameters {
 public:
  // names: at most 8. Throws if an argument is missing, unknown, given twice or one too many.
  Parameters(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, std::size_t num_required);

  bool Has(std::size_t i) const { return values_[i] != nullptr; }
  const Value& Get(std::size_t i) const { return *values_[i]; }
  Value GetOr(std::size_t i, Value fallback) const { return Has(i) ? Get(i) : fallback; }
  const std::string& Text(std::size_t i) const;
  std::int64_t Integer(std::size_t i, std::int64_t fallback) const;  // None counts as absent
  bool Bool(std::size_t i, bool fallback) const { return Has(i) ? IsTrue(Get(i)) : fallback; }

 private:
  std::string_view function_;
  const Value* values_[8] = {};
};

}  // namespace isobit::chat
