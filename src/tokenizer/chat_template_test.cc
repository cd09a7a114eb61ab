#include "tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tokenizer/template_functions.h"

namespace isobit {
namespace {

// tests/golden/templates: what Python's jinja2 gives, set up as Hugging Face sets it up
// (tools/make_template_goldens.py).
std::string GoldenPath(const std::string& name) {
  return std::string(ISOBIT_SOURCE_DIR) + "/tests/golden/templates/" + name;
}

Json GoldenFile(const std::string& name) {
  return ParseJson(ReadFile(GoldenPath(name)).value(), name).value();
}

Result<std::string> Render(std::string_view source, const Json& context = Json::object(),
                           std::int64_t now = 0, const TemplateLimits& limits = {}) {
  ISOBIT_ASSIGN(const auto chat_template, ChatTemplate::Parse(source));
  return chat_template->Render(context, now, limits);
}

// Compares one case of a golden file byte for byte; where jinja2 refuses, so must we, with the
// template's own message if it had one.
void ExpectGolden(const Json& one, const std::string& source, const Json& context,
                  std::int64_t now) {
  const auto got = Render(source, context, now);
  if (!one.contains("error")) {
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_EQ(*got, one["expected"].get<std::string>());
    return;
  }
  ASSERT_FALSE(got.ok()) << *got;
  if (one.contains("raised")) {
    EXPECT_EQ(got.error().field, "messages");
    EXPECT_EQ(got.error().message, one["raised"].get<std::string>());
    EXPECT_EQ(got.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ChatTemplate, ExpressionsAndStatementsEqualJinja) {
  const Json golden = GoldenFile("features.json");
  EXPECT_GE(golden["cases"].size(), 240u);
  for (const Json& one : golden["cases"]) {
    SCOPED_TRACE(one["template"].get<std::string>());
    ExpectGolden(one, one["template"], golden["context"], golden["now"]);
  }
}

TEST(ChatTemplate, ChatFormatsEqualJinja) {
  const Json golden = GoldenFile("chat.json");
  EXPECT_GE(golden["cases"].size(), 100u);
  for (const Json& one : golden["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    ExpectGolden(one, ReadFile(GoldenPath(one["file"])).value(), one["context"], golden["now"]);
  }
}

TEST(ChatTemplate, OneTemplateRendersManyTimesTheSame) {
  const auto parsed = ChatTemplate::Parse(
                          "{% set ns = namespace(n=0) %}{% for x in xs %}{% set ns.n = ns.n + x "
                          "%}{% endfor %}{{ ns.n }}")
                          .value();
  const Json context = {{"xs", {1, 2, 3}}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(parsed->Render(context).value(), "6");
  EXPECT_EQ(parsed->source().substr(0, 6), "{% set");
}

TEST(ChatTemplate, TheClockIsAnArgument) {
  EXPECT_EQ(Render("{{ strftime_now('%d %b %Y') }}").value(), "01 Jan 1970");
  EXPECT_EQ(
      Render("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}", Json::object(), 1'709'251'199).value(),
      "2024-02-29 23:59:59");
}

struct BadTemplate {
  const char* source;
  const char* says;
};

TEST(ChatTemplate, ParseErrorsNameTheLine) {
  const BadTemplate cases[] = {
      {"{% for x in xs %}\n{{ x }}\n", "line 2: expected 'endfor'"},
      {"a\n\n{{ 1 + }}", "line 3: unexpected '}}'"},
      {"{% if x %}\n{% endfor %}", "line 2: unknown tag 'endfor'; expected 'endif'"},
      {"\n{% include 'x' %}", "line 2: the tag 'include'"},
      {"\n\n{% nonsense %}", "line 3: unknown tag 'nonsense'"},
      {"{{ 'abc }}", "line 1: a string is not closed"},
      {"x\n{# y", "line 2: a comment is not closed"},
      {"{{ 99999999999999999999 }}", "line 1: '99999999999999999999' is no integer of 64 bits"},
      {"{{ a b }}", "line 1: expected '}}', found 'b'"},
      {"{{ (1] }}", "line 1: unexpected ']', expected ')'"},
      {"{% break %}", "line 1: 'break' outside of a loop"},
      {"{{ a ? b }}", "line 1: unexpected character '?'"},
      {"{{ x", "line 1: '}}' is missing"},
      {"{% for x in y recursive %}{% endfor %}", "line 1: recursive loops are not supported"},
      {"{{ '\\N{DASH}' }}", "line 1: the escape"},
  };
  for (const BadTemplate& bad : cases) {
    const auto parsed = ChatTemplate::Parse(bad.source);
    ASSERT_FALSE(parsed.ok()) << bad.source;
    EXPECT_EQ(parsed.error().field, "chat_template");
    EXPECT_NE(parsed.error().message.find(bad.says), std::string::npos)
        << bad.source << " -> " << parsed.error().message;
  }
}

TEST(ChatTemplate, RenderErrorsNameTheLineAndTheCause) {
  const BadTemplate cases[] = {
      {"\n{{ message.content }}", "line 2: 'message' is undefined"},
      {"{{ d.x.y }}", "line 1: 'dict object' has no attribute 'x'"},
      {"\n\n{{ 'a' + 1 }}", "line 3: can only concatenate str (not \"int\") to str"},
      {"{{ none + 'a' }}", "unsupported operand type(s) for +: 'NoneType' and 'str'"},
      {"{{ 1|nope }}", "no filter named 'nope'"},
      {"{{ 1 is nope }}", "no test named 'nope'"},
      {"{{ [].append(1) }}", "'append' would change a list"},
      {"{{ 9223372036854775807 + 1 }}", "does not fit 64 bits"},
      {"{{ -9223372036854775807 - 2 }}", "does not fit 64 bits"},
      {"{{ 3037000500 * 3037000500 }}", "does not fit 64 bits"},
      {"{{ 2 ** 63 }}", "does not fit 64 bits"},
      {"{{ '9223372036854775808'|int }}", "does not fit 64 bits"},
      {"{{ [1]|map('upper') }}", "put |list behind it"},
      {"{% macro f(a) %}{% endmacro %}\n{{ f(1, 2) }}", "line 2: macro 'f' takes not more than 1"},
      {"{{ 5() }}", "'int' object is not callable"},
      {"{{ {[1]: 2} }}", "unhashable type: 'list'"},
      {"{% for a, b in [[1]] %}{% endfor %}", "not enough values to unpack (expected 2, got 1)"},
  };
  for (const BadTemplate& bad : cases) {
    const auto got = Render(bad.source, {{"d", Json::object()}});
    ASSERT_FALSE(got.ok()) << bad.source << " -> " << *got;
    EXPECT_EQ(got.error().field, "chat_template") << bad.source;
    EXPECT_EQ(got.error().code, ErrorCode::kInvalidArgument) << bad.source;
    EXPECT_NE(got.error().message.find(bad.says), std::string::npos)
        << bad.source << " -> " << got.error().message;
  }
}

TEST(ChatTemplate, RaiseExceptionGivesItsOwnMessage) {
  const auto got = Render(
      "{% if messages|length > 1 %}{{ raise_exception('Only one message, please') }}{% endif %}ok",
      {{"messages", {1, 2}}});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(got.error().field, "messages");
  EXPECT_EQ(got.error().message, "Only one message, please");
}

TEST(ChatTemplate, ContextsThatCannotBeAreRefused) {
  EXPECT_EQ(Render("x", Json::array()).error().field, "messages");
  EXPECT_EQ(Render("{{ x }}", {{"x", 9223372036854775808u}}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(Render("{{ x }}", {{"x", "\xFF"}}).error().code, ErrorCode::kInvalidArgument);
  Json deep = 1;
  for (int i = 0; i < 300; ++i) deep = Json::array({deep});
  EXPECT_EQ(Render("{{ x }}", {{"x", deep}}).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(Render("{{ x }}", {{"x", 9223372036854775807}}).value(), "9223372036854775807");
  EXPECT_FALSE(ChatTemplate::Parse("\xFFx").ok());
  EXPECT_FALSE(ChatTemplate::Parse(std::string(5 << 20, 'x')).ok());
}

// Each would run for ever, fill the memory or the stack, if nothing counted.
TEST(ChatTemplate, LimitsStopHostileTemplates) {
  std::string parentheses = "{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}";
  std::string blocks, sums = "{{ 1", pipes = "{{ 'a'", nots = "{{ ", signs = "{{ ", dots = "{{ x",
                      brackets = "{{ ";
  for (int i = 0; i < 3000; ++i) {
    blocks += "{% if 1 %}";
    sums += " + 1";
    pipes += "|upper";
    nots += "not ";
    signs += "-";
    dots += ".x";
    brackets += "[";
  }
  for (int i = 0; i < 3000; ++i) blocks += "{% endif %}";
  const std::string cases[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='x') %}{% for i in range(1000) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s='x') %}{% for i in range(1000) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(1000) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s=1) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}{% endfor "
      "%}{{ ns.s }}",
      "{% set ns = namespace(s=1) %}{% for i in range(100000) %}{% set ns.s = {'a': ns.s} %}{% "
      "endfor %}",
      "{% set ns = namespace(s=1) %}{% for i in range(100000) %}{% for y in [ns.s] %}{% set ns.s = "
      "loop %}{% endfor %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
      "{{ 'x' * 1000000000000 }}",
      "{{ [1] * 1000000000000 }}",
      "{{ 'x'.center(99999999999) }}{{ 'x'.zfill(99999999999) }}",
      "{{ '%0999999999d' % 1 }}",
      "{{ '{:>999999999}'.format(1) }}",
      "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
      "{% set x = 'x' * 10000000 %}{% for i in range(10000) %}{{ x|upper|length }}{% endfor %}",
      "{% set x = 'a' * 1000000 %}{{ x.replace('a', x) }}",
      "{% set x = 'a' * 1000000 %}{{ x.replace('', x) }}",
      "{% set x = 'a' * 1000 %}{% for i in range(100000) %}{% set y = x.split('a') %}{% endfor %}",
      "{{ [1]|batch(100000000000, 0)|list }}",
      "{{ 'a\nb'|indent(100000000000) }}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{% for i in range(100000) %}{% set ns.l = [ns, "
      "ns.l] %}{% endfor %}",
      parentheses,
      blocks,
      sums + " }}",
      pipes + " }}",
      nots + "1 }}",
      signs + "1 }}",
      dots + " }}",
      brackets + "1" + std::string(3000, ']') + " }}",
  };
  for (const std::string& source : cases) {
    const auto got = Render(source, {{"x", Json::object()}});
    ASSERT_FALSE(got.ok()) << source.substr(0, 200);
    EXPECT_TRUE(got.error().code == ErrorCode::kResourceExhausted ||
                got.error().message.find("above 10000") != std::string::npos)
        << source.substr(0, 100) << " -> " << got.error().ToString();
  }
}

TEST(ChatTemplate, LimitsAreWhatTheCallerSays) {
  EXPECT_EQ(Render("{% for i in range(50) %}{% endfor %}", Json::object(), 0, {.max_steps = 100})
                .error()
                .code,
            ErrorCode::kResourceExhausted);
  EXPECT_TRUE(
      Render("{% for i in range(5) %}{% endfor %}", Json::object(), 0, {.max_steps = 100}).ok());
  EXPECT_EQ(Render("12345", Json::object(), 0, {.max_output_bytes = 4}).error().code,
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(Render("1234", Json::object(), 0, {.max_output_bytes = 4}).value(), "1234");
  const char* recursion =
      "{% macro f(n) %}{% if n > 1 %}{{ f(n - 1) }}{% endif %}.{% endmacro %}{{ f(8) }}";
  EXPECT_EQ(Render(recursion, Json::object(), 0, {.max_depth = 8}).value(), "........");
  EXPECT_EQ(Render(recursion, Json::object(), 0, {.max_depth = 7}).error().code,
            ErrorCode::kResourceExhausted);
}

TEST(ChatTemplate, ANamespaceMayHoldItself) {
  EXPECT_EQ(Render("{% set a = namespace(n=1) %}{% set a.me = a %}{{ a.me.me.n }}").value(), "1");
}

TEST(ChatTemplate, MacrosKeepTheScopeTheyCameFrom) {
  const char* source =
      "{% set ns = namespace(f=none) %}{% for x in [1, 2] %}{% macro show() %}{{ x }}{% endmacro "
      "%}{% if loop.first %}{% set ns.f = show %}"
      "{% endif %}{% endfor %}{{ ns.f() }}";
  EXPECT_EQ(Render(source).value(), "1");
}

// Words of the grammar in random order, and bytes in random order: no crash, no hang, an answer
// each time.
TEST(ChatTemplate, RandomSourcesNeverCrash) {
  const char* words[] = {"{{ ",
                         " }}",
                         "{% ",
                         " %}",
                         "{%- ",
                         " -%}",
                         "{#",
                         "#}",
                         "if ",
                         "endif",
                         "else",
                         "elif ",
                         "for x in ",
                         "endfor",
                         "set ",
                         "x",
                         "= ",
                         "endset",
                         "macro f(a, b=1)",
                         "endmacro",
                         "call f(1)",
                         "endcall",
                         "f(",
                         ")",
                         "(",
                         "[",
                         "]",
                         "{",
                         "}",
                         "1",
                         "2.5",
                         "'s'",
                         "\"t\"",
                         "none",
                         "true",
                         "xs",
                         "d",
                         ".a",
                         ".items()",
                         "|",
                         "length",
                         "upper",
                         "join",
                         "tojson",
                         "list",
                         "map('upper')",
                         "sort",
                         "selectattr('a')",
                         "is ",
                         "defined",
                         "string",
                         "not ",
                         "and ",
                         "or ",
                         "in ",
                         "+ ",
                         "- ",
                         "* ",
                         "/ ",
                         "// ",
                         "% ",
                         "** ",
                         "~ ",
                         "== ",
                         "< ",
                         ", ",
                         ": ",
                         "loop.index",
                         "loop.last",
                         "break",
                         "continue",
                         "namespace(a=1)",
                         "raw",
                         "endraw",
                         "filter upper",
                         "endfilter",
                         "with a=1",
                         "endwith",
                         "generation",
                         "endgeneration",
                         "\n",
                         " ",
                         "range(3)",
                         "é",
                         "😀",
                         "[::-1]",
                         "[1:2]",
                         ".split('s')",
                         ".format(1)",
                         "'%s' % ",
                         "caller()",
                         "\\",
                         "'",
                         "varargs",
                         "x.y = 1",
                         "if x else "};
  const Json context = {{"xs", {3, 1, "a", nullptr}}, {"d", {{"a", {{"b", 1}}}}}, {"x", "text"}};
  std::uint64_t state = 7;
  const auto below = [&](std::uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  const TemplateLimits limits{.max_steps = 20'000, .max_output_bytes = 100'000, .max_depth = 20};
  int num_rendered = 0;
  for (int round = 0; round < 60'000; ++round) {
    std::string source;
    const bool balanced =
        below(2) == 0;  // half of them are whole expressions, so that many get past the parser
    if (balanced) source = "{{ ";
    for (std::uint64_t i = 0, count = 1 + below(balanced ? 8 : 16); i < count; ++i)
      source += words[below(std::size(words))];
    if (balanced) source += " }}";
    if (below(10) == 0) source[below(source.size())] = static_cast<char>(below(256));
    num_rendered += Render(source, context, 0, limits).ok();
  }
  EXPECT_GT(num_rendered, 500) << "too few sources were templates for this to test the interpreter";
}

TEST(ChatTemplate, DamagedGoldensNeverCrash) {
  const Json golden = GoldenFile("features.json");
  std::uint64_t state = 11;
  const auto below = [&](std::uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  const TemplateLimits limits{.max_steps = 20'000, .max_output_bytes = 100'000, .max_depth = 20};
  int num_answers = 0;
  for (int round = 0; round < 40; ++round) {
    for (const Json& one : golden["cases"]) {
      std::string source = one["template"];
      if (source.empty()) continue;
      for (std::uint64_t i = 0, count = 1 + below(3); i < count; ++i) {
        const std::size_t at = below(source.size());
        switch (below(3)) {
          case 0:
            source[at] = static_cast<char>(32 + below(95));
            break;
          case 1:
            source.erase(at, 1 + below(4));
            break;
          default:
            source.insert(at, source.substr(below(source.size()), 1 + below(12)));
        }
        if (source.empty()) source = "x";
      }
      const auto got = Render(source, golden["context"], 0, limits);
      num_answers += got.ok() || !got.error().message.empty();
    }
  }
  EXPECT_EQ(num_answers, 40 * (static_cast<int>(golden["cases"].size()) - 1));
}

TEST(ChatTemplate, DocumentationListsEveryFilterAndTest) {
  const std::string page = ReadFile(std::string(ISOBIT_SOURCE_DIR) + "/docs/templates.md").value();
  for (const auto& names : {chat::FilterNames(), chat::TestNames()}) {
    for (const std::string_view name : names) {
      EXPECT_NE(page.find("`" + std::string(name) + "`"), std::string::npos) << name;
    }
  }
}

}  // namespace
}  // namespace isobit
