// Value: what a template computes with: the values of Python that chat templates use. Immutable but
// for namespaces and iterators, cheap to copy. Strings are valid UTF-8 and counted in code points,
// integers have 64 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace isobit::chat {

class Interpreter;
class Value;
struct Macro;
struct LoopState;

// Thrown by lexer, parser and interpreter, and caught at the edge of the room (chat_template.cc): a
// template's fault can arise at any depth of an expression.
struct TemplateError {
  ErrorCode code = ErrorCode::kInvalidArgument;
  int line = 0;  // 0: not known yet; the interpreter fills in the line it is at
  std::string message;
  bool raised = false;  // by raise_exception: the message goes to the user as it is
};

// [[noreturn]] in every use: throw Problem("...", ...).
template <class... Args>
TemplateError Problem(fmt::format_string<Args...> format, Args&&... args) {
  return TemplateError{ErrorCode::kInvalidArgument, 0,
                       fmt::format(format, std::forward<Args>(args)...)};
}

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// A method bound to its value, or a global function.
using NativeFunction = Value (*)(Interpreter&, const Value& self, const Arguments&);

struct Sequence;
struct Dict;
struct Iterator;
struct Function;

// Variables of a template that a loop body may change: {% set ns.x = ... %}. Owned by the
// interpreter, so that a namespace may hold itself.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Undefined {
  std::shared_ptr<const std::string> why;  // "'x' is undefined"
};
struct None {};

class Value {
 public:
  Value() : storage_(Undefined{}) {}
  Value(None none) : storage_(none) {}  // NOLINT: a None is a value, and so on
  Value(Undefined undefined) : storage_(std::move(undefined)) {}  // NOLINT
  Value(bool value) : storage_(value) {}                          // NOLINT
  Value(std::int64_t value) : storage_(value) {}                  // NOLINT
  Value(double value) : storage_(value) {}                        // NOLINT
  Value(std::string value)
      : storage_(std::make_shared<const std::string>(std::move(value))) {}      // NOLINT
  Value(std::string_view value) : Value(std::string(value)) {}                  // NOLINT
  Value(const char* value) : Value(std::string(value)) {}                       // NOLINT
  Value(std::shared_ptr<const Sequence> value) : storage_(std::move(value)) {}  // NOLINT
  Value(std::shared_ptr<const Dict> value) : storage_(std::move(value)) {}      // NOLINT
  Value(std::shared_ptr<Iterator> value) : storage_(std::move(value)) {}        // NOLINT
  Value(std::shared_ptr<const Function> value) : storage_(std::move(value)) {}  // NOLINT
  Value(std::shared_ptr<LoopState> value) : storage_(std::move(value)) {}       // NOLINT
  Value(Namespace* value) : storage_(value) {}                                  // NOLINT
  Value(const Macro* value) : storage_(value) {}                                // NOLINT

  bool is_undefined() const { return Is<Undefined>(); }
  bool is_none() const { return Is<None>(); }
  bool is_bool() const { return Is<bool>(); }
  bool is_int() const { return Is<std::int64_t>(); }
  bool is_float() const { return Is<double>(); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_string() const { return Is<std::shared_ptr<const std::string>>(); }
  bool is_sequence() const { return Is<std::shared_ptr<const Sequence>>(); }
  bool is_dict() const { return Is<std::shared_ptr<const Dict>>(); }

  const std::string& string() const {
    return *std::get<std::shared_ptr<const std::string>>(storage_);
  }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(storage_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(storage_); }
  double float_value() const { return std::get<double>(storage_); }
  const std::string* undefined_reason() const { return std::get<Undefined>(storage_).why.get(); }
  // nullptr if the value is of another kind.
  Iterator* iterator() const { return Pointer<std::shared_ptr<Iterator>>(); }
  const Function* function() const { return Pointer<std::shared_ptr<const Function>>(); }
  LoopState* loop() const { return Pointer<std::shared_ptr<LoopState>>(); }
  Namespace* name_space() const {
    return Is<Namespace*>() ? std::get<Namespace*>(storage_) : nullptr;
  }
  const Macro* macro() const {
    return Is<const Macro*>() ? std::get<const Macro*>(storage_) : nullptr;
  }

  // bool or int: Python's True is 1.
  bool is_integral() const { return is_int() || is_bool(); }
  std::int64_t integer() const {
    return is_bool() ? std::get<bool>(storage_) : std::get<std::int64_t>(storage_);
  }
  double number() const { return is_float() ? float_value() : static_cast<double>(integer()); }

 private:
  template <class T>
  bool Is() const {
    return std::holds_alternative<T>(storage_);
  }
  template <class T>
  typename T::element_type* Pointer() const {
    return Is<T>() ? std::get<T>(storage_).get() : nullptr;
  }

  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
               std::shared_ptr<Iterator>, std::shared_ptr<const Function>,
               std::shared_ptr<LoopState>, Namespace*, const Macro*>
      storage_;
};

enum class SequenceForm {
  kList,
  kTuple,
  kRange,
  kItems,
  kKeys,
  kValues
};  // the last three: the views of a dict

struct Sequence {
  SequenceForm form = SequenceForm::kList;
  std::vector<Value> items;
  std::string range_text;  // how a range prints itself
  int depth = 1;           // levels of containers, this one included
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion
  std::vector<std::uint32_t>
      by_key;  // entries sorted by key if every key is a string; otherwise empty
  int depth = 1;
};

// What Python makes lazily (map, select, reversed): it can be walked once.
struct Iterator {
  std::vector<Value> items;
  std::size_t next = 0;
  int depth = 1;
};

struct Function {
  std::string_view name;  // of static storage
  NativeFunction call = nullptr;
  Value self;
};

inline constexpr int kMaxValueDepth = 200;

// Containers deeper than kMaxValueDepth are refused, so that printing and freeing them cannot
// exhaust the stack.
Value MakeSequence(std::vector<Value> items, SequenceForm form = SequenceForm::kList);
Value MakeIterator(std::vector<Value> items);
Value MakeUndefined(std::string why);
int DepthOf(const Value& value);

// Collects entries as Python's dict does: a repeated key keeps its place and takes the new value.
class DictBuilder {
 public:
  void Set(const Value& key, Value value);
  Value Build() &&;

 private:
  std::vector<std::pair<Value, Value>> entries_;
  std::vector<std::uint32_t> by_key_;
  bool all_strings_ = true;
};

const Value* FindKey(const Dict& dict, const Value& key);
const Value* FindKey(const Dict& dict, std::string_view key);

bool IsTrue(const Value& value);
bool AreEqual(const Value& left, const Value& right);
// Negative, zero or positive; throws for kinds that have no order, as Python does. `sign` names the
// operator in the message.
int Compare(const Value& left, const Value& right, std::string_view sign);

std::string_view TypeName(const Value& value);               // Python's: "str", "NoneType"
std::string ToText(const Value& value);                      // Python's str()
std::string ToRepr(const Value& value);                      // Python's repr()
std::string FloatText(double value);                         // Python's repr of a float
void AppendQuoted(std::string_view text, std::string& out);  // Python's repr of a string

struct JsonStyle {
  bool ensure_ascii = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool has_indent = false;
  std::string indent;
  bool sort_keys = false;
};
// Python's json.dumps.
std::string ToJson(const Value& value, const JsonStyle& style);

Value FromJson(const Json& json);

}  // namespace isobit::chat
