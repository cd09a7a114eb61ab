#include "tokenizer/template_parser.h"

#include <algorithm>
#include <array>

#include "tokenizer/template_lexer.h"

namespace isobit::chat {
namespace {

struct OperatorName {
  std::string_view text;
  Operator op;
};
constexpr std::array kComparisons = {
    OperatorName{"==", Operator::kEqual},  OperatorName{"!=", Operator::kNotEqual},
    OperatorName{"<", Operator::kLess},    OperatorName{"<=", Operator::kLessEqual},
    OperatorName{">", Operator::kGreater}, OperatorName{">=", Operator::kGreaterEqual}};
constexpr std::array kSums = {OperatorName{"+", Operator::kAdd},
                              OperatorName{"-", Operator::kSubtract}};
constexpr std::array kProducts = {
    OperatorName{"*", Operator::kMultiply}, OperatorName{"/", Operator::kDivide},
    OperatorName{"//", Operator::kFloorDivide}, OperatorName{"%", Operator::kModulo}};

// Tags of Jinja that load other templates or change its settings: known, and refused by name.
constexpr std::string_view kRefusedTags[] = {"include",    "import", "from",  "extends", "block",
                                             "autoescape", "do",     "trans", "print",   "debug"};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  std::vector<Statement> Run() { return ParseBody({}); }

 private:
  // --- tokens
  // ---------------------------------------------------------------------------------------------------------------

  const Token& Current() const { return tokens_[at_]; }
  const Token& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool AtKind(TokenKind kind) const { return Current().kind == kind; }
  bool AtOperator(std::string_view text) const {
    return AtKind(TokenKind::kOperator) && Current().text == text;
  }
  bool AtName(std::string_view text) const {
    return AtKind(TokenKind::kName) && Current().text == text;
  }
  void Next() { at_ = std::min(at_ + 1, tokens_.size() - 1); }

  bool SkipOperator(std::string_view text) {
    if (!AtOperator(text)) return false;
    Next();
    return true;
  }
  bool SkipName(std::string_view text) {
    if (!AtName(text)) return false;
    Next();
    return true;
  }

  [[noreturn]] void FailAt(int line, std::string message) const {
    throw TemplateError{ErrorCode::kInvalidArgument, line, std::move(message)};
  }

