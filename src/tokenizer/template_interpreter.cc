#include "tokenizer/template_interpreter.h"

#include <algorithm>

#include "base/check.h"
#include "tokenizer/template_functions.h"
#include "tokenizer/template_loop.h"
#include "tokenizer/template_operators.h"
#include "tokenizer/template_strings.h"

namespace isobit::chat {

void FailUndefined(const Value& value) {
  throw Problem("{}", value.undefined_reason() != nullptr ? *value.undefined_reason()
                                                          : "a value is undefined");
}

class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter) : interpreter_(interpreter) {
    const int max_levels = interpreter.limits_.max_depth * kLevelsPerCall;
    if (++interpreter_.num_levels_ > max_levels) {
      --interpreter_.num_levels_;
      throw TemplateError{ErrorCode::kResourceExhausted, 0,
                          fmt::format("nests deeper than {} blocks and expressions", max_levels)};
    }
  }
  ~Level() { --interpreter_.num_levels_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Interpreter& interpreter_;
};

std::string Interpreter::Run(const std::vector<Statement>& program) {
  std::string out;
  try {
    ExecuteBody(program, NewScope(nullptr), out);
  } catch (TemplateError& error) {
    if (error.line == 0) error.line = line_;
    throw;
  }
  return out;
}

void Interpreter::Charge(std::int64_t num_steps) {
  num_steps_ += num_steps;
  if (num_steps_ > limits_.max_steps) {
    throw TemplateError{ErrorCode::kResourceExhausted, 0,
                        fmt::format("the template needs more than {} steps", limits_.max_steps)};
  }
}

void Interpreter::CheckSize(std::size_t num_bytes) {
  if (num_bytes > static_cast<std::size_t>(limits_.max_output_bytes)) {
    throw TemplateError{ErrorCode::kResourceExhausted, 0,
                        fmt::format("a text grows beyond {} bytes", limits_.max_output_bytes)};
  }
  ChargeBytes(num_bytes);
}

Value Interpreter::MakeText(std::string text) {
  CheckSize(text.size());
  return Value(std::move(text));
}

void Interpreter::Emit(std::string_view text, std::string& out) {
  ChargeBytes(text.size());
  if (out.size() + text.size() > static_cast<std::size_t>(limits_.max_output_bytes)) {
    throw TemplateError{ErrorCode::kResourceExhausted, 0,
                        fmt::format("the output grows beyond {} bytes", limits_.max_output_bytes)};
  }
  out += text;
}

// --- scopes --------------------------------------------------------------------------------------

Scope& Interpreter::NewScope(Scope* parent) {
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    scope = &scopes_.emplace_back();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return *scope;
}

// A captured scope stays as it is: its macro may outlive the block.
void Interpreter::FreeScope(Scope& scope) {
  if (scope.captured) return;
  scope.variables.clear();
  free_scopes_.push_back(&scope);
}

const Macro* Interpreter::NewMacro(const MacroSyntax& syntax, Scope& scope) {
  for (Scope* outer = &scope; outer != nullptr && !outer->captured; outer = outer->parent)
    outer->captured = true;
  return &macros_.emplace_back(Macro{&syntax, &scope});
}

Value Interpreter::Lookup(std::string_view name, const Scope& scope) const {
  for (const Scope* level = &scope; level != nullptr; level = level->parent) {
    for (const auto& [variable, value] : level->variables) {
      if (variable == name) return value;
    }
  }
  if (const Value* value = FindKey(context_.dict(), name)) return *value;
  if (Value value = FindGlobal(name); !value.is_undefined()) return value;
  return MakeUndefined(fmt::format("'{}' is undefined", name));
}

