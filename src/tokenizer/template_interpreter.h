// Interpreter: renders one parsed template once. Walks the tree, owns scopes, namespaces and
// macros, and counts what the render costs, so that no template, and no conversation in one, can
// use more time or memory than the limits say.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/chat_template.h"
#include "tokenizer/template_ast.h"
#include "tokenizer/template_value.h"

namespace isobit::chat {

// Variables of one level: the template, a loop body, a macro's body, ... An inner level sees the
// outer ones and assigns to itself.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables;  // names live in the syntax tree
  bool captured = false;  // a macro was defined here or below, and may look in here later
};

struct Macro {
  const MacroSyntax* syntax = nullptr;
  Scope* scope = nullptr;  // where it was defined
};

class Interpreter {
 public:
  Interpreter(Value context, std::int64_t unix_seconds, const TemplateLimits& limits)
      : context_(std::move(context)), unix_seconds_(unix_seconds), limits_(limits) {}

  // Throws TemplateError with its line.
  std::string Run(const std::vector<Statement>& program);

  // --- for filters, tests and methods ---

  // One step is one node of the tree, one element of a list, or kBytesPerStep bytes of a string.
  void Charge(std::int64_t num_steps);
  void ChargeBytes(std::size_t num_bytes) {
    Charge(static_cast<std::int64_t>(num_bytes / kBytesPerStep));
  }
  // Throws unless a string of this size may be made; charges for it.
  void CheckSize(std::size_t num_bytes);
  Value MakeText(std::string text);

  std::int64_t unix_seconds() const { return unix_seconds_; }
  Namespace* NewNamespace() { return &namespaces_.emplace_back(); }

  Value GetAttribute(const Value& value, std::string_view name);  // value.name
  Value GetItem(const Value& value, const Value& key);            // value[key]
  std::vector<Value> Iterate(const Value& value);  // what a for loop would see; empties an iterator
  Value Call(const Value& callee, Arguments arguments);
  Value ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments);
  bool ApplyTest(std::string_view name, const Value& value, const Arguments& arguments);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class Level;  // counts one level of nesting for as long as it lives

  // Steps that an allocation costs: a render at the default limits holds at most 2,000,000 x 64
  // bytes of strings.
  static constexpr std::size_t kBytesPerStep = 64;
  // Blocks and expressions nest deeper than calls do.
  static constexpr int kLevelsPerCall = 10;

  Flow ExecuteBody(const std::vector<Statement>& body, Scope& scope, std::string& out);
  Flow Execute(const Statement& statement, Scope& scope, std::string& out);
  Flow ExecuteIf(const Statement& statement, Scope& scope, std::string& out);
  Flow ExecuteFor(const Statement& statement, Scope& scope, std::string& out);
  Flow ExecuteInner(const Statement& statement, Scope& scope,
                    std::string& out);  // with, generation
  void ExecuteMacro(const Statement& statement, Scope& scope);
  void ExecuteCallBlock(const Statement& statement, Scope& scope, std::string& out);
  std::string Capture(const std::vector<Statement>& body,
                      Scope& scope);  // of a set or filter block
  void Emit(std::string_view text, std::string& out);

  void Assign(const Target& target, Value value, Scope& place, Scope& visible);
  Value Lookup(std::string_view name, const Scope& scope) const;
  Scope& NewScope(Scope* parent);
  void FreeScope(Scope& scope);
  const Macro* NewMacro(const MacroSyntax& syntax, Scope& scope);

  Value Evaluate(const Expression& expression, Scope& scope);
  Value EvaluateDict(const Expression& expression, Scope& scope);
  Value EvaluateSlice(const Expression& expression, Scope& scope);
  Value EvaluateCall(const Expression& expression, Scope& scope);
  Value EvaluateConcat(const Expression& expression, Scope& scope);
  Value EvaluateCompare(const Expression& expression, Scope& scope);
  Value EvaluateConditional(const Expression& expression, Scope& scope);
  // A chain of filters over the text of a block, whose head has no operand.
  Value EvaluateFilters(const Expression& expression, const Value& head, Scope& scope);
  std::vector<Value> EvaluateAll(const std::vector<ExpressionPtr>& expressions, Scope& scope);
  Arguments EvaluateArguments(const ArgumentList& list, Scope& scope);

  Value CallMacro(const Macro& macro, Arguments arguments);
  void BindParameters(const Macro& macro, Arguments& arguments, Scope& scope);
  Value LoopAttribute(const Value& value, std::string_view name);

  Value context_;  // a dict
  std::int64_t unix_seconds_;
  TemplateLimits limits_;
  std::int64_t num_steps_ = 0;
  int num_levels_ = 0;
  int num_calls_ = 0;
  int line_ = 1;  // of the node at work, for errors
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  std::deque<Namespace> namespaces_;
  std::deque<Macro> macros_;
};

[[noreturn]] void FailUndefined(const Value& value);

}  // namespace isobit::chat