  static std::string Describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::kText:
        return "text";
      case TokenKind::kOutputBegin:
        return "'{{'";
      case TokenKind::kOutputEnd:
        return "'}}'";
      case TokenKind::kBlockBegin:
        return "'{%'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kString:
        return "a string";
      default:
        return fmt::format("'{}'", token.text);
    }
  }
  [[noreturn]] void FailExpected(std::string_view wanted) const {
    FailAt(Current().line, fmt::format("expected {}, found {}", wanted, Describe(Current())));
  }
  void ExpectOperator(std::string_view text) {
    if (!SkipOperator(text)) FailExpected(fmt::format("'{}'", text));
  }
  void ExpectName(std::string_view text) {
    if (!SkipName(text)) FailExpected(fmt::format("'{}'", text));
  }
  std::string TakeName(std::string_view what) {
    if (!AtKind(TokenKind::kName)) FailExpected(what);
    std::string name = Current().text;
    Next();
    return name;
  }
  void ExpectBlockEnd() {
    if (!AtKind(TokenKind::kBlockEnd)) FailExpected("'%}'");
    Next();
  }

  // Counts levels of the parser's own recursion, so that no template can exhaust the stack.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) {
        throw TemplateError{ErrorCode::kResourceExhausted, parser_.Current().line,
                            fmt::format("nests deeper than {}", kMaxNesting)};
      }
    }
    ~Nested() { --parser_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  // --- statements
  // -----------------------------------------------------------------------------------------------------------

  // Statements up to a tag named in `ends`, which stays current (its '{%' is taken); up to the end
  // of the template if ends is empty.
  std::vector<Statement> ParseBody(std::vector<std::string_view> ends) {
    const Nested nested(*this);
    std::vector<Statement> body;
    const int first_line = Current().line;
    while (!AtKind(TokenKind::kEnd)) {
      const int line = Current().line;
      if (AtKind(TokenKind::kText)) {
        body.push_back(MakeStatement(StatementKind::kText, line));
        body.back().text = Current().text;
        Next();
      } else if (AtKind(TokenKind::kOutputBegin)) {
        Next();
        body.push_back(MakeStatement(StatementKind::kOutput, line));
        body.back().expression = ParseTuple({});
        if (!AtKind(TokenKind::kOutputEnd)) FailExpected("'}}'");
        Next();
      } else {
        Next();  // '{%'
        if (!AtKind(TokenKind::kName)) FailExpected("the name of a tag");
        if (std::find(ends.begin(), ends.end(), Current().text) != ends.end()) return body;
        body.push_back(ParseTag(ends));
        ExpectBlockEnd();
      }
    }
    if (!ends.empty()) {
      FailAt(Current().line,
             fmt::format(
                 "expected '{}' before the end of the template, for the block opened in line {}",
                 ends.back(), first_line));
    }
    return body;
  }

  // The body of a block that ends with `end`, both tags' ends included.
  std::vector<Statement> ParseBlock(std::string_view end) {
    ExpectBlockEnd();
    std::vector<Statement> body = ParseBody({end});
    ExpectName(end);
    return body;
  }

  static Statement MakeStatement(StatementKind kind, int line) {
    Statement statement;
    statement.kind = kind;
    statement.line = line;
    return statement;
  }

  Statement ParseTag(const std::vector<std::string_view>& ends) {
    const int line = Current().line;
    const std::string tag = Current().text;
    if (tag == "for") return ParseFor();
    if (tag == "if") return ParseIf();
    if (tag == "set") return ParseSet();
    if (tag == "macro") return ParseMacro();
    if (tag == "call") return ParseCallBlock();
    if (tag == "filter") return ParseFilterBlock();
    if (tag == "with") return ParseWith();
    Next();
    if (tag == "generation") {  // marks what a model wrote, for training; here only its body counts
      Statement statement = MakeStatement(StatementKind::kScope, line);
      statement.body = ParseBlock("endgeneration");
      return statement;
    }
    if (tag == "break" || tag == "continue") {
      if (loop_depth_ == 0) FailAt(line, fmt::format("'{}' outside of a loop", tag));
      return MakeStatement(tag == "break" ? StatementKind::kBreak : StatementKind::kContinue, line);
    }
    for (const std::string_view refused : kRefusedTags) {
      if (tag == refused)
        FailAt(line,
               fmt::format("the tag '{}' is not part of the language of chat templates", tag));
    }
    if (!ends.empty())
      FailAt(line, fmt::format("unknown tag '{}'; expected '{}'", tag, ends.back()));
    FailAt(line, fmt::format("unknown tag '{}'", tag));
  }

  Statement ParseFor() {
    Statement loop = MakeStatement(StatementKind::kFor, Current().line);
    Next();
    loop.target = ParseTarget();
    ExpectName("in");
    loop.expression = ParseTuple({.without_condition = true});
    if (SkipName("if")) loop.condition = ParseExpression();
    if (AtName("recursive")) FailAt(loop.line, "recursive loops are not supported; use a macro");
    ExpectBlockEnd();
    ++loop_depth_;
    loop.body = ParseBody({"else", "endfor"});
    --loop_depth_;
    if (SkipName("else")) {
      loop.else_body = ParseBlock("endfor");
    } else {
      ExpectName("endfor");
    }
    return loop;
  }

  Statement ParseIf() {
    Statement statement = MakeStatement(StatementKind::kIf, Current().line);
    do {
      Next();  // 'if' or 'elif'
      Branch branch;
      branch.condition = ParseTuple({.without_condition = true});
      ExpectBlockEnd();
      branch.body = ParseBody({"elif", "else", "endif"});
      statement.branches.push_back(std::move(branch));
    } while (AtName("elif"));
    if (SkipName("else")) {
      statement.else_body = ParseBlock("endif");
    } else {
      ExpectName("endif");
    }
    return statement;
  }

  Statement ParseSet() {
    Statement statement = MakeStatement(StatementKind::kSet, Current().line);
    Next();
    statement.target = ParseTarget();
    if (SkipOperator("=")) {
      statement.expression = ParseTuple({});
      return statement;
    }
    statement.kind = StatementKind::kSetBlock;
    while (SkipOperator("|"))
      statement.expression = ParseOneFilter(std::move(statement.expression));
    statement.body = ParseBlock("endset");
    return statement;
  }

  Statement ParseWith() {
    Statement statement = MakeStatement(StatementKind::kWith, Current().line);
    Next();
    while (!AtKind(TokenKind::kBlockEnd)) {
      if (!statement.assignments.empty()) ExpectOperator(",");
      Target target = ParseTarget();
      ExpectOperator("=");
      statement.assignments.emplace_back(std::move(target), ParseExpression());
    }
    statement.body = ParseBlock("endwith");
    return statement;
  }

  Statement ParseFilterBlock() {
    Statement statement = MakeStatement(StatementKind::kFilterBlock, Current().line);
    Next();
    statement.expression = ParseOneFilter(nullptr);
    while (SkipOperator("|"))
      statement.expression = ParseOneFilter(std::move(statement.expression));
    statement.body = ParseBlock("endfilter");
    return statement;
  }

  void ParseSignature(MacroSyntax& macro) {
    ExpectOperator("(");
    while (!AtOperator(")")) {
      if (!macro.parameters.empty()) ExpectOperator(",");
      std::string name = TakeName("the name of a parameter");
      if (std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
          macro.parameters.end()) {
        FailAt(Current().line, fmt::format("the parameter '{}' stands there twice", name));
      }
      macro.parameters.push_back(std::move(name));
      if (SkipOperator("=")) {
        macro.defaults.push_back(ParseExpression());
      } else if (!macro.defaults.empty()) {
        FailAt(Current().line, "a parameter without a default follows one with a default");
      }
    }
    Next();
  }

  // The body of a macro: a break in it belongs to no loop outside.
  void ParseMacroBody(MacroSyntax& macro, std::string_view end) {
    const int outer_loops = std::exchange(loop_depth_, 0);
    open_macros_.push_back(&macro);
    macro.body = ParseBlock(end);
    open_macros_.pop_back();
    loop_depth_ = outer_loops;
    const auto has_parameter = [&](std::string_view name) {
      return std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
             macro.parameters.end();
    };
    macro.uses_caller &= !has_parameter("caller");
    macro.uses_kwargs &= !has_parameter("kwargs");
    macro.uses_varargs &= !has_parameter("varargs");
  }

  Statement ParseMacro() {
    Statement statement = MakeStatement(StatementKind::kMacro, Current().line);
    Next();
    statement.macro = std::make_unique<MacroSyntax>();
    statement.macro->name = TakeName("the name of the macro");
    ParseSignature(*statement.macro);
    ParseMacroBody(*statement.macro, "endmacro");
    return statement;
  }

  Statement ParseCallBlock() {
    Statement statement = MakeStatement(StatementKind::kCallBlock, Current().line);
    Next();
    statement.macro = std::make_unique<MacroSyntax>();
    statement.macro->name = "caller";
    if (AtOperator("(")) ParseSignature(*statement.macro);
    statement.expression = ParseExpression();
    if (statement.expression->kind != ExpressionKind::kCall)
      FailAt(statement.line, "expected a call behind 'call'");
    ParseMacroBody(*statement.macro, "endcall");
    return statement;
  }

  Target ParseTarget() {
    const Nested nested(*this);
    const auto one = [&] {
      Target target;
      if (SkipOperator("(")) {
        target = ParseTarget();
        ExpectOperator(")");
        return target;
      }
      target.name = TakeName("the name of a variable");
      for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
        if (target.name == constant)
          FailAt(Current().line, fmt::format("can't assign to '{}'", constant));
      }
      if (SkipOperator(".")) target.attribute = TakeName("the name of an attribute");
      return target;
    };
    Target first = one();
    if (!AtOperator(",")) return first;
    Target all;
    all.parts.push_back(std::move(first));
    while (SkipOperator(",")) {
      if (!AtKind(TokenKind::kName) && !AtOperator("(")) break;
      if (AtName("in")) break;
      all.parts.push_back(one());
    }
    return all;
  }

  // --- expressions
  // ----------------------------------------------------------------------------------------------------------

  ExpressionPtr Make(ExpressionKind kind, int line, std::vector<ExpressionPtr> operands = {}) {
    auto expression = std::make_unique<Expression>();
    expression->kind = kind;
    expression->line = line;
    for (const ExpressionPtr& operand : operands) {
      if (operand != nullptr) expression->depth = std::max(expression->depth, operand->depth + 1);
    }
    if (expression->depth > kMaxExpressionDepth) {
      throw TemplateError{
          ErrorCode::kResourceExhausted, line,
          fmt::format("an expression chains more than {} operations", kMaxExpressionDepth)};
    }
    expression->operands = std::move(operands);
    return expression;
  }

  template <class... Operands>
  static std::vector<ExpressionPtr> List(Operands... operands) {
    std::vector<ExpressionPtr> list;
    (list.push_back(std::move(operands)), ...);
    return list;
  }

  struct TupleRules {
    bool without_condition = false;  // no "x if y": the "if" belongs to the tag
    bool in_parentheses = false;     // () is a tuple there
  };

  bool AtTupleEnd() const {
    return AtKind(TokenKind::kOutputEnd) || AtKind(TokenKind::kBlockEnd) ||
           AtKind(TokenKind::kEnd) || AtOperator(")") || AtName("recursive");
  }

  // One expression, or several with commas between: a tuple.
  ExpressionPtr ParseTuple(TupleRules rules) {
    const int line = Current().line;
    std::vector<ExpressionPtr> items;
    bool is_tuple = false;
    while (!AtTupleEnd()) {
      items.push_back(rules.without_condition ? ParseOr() : ParseExpression());
      if (!SkipOperator(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && items.size() == 1) return std::move(items[0]);
    if (items.empty() && !rules.in_parentheses) FailExpected("an expression");
    return Make(ExpressionKind::kTuple, line, std::move(items));
  }

  ExpressionPtr ParseExpression() {
    const Nested nested(*this);
    const int line = Current().line;
    ExpressionPtr value = ParseOr();
    while (SkipName("if")) {
      ExpressionPtr condition = ParseOr();
      ExpressionPtr otherwise = SkipName("else") ? ParseExpression() : nullptr;
      value = Make(ExpressionKind::kConditional, line,
                   List(std::move(condition), std::move(value), std::move(otherwise)));
    }
    return value;
  }

  ExpressionPtr ParseOr() {
    const int line = Current().line;
    ExpressionPtr left = ParseAnd();
    while (SkipName("or"))
      left = Make(ExpressionKind::kOr, line, List(std::move(left), ParseAnd()));
    return left;
  }

  ExpressionPtr ParseAnd() {
    const int line = Current().line;
    ExpressionPtr left = ParseNot();
    while (SkipName("and"))
      left = Make(ExpressionKind::kAnd, line, List(std::move(left), ParseNot()));
    return left;
  }

  ExpressionPtr ParseNot() {
    const int line = Current().line;
    if (!SkipName("not")) return ParseCompare();
    const Nested nested(*this);
    return Make(ExpressionKind::kNot, line, List(ParseNot()));
  }

  template <class Table>
  bool SkipAny(const Table& table, Operator& op) {
    if (!AtKind(TokenKind::kOperator)) return false;
    for (const OperatorName& entry : table) {
      if (Current().text != entry.text) continue;
      op = entry.op;
      Next();
      return true;
    }
    return false;
  }

  bool SkipComparison(Operator& op) {
    if (SkipAny(kComparisons, op)) return true;
    if (SkipName("in")) {
      op = Operator::kIn;
      return true;
    }
    if (AtName("not") && Ahead().kind == TokenKind::kName && Ahead().text == "in") {
      Next();
      Next();
      op = Operator::kNotIn;
      return true;
    }
    return false;
  }

  ExpressionPtr ParseCompare() {
    const int line = Current().line;
    std::vector<ExpressionPtr> operands = List(ParseSum());
    std::vector<Operator> operators;
    for (Operator op; SkipComparison(op);) {
      operators.push_back(op);
      operands.push_back(ParseSum());
    }
    if (operators.empty()) return std::move(operands[0]);
    ExpressionPtr compare = Make(ExpressionKind::kCompare, line, std::move(operands));
    compare->operators = std::move(operators);
    return compare;
  }

  ExpressionPtr MakeArithmetic(int line, ExpressionPtr left, Operator op, ExpressionPtr right) {
    ExpressionPtr expression =
        Make(ExpressionKind::kArithmetic, line, List(std::move(left), std::move(right)));
    expression->operators = {op};
    return expression;
  }

  ExpressionPtr ParseSum() {
    const int line = Current().line;
    ExpressionPtr left = ParseConcat();
    for (Operator op; SkipAny(kSums, op);)
      left = MakeArithmetic(line, std::move(left), op, ParseConcat());
    return left;
  }

  ExpressionPtr ParseConcat() {
    const int line = Current().line;
    std::vector<ExpressionPtr> parts = List(ParseProduct());
    while (SkipOperator("~")) parts.push_back(ParseProduct());
    return parts.size() == 1 ? std::move(parts[0])
                             : Make(ExpressionKind::kConcat, line, std::move(parts));
  }

  ExpressionPtr ParseProduct() {
    const int line = Current().line;
    ExpressionPtr left = ParsePower();
    for (Operator op; SkipAny(kProducts, op);)
      left = MakeArithmetic(line, std::move(left), op, ParsePower());
    return left;
  }

  ExpressionPtr ParsePower() {
    const int line = Current().line;
    ExpressionPtr left = ParseUnary(true);
    while (SkipOperator("**"))
      left = MakeArithmetic(line, std::move(left), Operator::kPower, ParseUnary(true));
    return left;
  }

  ExpressionPtr ParseUnary(bool with_filters) {
    const int line = Current().line;
    ExpressionPtr value;
    if (AtOperator("-") || AtOperator("+")) {
      const Nested nested(*this);
      const ExpressionKind kind = AtOperator("-") ? ExpressionKind::kNegate : ExpressionKind::kPlus;
      Next();
      value = Make(kind, line, List(ParseUnary(false)));
    } else {
      value = ParsePrimary();
    }
    value = ParsePostfix(std::move(value));
    return with_filters ? ParseFiltersAndTests(std::move(value)) : std::move(value);
  }

  ExpressionPtr MakeConstant(int line, Value value) {
    ExpressionPtr constant = Make(ExpressionKind::kConstant, line);
    constant->constant = std::move(value);
    return constant;
  }

  ExpressionPtr ParsePrimary() {
    const Token& token = Current();
    const int line = token.line;
    switch (token.kind) {
      case TokenKind::kName:
        return ParseNameOrConstant();
      case TokenKind::kString: {
        std::string text;
        for (; AtKind(TokenKind::kString); Next()) text += Current().text;
        return MakeConstant(line, std::move(text));
      }
      case TokenKind::kInteger:
        Next();
        return MakeConstant(line, token.integer);
      case TokenKind::kFloat:
        Next();
        return MakeConstant(line, token.number);
      default:
        break;
    }
    if (SkipOperator("(")) {
      const Nested nested(*this);
      ExpressionPtr inner = ParseTuple({.in_parentheses = true});
      ExpectOperator(")");
      return inner;
    }
    if (SkipOperator("[")) {
      std::vector<ExpressionPtr> items;
      while (!AtOperator("]")) {
        items.push_back(ParseExpression());
        if (!SkipOperator(",")) break;
      }
      ExpectOperator("]");
      return Make(ExpressionKind::kList, line, std::move(items));
    }
    if (SkipOperator("{")) {
      std::vector<ExpressionPtr> pairs;
      while (!AtOperator("}")) {
        pairs.push_back(ParseExpression());
        ExpectOperator(":");
        pairs.push_back(ParseExpression());
        if (!SkipOperator(",")) break;
      }
      ExpectOperator("}");
      return Make(ExpressionKind::kDict, line, std::move(pairs));
    }
    FailAt(line, fmt::format("unexpected {}", Describe(token)));
  }

  ExpressionPtr ParseNameOrConstant() {
    const int line = Current().line;
    std::string name = TakeName("a name");
    if (name == "true" || name == "True") return MakeConstant(line, true);
    if (name == "false" || name == "False") return MakeConstant(line, false);
    if (name == "none" || name == "None") return MakeConstant(line, None{});
    for (MacroSyntax* macro : open_macros_) {
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
      macro->uses_caller |= name == "caller";
    }
    ExpressionPtr expression = Make(ExpressionKind::kName, line);
    expression->name = std::move(name);
    return expression;
  }

  ExpressionPtr ParsePostfix(ExpressionPtr value) {
    while (true) {
      const int line = Current().line;
      if (SkipOperator(".")) {
        if (AtKind(TokenKind::kInteger)) {  // x.0
          ExpressionPtr index = MakeConstant(line, Current().integer);
          Next();
          value = Make(ExpressionKind::kItem, line, List(std::move(value), std::move(index)));
        } else {
          std::string name = TakeName("a name or a number behind '.'");
          value = Make(ExpressionKind::kAttribute, line, List(std::move(value)));
          value->name = std::move(name);
        }
      } else if (AtOperator("[")) {
        value = ParseSubscript(std::move(value));
      } else if (AtOperator("(")) {
        value = ParseCall(std::move(value));
      } else {
        return value;
      }
    }
  }

  ExpressionPtr ParseFiltersAndTests(ExpressionPtr value) {
    while (true) {
      if (SkipOperator("|")) {
        value = ParseOneFilter(std::move(value));
      } else if (AtName("is")) {
        value = ParseTest(std::move(value));
      } else if (AtOperator("(")) {
        value = ParseCall(std::move(value));
      } else {
        return value;
      }
    }
  }

  ExpressionPtr ParseSubscript(ExpressionPtr value) {
    const int line = Current().line;
    ExpectOperator("[");
    ExpressionPtr bounds[3];
    int num_colons = 0;
    while (!AtOperator("]")) {
      if (num_colons < 2 && SkipOperator(":")) {
        ++num_colons;
      } else if (bounds[num_colons] == nullptr) {
        bounds[num_colons] = ParseExpression();
      } else {
        FailExpected("']'");
      }
    }
    Next();
    if (num_colons == 0) {
      if (bounds[0] == nullptr) FailAt(line, "expected an index between '[' and ']'");
      return Make(ExpressionKind::kItem, line, List(std::move(value), std::move(bounds[0])));
    }
    return Make(
        ExpressionKind::kSlice, line,
        List(std::move(value), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])));
  }

  ArgumentList ParseArguments() {
    const int line = Current().line;
    ArgumentList arguments;
    ExpectOperator("(");
    while (!AtOperator(")")) {
      if (SkipOperator("*")) {
        if (arguments.spread != nullptr || arguments.named_spread != nullptr)
          FailAt(line, "invalid order of arguments in a call");
        arguments.spread = ParseExpression();
      } else if (SkipOperator("**")) {
        if (arguments.named_spread != nullptr) FailAt(line, "invalid order of arguments in a call");
        arguments.named_spread = ParseExpression();
      } else if (AtKind(TokenKind::kName) && Ahead().kind == TokenKind::kOperator &&
                 Ahead().text == "=") {
        std::string name = TakeName("a name");
        Next();
        for (const auto& [other, _] : arguments.named) {
          if (other == name)
            FailAt(line, fmt::format("the argument '{}' stands there twice", name));
        }
        if (arguments.named_spread != nullptr) FailAt(line, "invalid order of arguments in a call");
        arguments.named.emplace_back(std::move(name), ParseExpression());
      } else {
        if (arguments.spread != nullptr || arguments.named_spread != nullptr ||
            !arguments.named.empty()) {
          FailAt(line, "an argument without a name follows one with a name");
        }
        arguments.positional.push_back(ParseExpression());
      }
      if (!SkipOperator(",")) break;
    }
    ExpectOperator(")");
    return arguments;
  }

  // Takes the depth of arguments into the expression that holds them.
  static void Attach(Expression& expression, ArgumentList arguments) {
    const auto deepen = [&](const ExpressionPtr& argument) {
      if (argument != nullptr) expression.depth = std::max(expression.depth, argument->depth + 1);
    };
    for (const ExpressionPtr& argument : arguments.positional) deepen(argument);
    for (const auto& [_, argument] : arguments.named) deepen(argument);
    deepen(arguments.spread);
    deepen(arguments.named_spread);
    expression.arguments = std::move(arguments);
  }

  ExpressionPtr ParseCall(ExpressionPtr callee) {
    const int line = Current().line;
    ArgumentList arguments = ParseArguments();
    ExpressionPtr call = Make(ExpressionKind::kCall, line, List(std::move(callee)));
    Attach(*call, std::move(arguments));
    return call;
  }

  ExpressionPtr ParseOneFilter(ExpressionPtr value) {
    const int line = Current().line;
    std::string name = TakeName("the name of a filter");
    ArgumentList arguments;
    if (AtOperator("(")) arguments = ParseArguments();
    ExpressionPtr filter = Make(ExpressionKind::kFilter, line, List(std::move(value)));
    filter->name = std::move(name);
    Attach(*filter, std::move(arguments));
    return filter;
  }

  // x is name, x is not name, x is name(arguments), x is name argument
  ExpressionPtr ParseTest(ExpressionPtr value) {
    const int line = Current().line;
    Next();  // 'is'
    const bool negated = SkipName("not");
    std::string name = TakeName("the name of a test");
    ArgumentList arguments;
    const bool starts_operand = AtKind(TokenKind::kName) || AtKind(TokenKind::kString) ||
                                AtKind(TokenKind::kInteger) || AtKind(TokenKind::kFloat) ||
                                AtOperator("[") || AtOperator("{");
    if (AtOperator("(")) {
      arguments = ParseArguments();
    } else if (starts_operand && !AtName("else") && !AtName("or") && !AtName("and")) {
      if (AtName("is")) FailAt(line, "tests cannot be chained with 'is'");
      arguments.positional.push_back(ParsePostfix(ParsePrimary()));
    }
    ExpressionPtr test = Make(ExpressionKind::kTest, line, List(std::move(value)));
    test->name = std::move(name);
    Attach(*test, std::move(arguments));
    return negated ? Make(ExpressionKind::kNot, line, List(std::move(test))) : std::move(test);
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loop_depth_ = 0;
  std::vector<MacroSyntax*> open_macros_;
};

}  // namespace

std::vector<Statement> ParseTemplate(std::string_view source) {
  return Parser(Tokenize(source)).Run();
}

}  // namespace isobit::chat