// Assigns in `place`; a namespace is looked up from `visible`.
void Interpreter::Assign(const Target& target, Value value, Scope& place, Scope& visible) {
  if (!target.parts.empty()) {
    std::vector<Value> items = Iterate(value);
    if (items.size() != target.parts.size()) {
      throw Problem("{} values to unpack (expected {}, got {})",
                    items.size() < target.parts.size() ? "not enough" : "too many",
                    target.parts.size(), items.size());
    }
    for (std::size_t i = 0; i < items.size(); ++i)
      Assign(target.parts[i], std::move(items[i]), place, visible);
    return;
  }
  if (!target.attribute.empty()) {
    const Value holder = Lookup(target.name, visible);
    Namespace* space = holder.name_space();
    if (space == nullptr)
      throw Problem("cannot assign the attribute '{}': '{}' is no namespace", target.attribute,
                    target.name);
    for (auto& [name, old] : space->attributes) {
      if (name == target.attribute) {
        old = std::move(value);
        return;
      }
    }
    space->attributes.emplace_back(target.attribute, std::move(value));
    return;
  }
  for (auto& [name, old] : place.variables) {
    if (name == target.name) {
      old = std::move(value);
      return;
    }
  }
  place.variables.emplace_back(target.name, std::move(value));
}

// --- statements ----------------------------------------------------------------------------------

