#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_case_table.cc: Python's str.upper, str.lower and title case of single characters as ranges.

Run it with Python 3.11 (Unicode 14.0.0, the version of PCRE2 10.42), so that all of the tokenizer room uses one Unicode:
    python3.11 tools/make_unicode_case.py
"""
import pathlib
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(pairs):
    """[(first, last, step, delta)]: every step-th code point of first..last moves by delta."""
    out = []
    for source, target in pairs:
        delta = target - source
        if out:
            first, last, step, old_delta = out[-1]
            gap = source - last
            if delta == old_delta and (gap == step or (first == last and gap <= 2)):
                out[-1] = (first, source, gap, delta)
                continue
        out.append((source, source, 1, delta))
    return out


def table(name, mapping, skip=()):
    single = [(ord(c), ord(t)) for c, t in mapping.items() if len(t) == 1]
    several = [(ord(c), t) for c, t in mapping.items() if len(t) != 1]
    lines = [f"constexpr CaseRange k{name}Ranges[] = {{"]
    lines += [f"    {{0x{a:X}, 0x{b:X}, {s}, {d}}}," for a, b, s, d in ranges(single)]
    lines += ["};", f"constexpr CaseExpansion k{name}Expansions[] = {{"]
    lines += ["    {0x%X, \"%s\"}," % (c, "".join(f"\\x{b:02X}" for b in t.encode())) for c, t in several]
    lines += ["};" if several else "    {0, \"\"},\n};", ""]
    return "\n".join(lines)


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"needs a Python with Unicode 14.0.0 (3.11); this one has {unicodedata.unidata_version}")
    upper = {c: c.upper() for c in CHARACTERS if c.upper() != c}
    # 'lower' of one character never sees the final-sigma rule; the code adds it.
    lower = {c: c.lower() for c in CHARACTERS if c.lower() != c}
    title = {c: c.title() for c in CHARACTERS if c.title() != c.upper()}
    text = f"""// Case mappings of Unicode {unicodedata.unidata_version}. Written by tools/make_unicode_case.py; do not edit.
#include "tokenizer/unicode_case_table.h"

namespace isobit::chat {{
namespace {{

{table("Upper", upper)}
{table("Lower", lower)}
{table("Title", title)}
}}  // namespace

const CaseTable kUpperTable{{kUpperRanges, kUpperExpansions}};
const CaseTable kLowerTable{{kLowerRanges, kLowerExpansions}};
const CaseTable kTitleTable{{kTitleRanges, kTitleExpansions}};

}}  // namespace isobit::chat
"""
    (ROOT / "src/tokenizer/unicode_case_table.cc").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
