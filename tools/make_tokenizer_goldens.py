#!/usr/bin/env python3
"""Trains a byte-level BPE vocabulary of 512 entries on this repository's own text and writes it, with the ids that Hugging Face's
`tokenizers` gives for a list of texts under each pre-tokenizer, to tests/golden/tokenizer/small.json.

    pip install tokenizers==0.23.*
    python3 tools/make_tokenizer_goldens.py
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/golden/tokenizer/small.json"

# The expressions as the models' tokenizer.json files publish them.
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im|>", "<|"]
USER_DEFINED = ["[TOOL]", "[TOOL_CALLS]", "  \t"]
NEVER_MERGED = ["Ġtokenizer", "ĠWörld".replace("ö", "Ã¶"), "zzz"]  # whole pieces that no merge reaches

TEXTS = [
    "", " ", "a", "Hello, World!", "  two  spaces   three", "tail   ", "\n\n\nlines\n", "\r\n\r\n x", "tabs\t\tand \x0b\x0c\x85\xa0\u3000wide",
    "It's we'll I'D they'RE x'S y'\u017f 'tis don't''s", "1 12 123 1234567890 3.14 1,000", "x1y22z333 \u0663\u0664 \u2167 \xbd \u56db10",
    "const std::vector<std::int32_t>& ids = tokenizer->Encode(text);", "naïve café Ünïcödé", "日本語のテキスト、한국어 텍스트, ไทย, हिन्दी", "😀👩‍👩‍👧‍👦🏳️‍🌈 e\u0301 \u0300x",
    "a" * 300, " " * 257 + "b", "\n" * 100 + " ", "ab" * 150, "!?" * 99, "---===---\n\n", " !\n", "...\n\n\t\n x", "zzz tokenizer Wörld zzz",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|><|im|><|<|im_<|endoftext|>x<|", "a[TOOL]b[TOOL_CALLS]c[TOOL_CALLS", "x  \t  \ty",
    "\x00\x01\x06\x7f\u0080\u009f\u200b\ufeff\ufffd\U0010ffff\u180e.", "The number of tokens of a text depends on its pre-tokenizer.",
    "K\u212a \u0130\u0131 \ua7cb\u1c89", "[1, 2.5, {'k': null}]  # comment\n    return  x", "'", " '", "' s", "''''", "'LLama", "\u2028a\u2029b",
]


def pre_tokenizer(name):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name in ("gpt-2", "smollm"))
    if name == "gpt-2":
        return byte_level
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3 if name == "llama-bpe" else QWEN2), "isolated"), byte_level])


def train():
    files = sorted(p for pattern in ("src/**/*.h", "src/**/*.cc", "docs/**/*.md") for p in ROOT.glob(pattern) if not p.name.endswith("_test.cc"))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer("smollm")
    alphabet = [c for c in sorted(pre_tokenizers.ByteLevel.alphabet()) if c not in "ĀĆÿ"]  # three bytes without a token
    trainer = trainers.BpeTrainer(vocab_size=512 - len(NEVER_MERGED) - len(CONTROL) - len(USER_DEFINED), initial_alphabet=alphabet, show_progress=False)
    tokenizer.train([str(f) for f in files], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = [t for t, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    letters = set("ĀĆÿ")
    keep = [t for t in tokens if not letters & set(t)]
    return keep, [m for m in merges if not letters & set(m)]


def main():
    tokens, merges = train()
    tokens = tokens + NEVER_MERGED
    types = [1] * len(tokens) + [3] * len(CONTROL) + [4] * len(USER_DEFINED)
    vocab = {t: i for i, t in enumerate(tokens)}
    groups = []
    for name in ("gpt-2", "smollm", "llama-bpe", "qwen2"):
        for parse_special in (False, True):
            tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in merges], ignore_merges=name == "llama-bpe"))
            tokenizer.pre_tokenizer = pre_tokenizer(name)
            # Ids follow the order of adding, so control tokens are added first even where they must not match.
            specials = [AddedToken(t, special=True, normalized=False) for t in CONTROL]
            users = [AddedToken(t, special=False, normalized=False) for t in USER_DEFINED]
            shift = 0
            if parse_special:
                tokenizer.add_special_tokens(specials)
            else:
                shift = len(CONTROL)
            tokenizer.add_tokens(users)
            ids = []
            for text in TEXTS:
                got = tokenizer.encode(text, add_special_tokens=False).ids
                ids.append([i + shift if i >= len(tokens) else i for i in got])
            groups.append({"pre": name, "parse_special": parse_special, "ids": ids})
    tokens = tokens + CONTROL + USER_DEFINED
    OUT.parent.mkdir(parents=True, exist_ok=True)
    parts = [json.dumps(tokens, ensure_ascii=False), json.dumps(types), json.dumps(merges, ensure_ascii=False), json.dumps(TEXTS)]
    head = '{"tokens": %s,\n"types": %s,\n"merges": %s,\n"texts": %s,\n"groups": [\n' % tuple(parts)
    OUT.write_text(head + ",\n".join(json.dumps(g, separators=(",", ":")) for g in groups) + "\n]}\n", encoding="utf-8")
    print(len(tokens), "tokens,", len(merges), "merges,", len(TEXTS) * len(groups), "cases,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