Interpreter::Flow Interpreter::ExecuteBody(const std::vector<Statement>& body, Scope& scope,
                                           std::string& out) {
  const Level level(*this);
  for (const Statement& statement : body) {
    if (const Flow flow = Execute(statement, scope, out); flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Execute(const Statement& statement, Scope& scope, std::string& out) {
  line_ = statement.line;
  Charge(1);
  switch (statement.kind) {
    case StatementKind::kText:
      Emit(statement.text, out);
      break;
    case StatementKind::kOutput: {
      const Value value = Evaluate(*statement.expression, scope);
      if (value.is_string())
        Emit(value.string(), out);
      else
        Emit(ToText(value), out);
      break;
    }
    case StatementKind::kIf:
      return ExecuteIf(statement, scope, out);
    case StatementKind::kFor:
      return ExecuteFor(statement, scope, out);
    case StatementKind::kSet:
      Assign(statement.target, Evaluate(*statement.expression, scope), scope, scope);
      break;
    case StatementKind::kSetBlock: {
      Value text = MakeText(Capture(statement.body, scope));
      if (statement.expression != nullptr)
        text = EvaluateFilters(*statement.expression, text, scope);
      Assign(statement.target, std::move(text), scope, scope);
      break;
    }
    case StatementKind::kFilterBlock: {
      const Value text = MakeText(Capture(statement.body, scope));
      Emit(ToText(EvaluateFilters(*statement.expression, text, scope)), out);
      break;
    }
    case StatementKind::kMacro:
      ExecuteMacro(statement, scope);
      break;
    case StatementKind::kCallBlock:
      ExecuteCallBlock(statement, scope, out);
      break;
    case StatementKind::kWith:
    case StatementKind::kScope:
      return ExecuteInner(statement, scope, out);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteIf(const Statement& statement, Scope& scope,
                                         std::string& out) {
  for (const Branch& branch : statement.branches) {
    if (IsTrue(Evaluate(*branch.condition, scope))) return ExecuteBody(branch.body, scope, out);
  }
  return ExecuteBody(statement.else_body, scope, out);
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement, Scope& scope,
                                          std::string& out) {
  const auto loop = std::make_shared<LoopState>();
  const Value iterable = Evaluate(*statement.expression, scope);
  loop->source = Iterate(iterable);
  loop->depth = DepthOf(iterable) + 1;
  if (statement.condition != nullptr) {
    loop->filter = [&](const Value& item) {
      Scope& inner = NewScope(&scope);
      Assign(statement.target, item, inner, inner);
      const bool passes = IsTrue(Evaluate(*statement.condition, inner));
      FreeScope(inner);
      return passes;
    };
  }
  Scope* body_scope = &NewScope(&scope);
  while (loop->Advance()) {
    Charge(1);
    if (body_scope->captured) body_scope = &NewScope(&scope);
    body_scope->variables.clear();
    body_scope->variables.emplace_back("loop", loop);
    Assign(statement.target, *loop->current, *body_scope, *body_scope);
    if (ExecuteBody(statement.body, *body_scope, out) == Flow::kBreak) break;
  }
  FreeScope(*body_scope);
  loop->filter = nullptr;  // it refers to this block; the loop variable may be kept
  loop->source.clear();
  loop->next_source = 0;
  if (loop->index0 < 0) return ExecuteBody(statement.else_body, scope, out);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteInner(const Statement& statement, Scope& scope,
                                            std::string& out) {
  Scope& inner = NewScope(&scope);
  for (const auto& [target, expression] : statement.assignments)
    Assign(target, Evaluate(*expression, scope), inner, scope);
  const Flow flow = ExecuteBody(statement.body, inner, out);
  FreeScope(inner);
  return flow;
}

std::string Interpreter::Capture(const std::vector<Statement>& body, Scope& scope) {
  Scope& inner = NewScope(&scope);
  std::string text;
  ExecuteBody(body, inner, text);
  FreeScope(inner);
  return text;
}

void Interpreter::ExecuteMacro(const Statement& statement, Scope& scope) {
  const Macro* macro = NewMacro(*statement.macro, scope);
  for (auto& [name, old] : scope.variables) {
    if (name == macro->syntax->name) {
      old = Value(macro);
      return;
    }
  }
  scope.variables.emplace_back(macro->syntax->name, macro);
}

void Interpreter::ExecuteCallBlock(const Statement& statement, Scope& scope, std::string& out) {
  const Expression& call = *statement.expression;
  const Value callee = Evaluate(*call.operands[0], scope);
  Arguments arguments = EvaluateArguments(call.arguments, scope);
  arguments.named.emplace_back("caller", NewMacro(*statement.macro, scope));
  line_ = statement.line;
  Emit(ToText(Call(callee, std::move(arguments))), out);
}

// --- expressions ---------------------------------------------------------------------------------

Value Interpreter::Evaluate(const Expression& expression, Scope& scope) {
  const Level level(*this);
  line_ = expression.line;
  Charge(1);
  const std::vector<ExpressionPtr>& operands = expression.operands;
  const auto operand = [&](std::size_t i) { return Evaluate(*operands[i], scope); };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return Lookup(expression.name, scope);
    case ExpressionKind::kList:
      return MakeSequence(EvaluateAll(operands, scope));
    case ExpressionKind::kTuple:
      return MakeSequence(EvaluateAll(operands, scope), SequenceForm::kTuple);
    case ExpressionKind::kDict:
      return EvaluateDict(expression, scope);
    case ExpressionKind::kAttribute:
      return GetAttribute(operand(0), expression.name);
    case ExpressionKind::kItem: {
      const Value value = operand(0);
      return GetItem(value, operand(1));
    }
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression, scope);
    case ExpressionKind::kCall:
      return EvaluateCall(expression, scope);
    case ExpressionKind::kFilter: {
      const Value value = operand(0);
      const Arguments arguments = EvaluateArguments(expression.arguments, scope);
      line_ = expression.line;
      return ApplyFilter(expression.name, value, arguments);
    }
    case ExpressionKind::kTest: {
      const Value value = operand(0);
      const Arguments arguments = EvaluateArguments(expression.arguments, scope);
      line_ = expression.line;
      return ApplyTest(expression.name, value, arguments);
    }
    case ExpressionKind::kNot:
      return !IsTrue(operand(0));
    case ExpressionKind::kNegate:
      return Negate(operand(0));
    case ExpressionKind::kPlus:
      return UnaryPlus(operand(0));
    case ExpressionKind::kAnd: {
      Value left = operand(0);
      return IsTrue(left) ? operand(1) : left;
    }
    case ExpressionKind::kOr: {
      Value left = operand(0);
      return IsTrue(left) ? left : operand(1);
    }
    case ExpressionKind::kArithmetic: {
      const Value left = operand(0), right = operand(1);
      line_ = expression.line;
      return Arithmetic(*this, expression.operators[0], left, right);
    }
    case ExpressionKind::kConcat:
      return EvaluateConcat(expression, scope);
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression, scope);
    case ExpressionKind::kConditional:
      return EvaluateConditional(expression, scope);
  }
  ISOBIT_CHECK(false);
}

std::vector<Value> Interpreter::EvaluateAll(const std::vector<ExpressionPtr>& expressions,
                                            Scope& scope) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& expression : expressions)
    values.push_back(Evaluate(*expression, scope));
  return values;
}

Value Interpreter::EvaluateDict(const Expression& expression, Scope& scope) {
  DictBuilder builder;
  for (std::size_t i = 0; i < expression.operands.size(); i += 2) {
    const Value key = Evaluate(*expression.operands[i], scope);
    builder.Set(key, Evaluate(*expression.operands[i + 1], scope));
  }
  return std::move(builder).Build();
}

Value Interpreter::EvaluateSlice(const Expression& expression, Scope& scope) {
  const Value value = Evaluate(*expression.operands[0], scope);
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const ExpressionPtr& bound = expression.operands[i + 1];
    bounds[i] = bound == nullptr ? Value(None{}) : Evaluate(*bound, scope);
  }
  line_ = expression.line;
  return Slice(*this, value, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::EvaluateConcat(const Expression& expression, Scope& scope) {
  std::string text;
  for (const ExpressionPtr& part : expression.operands) {
    text += ToText(Evaluate(*part, scope));
    CheckSize(text.size());
  }
  return Value(std::move(text));
}

Value Interpreter::EvaluateCompare(const Expression& expression, Scope& scope) {
  Value left = Evaluate(*expression.operands[0], scope);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = Evaluate(*expression.operands[i + 1], scope);
    line_ = expression.line;
    if (!Holds(*this, expression.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::EvaluateConditional(const Expression& expression, Scope& scope) {
  if (IsTrue(Evaluate(*expression.operands[0], scope)))
    return Evaluate(*expression.operands[1], scope);
  if (expression.operands[2] != nullptr) return Evaluate(*expression.operands[2], scope);
  return MakeUndefined(
      fmt::format("the condition in line {} is false and it has no 'else'", expression.line));
}

Value Interpreter::EvaluateFilters(const Expression& expression, const Value& head, Scope& scope) {
  const Value value = expression.operands[0] == nullptr
                          ? head
                          : EvaluateFilters(*expression.operands[0], head, scope);
  const Arguments arguments = EvaluateArguments(expression.arguments, scope);
  line_ = expression.line;
  return ApplyFilter(expression.name, value, arguments);
}

Arguments Interpreter::EvaluateArguments(const ArgumentList& list, Scope& scope) {
  Arguments arguments;
  arguments.positional = EvaluateAll(list.positional, scope);
  if (list.spread != nullptr) {
    for (Value& value : Iterate(Evaluate(*list.spread, scope)))
      arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, expression] : list.named)
    arguments.named.emplace_back(name, Evaluate(*expression, scope));
  if (list.named_spread != nullptr) {
    const Value spread = Evaluate(*list.named_spread, scope);
    if (!spread.is_dict())
      throw Problem("argument after ** must be a mapping, not {}", TypeName(spread));
    for (const auto& [key, value] : spread.dict().entries) {
      if (!key.is_string()) throw Problem("keywords must be strings");
      for (const auto& [name, _] : arguments.named) {
        if (name == key.string())
          throw Problem("got multiple values for keyword argument '{}'", name);
      }
      arguments.named.emplace_back(key.string(), value);
    }
  }
  return arguments;
}

// --- calls ---------------------------------------------------------------------------------------

Value Interpreter::EvaluateCall(const Expression& expression, Scope& scope) {
  const Value callee = Evaluate(*expression.operands[0], scope);
  Arguments arguments = EvaluateArguments(expression.arguments, scope);
  line_ = expression.line;
  Value result = Call(callee, std::move(arguments));
  line_ = expression.line;
  return result;
}

Value Interpreter::Call(const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) FailUndefined(callee);
  if (const Macro* macro = callee.macro()) return CallMacro(*macro, std::move(arguments));
  if (const Function* function = callee.function())
    return function->call(*this, function->self, arguments);
  if (callee.loop() != nullptr)
    throw Problem(
        "a loop can only be called in a recursive for, which is not supported; use a macro");
  throw Problem("'{}' object is not callable", TypeName(callee));
}

Value Interpreter::CallMacro(const Macro& macro, Arguments arguments) {
  if (num_calls_ >= limits_.max_depth) {
    throw TemplateError{ErrorCode::kResourceExhausted, 0,
                        fmt::format("macros call each other more than {} deep", limits_.max_depth)};
  }
  ++num_calls_;
  Scope& scope = NewScope(macro.scope);
  BindParameters(macro, arguments, scope);
  std::string text;
  ExecuteBody(macro.syntax->body, scope, text);
  FreeScope(scope);
  --num_calls_;  // an exception ends the render, so nothing has to restore it
  return MakeText(std::move(text));
}

void Interpreter::BindParameters(const Macro& macro, Arguments& arguments, Scope& scope) {
  const MacroSyntax& syntax = *macro.syntax;
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    for (std::size_t i = 0; i < arguments.named.size(); ++i) {
      if (arguments.named[i].first != name) continue;
      Value value = std::move(arguments.named[i].second);
      arguments.named.erase(arguments.named.begin() + static_cast<std::ptrdiff_t>(i));
      return value;
    }
    return std::nullopt;
  };
  const std::size_t num_parameters = syntax.parameters.size();
  const std::size_t first_default = num_parameters - syntax.defaults.size();
  for (std::size_t i = 0; i < num_parameters; ++i) {
    const std::string& name = syntax.parameters[i];
    Value value;
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
    } else if (std::optional<Value> named = take_named(name)) {
      value = *std::move(named);
    } else if (i >= first_default) {
      value = Evaluate(*syntax.defaults[i - first_default], scope);
    } else {
      value = MakeUndefined(fmt::format("parameter '{}' was not provided", name));
    }
    scope.variables.emplace_back(name, std::move(value));
  }
  if (syntax.uses_caller) {
    std::optional<Value> caller = take_named("caller");
    scope.variables.emplace_back("caller",
                                 caller ? *std::move(caller) : MakeUndefined("No caller defined"));
  }
  if (syntax.uses_kwargs) {
    DictBuilder rest;
    for (auto& [name, value] : arguments.named) rest.Set(Value(name), std::move(value));
    scope.variables.emplace_back("kwargs", std::move(rest).Build());
  } else if (!arguments.named.empty()) {
    throw Problem("macro '{}' takes no keyword argument '{}'", syntax.name,
                  arguments.named[0].first);
  }
  if (syntax.uses_varargs) {
    const std::size_t num_used = std::min(num_parameters, arguments.positional.size());
    std::vector<Value> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_used),
                            arguments.positional.end());
    scope.variables.emplace_back("varargs", MakeSequence(std::move(rest), SequenceForm::kTuple));
  } else if (arguments.positional.size() > num_parameters) {
    throw Problem("macro '{}' takes not more than {} argument(s)", syntax.name, num_parameters);
  }
}

