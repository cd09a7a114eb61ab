// The syntax tree of a template: what the parser builds and the interpreter walks. Plain data,
// read-only once parsed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/template_value.h"

namespace isobit::chat {

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,  // arithmetic
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,  // comparison
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

// What stands between the parentheses of a call, a filter or a test.
struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;        // *args
  ExpressionPtr named_spread;  // **kwargs
};

enum class ExpressionKind {
  kConstant,   // constant
  kName,       // name
  kList,       // operands
  kTuple,      // operands
  kDict,       // operands: key, value, key, value, ...
  kAttribute,  // operands[0].name
  kItem,       // operands[0][operands[1]]
  kSlice,      // operands[0][operands[1]:operands[2]:operands[3]], each bound may be null
  kCall,       // operands[0](arguments)
  kFilter,     // operands[0]|name(arguments); operands[0] is null at the head of a filter block
  kTest,       // operands[0] is name(arguments)
  kNot,
  kNegate,
  kPlus,  // operands[0]
  kAnd,
  kOr,           // operands[0], operands[1]
  kArithmetic,   // operands[0] operators[0] operands[1]
  kConcat,       // operands[0] ~ operands[1] ~ ...
  kCompare,      // operands[0] operators[0] operands[1] operators[1] ...
  kConditional,  // operands[1] if operands[0] else operands[2], which may be null
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  int depth = 1;  // levels of expressions, this one included
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> operands;
  std::vector<Operator> operators;
  ArgumentList arguments;
};

// The left side of an assignment: a name, an attribute of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;      // of a namespace; empty for a plain name
  std::vector<Target> parts;  // not empty: unpack into these
};

enum class StatementKind {
  kText,         // text
  kOutput,       // {{ expression }}
  kIf,           // branches, then else_body
  kFor,          // for target in expression if condition: body, else_body
  kSet,          // set target = expression
  kSetBlock,     // set target | filter: body; expression: the filters, or null
  kMacro,        // macro
  kCallBlock,    // call(macro) expression: body
  kFilterBlock,  // filter expression: body
  kWith,         // with assignments: body
  kScope,        // generation: body
  kBreak,
  kContinue,
};

struct Statement;

struct Branch {
  ExpressionPtr condition;
  std::vector<Statement> body;
};

// A macro, or the body of a call block as a macro.
struct MacroSyntax {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  std::vector<Statement> body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  std::vector<Branch> branches;
  std::vector<Statement> body, else_body;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  std::unique_ptr<MacroSyntax> macro;
};

}  // namespace isobit::chat
