#!/usr/bin/env python3
"""Renders the templates and snippets of tests/golden/templates with Python's jinja2, set up as Hugging Face sets it up, and writes
what they give to chat.json and features.json. Needs: pip install jinja2 (3.1). Python 3.11, so that Unicode is 14.0.0.

    python3.11 tools/make_template_goldens.py

A case is {"template" or "file", "context", "expected"} or, where jinja2 refuses, "error": true (with "raised": the text of
raise_exception where that was the cause).
"""
import datetime
import json
import pathlib
import unicodedata

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/templates"
NOW = 1_753_000_000  # 2025-07-20 08:26:40 UTC


class Raised(Exception):
    pass


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: only its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation]
    )

    def raise_exception(message):
        raise Raised(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda text: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(text)
    return env


ENV = environment()


def outcome(source, context):
    try:
        return {"expected": ENV.from_string(source).render(**context)}
    except Raised as error:
        return {"error": True, "raised": str(error)}
    except (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError):
        return {"error": True}


# --- chat formats -----------------------------------------------------------------------------------------------------------------

USER = {"role": "user", "content": "What is the capital of France?"}
SYSTEM = {"role": "system", "content": "  Answer in one word.\n"}
PARIS = {"role": "assistant", "content": "Paris."}
MORE = {"role": "user", "content": "And of \"Österreich\"? <b>日本</b> too 😀\n"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says the weather of a place; it's \"quick\" & <free>.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "a town, e.g. Zürich"},
                "days": {"type": "array", "items": {"type": "object", "properties": {"day": {"type": "integer", "minimum": 1},
                         "hours": {"type": ["array", "null"], "items": {"type": "number", "default": 0.5}}}, "required": ["day"]}},
                "unit": {"enum": ["C", "F", None, True], "default": 1e-7},
            },
            "required": ["place"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "call00001", "type": "function",
         "function": {"name": "get_weather", "arguments": {"place": "Zürich", "days": [{"day": 1, "hours": None}, {"day": 2, "hours": [0.25, 12]}]}}},
    ],
}
TWO_CALLS = {"role": "assistant", "content": None, "tool_calls": CALL["tool_calls"] + [
    {"id": "call00002", "type": "function", "function": {"name": "clock", "arguments": {}}}]}
TEXT_CALL = {"role": "assistant", "content": "Let me look.", "tool_calls": [
    {"id": "call00003", "type": "function", "function": {"name": "clock", "arguments": "{\"zone\": \"UTC\"}"}}]}
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"sky\": \"clear\", \"degrees\": 21.5}"}
RESULT2 = {"role": "tool", "tool_call_id": "call00002", "name": "clock", "content": "12:00"}
THOUGHT = {"role": "assistant", "content": "<think>\nFrance... Paris.\n</think>\n\nParis.", }
REASONED = {"role": "assistant", "reasoning_content": "\nEasy.\n", "content": "Wien."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Look "}, {"type": "image"}, {"type": "text", "text": " there."}]}

CHATS = {
    "user": {"messages": [USER], "add_generation_prompt": True},
    "no_prompt": {"messages": [USER]},
    "system_user": {"messages": [SYSTEM, USER], "add_generation_prompt": True},
    "multi_turn": {"messages": [SYSTEM, USER, PARIS, MORE], "add_generation_prompt": True},
    "ends_with_assistant": {"messages": [USER, PARIS], "add_generation_prompt": False},
    "no_thinking": {"messages": [SYSTEM, USER, THOUGHT, MORE], "add_generation_prompt": True, "enable_thinking": False},
    "thinking_on": {"messages": [USER, THOUGHT, MORE, REASONED], "add_generation_prompt": False, "enable_thinking": True},
    "tools": {"messages": [USER], "tools": [WEATHER, CLOCK], "add_generation_prompt": True},
    "tools_system": {"messages": [SYSTEM, USER], "tools": [WEATHER], "add_generation_prompt": True, "tools_in_user_message": False},
    "tool_call": {"messages": [USER, CALL], "tools": [WEATHER]},
    "tool_result": {"messages": [SYSTEM, USER, CALL, RESULT], "tools": [WEATHER], "add_generation_prompt": True},
    "two_calls": {"messages": [USER, TWO_CALLS, RESULT, RESULT2], "tools": [WEATHER, CLOCK], "add_generation_prompt": True},
    "text_call": {"messages": [USER, TEXT_CALL, RESULT2, PARIS, MORE], "tools": [CLOCK], "add_generation_prompt": True},
    "reasoned_call": {"messages": [USER, {**CALL, "reasoning_content": "I need the sky."}, RESULT], "add_generation_prompt": True},
    "parts": {"messages": [SYSTEM, PARTS], "add_generation_prompt": True},
    "empty_tools": {"messages": [USER], "tools": [], "add_generation_prompt": True},
    "two_users": {"messages": [USER, MORE], "add_generation_prompt": True},
    "assistant_first": {"messages": [PARIS, USER], "add_generation_prompt": True},
    "system_last": {"messages": [USER, SYSTEM], "add_generation_prompt": True},
    "unknown_role": {"messages": [{"role": "critic", "content": "no"}], "add_generation_prompt": True},
    "no_content": {"messages": [{"role": "user"}], "add_generation_prompt": True},
    "empty_content": {"messages": [{"role": "user", "content": ""}], "add_generation_prompt": True},
    "no_messages": {"messages": [], "add_generation_prompt": True},
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def chat_cases():
    for file in sorted(ROOT.glob("*.jinja")):
        source = file.read_text(encoding="utf-8")
        for name, context in CHATS.items():
            context = {**SPECIAL, **context}
            yield {"name": f"{file.stem}/{name}", "file": file.name, "context": context, **outcome(source, context)}


# --- snippets ---------------------------------------------------------------------------------------------------------------------

FEATURE_CONTEXT = {
    "s": "Hello, Wörld", "t": "  two words\n", "empty": "", "n": 42, "z": 0, "f": 2.5, "big": 9007199254740993, "yes": True, "no": False,
    "nil": None, "xs": [3, 1, 2], "ys": ["b", "A", "c"], "none_list": [], "d": {"b": 1, "a": {"x": [10, 20]}, "items": "shadow"},
    "users": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []}, {"name": "Cyd", "age": 30}],
    "nested": [[1, 2], [3, [4, 5]], []], "uni": "naïve 😀 ß ǆ ŉ İ ΑΣ ﬁ", "html": "<a href=\"x\">'&'</a>", "lines": "one\ntwo\n\nfour",
    "mixed": [1, "1", 1.0, None, True], "floats": [0.1, 1e16, 1e-5, 123456789.125, -0.0, 1e22, 5e-324, 100.0],
}


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    snippets = (ROOT / "features.txt").read_text(encoding="utf-8").split("\n====\n")
    features = [{"template": snippet, **outcome(snippet, FEATURE_CONTEXT)} for snippet in snippets]
    write("features.json", {"now": NOW, "context": FEATURE_CONTEXT, "cases": features})
    chats = list(chat_cases())
    write("chat.json", {"now": NOW, "cases": chats})
    print(len(features), "snippets,", sum("error" in c for c in features), "errors;", len(chats), "chats,", sum("error" in c for c in chats), "errors")


def write(name, data):
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in data["cases"])
    head = json.dumps({k: v for k, v in data.items() if k != "cases"}, ensure_ascii=False)
    (ROOT / name).write_text(f"{head[:-1]}, \"cases\": [\n{lines}\n]}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