Value Interpreter::ApplyFilter(std::string_view name, const Value& value,
                               const Arguments& arguments) {
  const NativeFunction filter = FindFilter(name);
  if (filter == nullptr) throw Problem("no filter named '{}'; docs/templates.md lists them", name);
  return filter(*this, value, arguments);
}

bool Interpreter::ApplyTest(std::string_view name, const Value& value, const Arguments& arguments) {
  const NativeFunction test = FindTest(name);
  if (test == nullptr) throw Problem("no test named '{}'; docs/templates.md lists them", name);
  return IsTrue(test(*this, value, arguments));
}

// --- access --------------------------------------------------------------------------------------

std::vector<Value> Interpreter::Iterate(const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (value.is_sequence()) {
    items = value.sequence().items;
  } else if (value.is_dict()) {
    for (const auto& [key, _] : value.dict().entries) items.push_back(key);
  } else if (value.is_string()) {
    Charge(static_cast<std::int64_t>(value.string().size()));
    for (const std::string_view character : Characters(value.string()))
      items.emplace_back(character);
  } else if (Iterator* iterator = value.iterator()) {
    items.assign(iterator->items.begin() + static_cast<std::ptrdiff_t>(iterator->next),
                 iterator->items.end());
    iterator->next = iterator->items.size();
  } else {
    throw Problem("'{}' object is not iterable", TypeName(value));
  }
  Charge(static_cast<std::int64_t>(items.size()));
  return items;
}

namespace {

Value NoAttribute(const Value& value, std::string_view name) {
  if (value.is_none()) return MakeUndefined(fmt::format("'None' has no attribute '{}'", name));
  return MakeUndefined(fmt::format("'{} object' has no attribute '{}'", TypeName(value), name));
}

const Value* FindAttribute(const Namespace& space, std::string_view name) {
  for (const auto& [attribute, value] : space.attributes) {
    if (attribute == name) return &value;
  }
  return nullptr;
}

}  // namespace

Value Interpreter::GetAttribute(const Value& value, std::string_view name) {
  if (value.is_undefined()) FailUndefined(value);
  if (value.loop() != nullptr) return LoopAttribute(value, name);
  if (const Namespace* space = value.name_space()) {
    const Value* found = FindAttribute(*space, name);
    return found != nullptr ? *found : NoAttribute(value, name);
  }
  if (std::optional<Value> method = FindMethod(value, name)) return *std::move(method);
  if (value.is_dict()) {
    if (const Value* found = FindKey(value.dict(), name)) return *found;
  }
  return NoAttribute(value, name);
}

Value Interpreter::GetItem(const Value& value, const Value& key) {
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_dict()) {
    // A list is no key, so there is no such element; Jinja says the same.
    const bool hashable =
        !key.is_dict() && !(key.is_sequence() && key.sequence().form != SequenceForm::kTuple);
    if (const Value* found = hashable ? FindKey(value.dict(), key) : nullptr) return *found;
  } else if (key.is_integral() && (value.is_sequence() || value.is_string())) {
    if (std::optional<Value> element = Element(*this, value, key.integer()))
      return *std::move(element);
  }
  if (!key.is_string()) {
    const std::string text =
        key.is_number() || key.is_none() ? ToRepr(key) : std::string(TypeName(key));
    return MakeUndefined(fmt::format("{} object has no element {}", TypeName(value), text));
  }
  if (value.is_dict()) {  // the key is not there; a method may be
    if (std::optional<Value> method = FindMethod(value, key.string())) return *std::move(method);
    return NoAttribute(value, key.string());
  }
  return GetAttribute(value, key.string());
}

Value Interpreter::LoopAttribute(const Value& value, std::string_view name) {
  LoopState& loop = *value.loop();
  if (name == "index") return loop.index0 + 1;
  if (name == "index0") return loop.index0;
  if (name == "first") return loop.index0 == 0;
  if (name == "last") return loop.IsLast();
  if (name == "length") return loop.Length();
  if (name == "revindex") return loop.Length() - loop.index0;
  if (name == "revindex0") return loop.Length() - loop.index0 - 1;
  if (name == "depth") return std::int64_t{1};  // of recursive loops, which there are none
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem")
    return loop.previous ? *loop.previous : MakeUndefined("there is no previous item");
  if (name == "nextitem")
    return loop.IsLast() ? MakeUndefined("there is no next item") : loop.ahead.front();
  if (std::optional<Value> method = FindMethod(value, name)) return *std::move(method);
  return NoAttribute(value, name);
}

}  // namespace isobit::chat
