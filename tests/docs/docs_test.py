#!/usr/bin/env python3
"""Are the docs true? Reads README.md and docs/**/*.md:

* relative links and their anchors lead somewhere;
* every `isobit COMMAND --flag` and `./dev VERB` named in a shell block or in `code` exists in the source;
* the room table of docs/architecture.md is cmake/room_table.cmake, the contract ids of docs/contract.md are those that contract_test pins;
* shell blocks parse; those marked ```sh run end with exit code 0 under bash -e, in an empty folder with tests/ beside it, and print
  what a ```text output block right behind them says;
* decisions are numbered without gaps and have their three parts.

usage: docs_test.py [--binary build/release/isobit] [--root ROOT]   without a binary, "sh run" blocks are parsed but not run
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = None

FENCE = re.compile(r"^(```+)[ \t]*([^\n]*)\n(.*?)^\1[ \t]*$", re.S | re.M)
LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
ADD_FLAG = re.compile(r'add_(?:option|flag)(?:_function|_callback)?(?:<[^>]*>)?\(\s*"([^"]+)"')
BUILT_IN_FLAGS = {"--help", "--version"}
NUMERIC_FLAGS = "AddNumericTo"  # of model_flags.cc: the part that commands without an engine take


class Block:
    def __init__(self, path, line, kind, text):
        self.path, self.line, self.kind, self.text = path, line, kind, text
        self.output = None  # of the block right behind it

    def __str__(self):
        return f"{self.path}:{self.line}"


def Documents(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def Blocks(root, path):
    text = path.read_text(encoding="utf-8")
    blocks, last_end = [], -1
    for match in FENCE.finditer(text):
        block = Block(path.relative_to(root).as_posix(), text.count("\n", 0, match.start()) + 1, match.group(2).strip(), match.group(3))
        if block.kind == "text output" and blocks and not text[last_end:match.start()].strip():
            blocks[-1].output = block.text
        blocks.append(block)
        last_end = match.end()
    return blocks


def Prose(path):
    """The text outside fenced blocks, with their line breaks kept."""
    return FENCE.sub(lambda match: re.sub(r"[^\n]", "", match.group(0)), path.read_text(encoding="utf-8"))


# --- What the source says ---------------------------------------------------------------------------------------------------------
def FlagsIn(text):
    flags = set()
    for match in ADD_FLAG.finditer(text):
        for name in match.group(1).split(","):
            name = name.strip().lstrip("!").split("{")[0]
            if name.startswith("--"):
                flags.add(name)
    return flags


def CommandFlags(root):
    """{command: flags}, from the sources of apps/isobit."""
    folder = root / "apps/isobit"
    shared_text = (folder / "model_flags.cc").read_text(encoding="utf-8")
    body = re.search(r"::" + NUMERIC_FLAGS + r"\(.*?\n}", shared_text, re.S)
    numeric, shared = FlagsIn(body.group(0)), FlagsIn(shared_text)
    commands = {}
    for path in sorted(folder.glob("*.cc")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"void Add\w+Command\(", text):
            continue
        flags = FlagsIn(text) | BUILT_IN_FLAGS
        if f".{NUMERIC_FLAGS}(" in text:
            flags |= numeric
        if ".AddTo(" in text:
            flags |= shared
        commands[path.stem] = flags
    return commands


def DevVerbs(root):
    text = (root / "dev").read_text(encoding="utf-8")
    cases = text[text.index('case "$verb" in'):]
    return {verb.strip() for line in re.findall(r"^  ([\w |-]+)\)", cases, re.M) for verb in line.split("|")}


def RoomTable(root):
    rooms = {}
    for name, rest in re.findall(r"^\s*room\(\s*(\w+)([^)]*)\)", (root / "cmake/room_table.cmake").read_text(encoding="utf-8"), re.M):
        uses = re.search(r"\bUSES\s+((?:(?!LIBS\b)\w+\s*)+)", rest)
        rooms[name] = uses.group(1).split() if uses else []
    return rooms


# --- What the docs say ------------------------------------------------------------------------------------------------------------
def Commands(text):
    """(command, flags) of each `isobit COMMAND ...` in shell text or in one code span."""
    joined = re.sub(r"\\\n", " ", text)
    found = []
    for line in joined.split("\n"):
        line = re.sub(r"(^|\s)#.*", "", line)  # a comment says what it likes
        for part in re.split(r"\|\||&&|[;|>()]", line):
            match = re.search(r"(?:^|[\s/$\"])(?:isobit|\$isobit)\s+([a-z]+)\b(.*)", part)
            if match:
                found.append((match.group(1), FLAG.findall(re.sub(r"'[^']*'|\"[^\"]*\"", "", match.group(2)))))
    return found


def Slug(heading):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class DocsTest(unittest.TestCase):
    def setUp(self):
        self.documents = Documents(ROOT)
        self.blocks = [block for path in self.documents for block in Blocks(ROOT, path)]

    def test_there_is_something_to_check(self):
        self.assertGreater(len(self.documents), 10)
        self.assertGreater(sum(block.kind == "sh run" for block in self.blocks), 3)
        self.assertGreater(len(CommandFlags(ROOT)), 4)

    def test_links_lead_somewhere(self):
        broken = []
        for path in self.documents:
            for number, line in enumerate(Prose(path).split("\n"), 1):
                for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                    if re.match(r"[a-z]+:", target):
                        continue
                    file, _, anchor = target.partition("#")
                    to = (path.parent / file).resolve() if file else path
                    where = f"{path.relative_to(ROOT)}:{number}: {target}"
                    if not to.exists():
                        broken.append(where + " is not there")
                    elif anchor and to.suffix == ".md":
                        headings = re.findall(r"^#+ +(.*)$", Prose(to), re.M)
                        if anchor not in {Slug(heading) for heading in headings}:
                            broken.append(where + " has no such heading")
        self.assertEqual(broken, [])

    def test_commands_and_flags_exist(self):
        commands, wrong, checked = CommandFlags(ROOT), [], 0
        texts = [(str(block), block.text) for block in self.blocks if block.kind.split(" ")[0] in {"sh", "bash", "console"}]
        for path in self.documents:
            for number, line in enumerate(Prose(path).split("\n"), 1):
                texts += [(f"{path.relative_to(ROOT)}:{number}", span) for span in CODE_SPAN.findall(line)]
        for where, text in texts:
            for command, flags in Commands(text):
                checked += 1
                if command not in commands:
                    wrong.append(f"{where}: there is no command isobit {command}")
                    continue
                wrong += [f"{where}: isobit {command} has no flag {flag}" for flag in flags if flag not in commands[command]]
        self.assertEqual(wrong, [])
        self.assertGreater(checked, 20)

    def test_dev_verbs_exist(self):
        verbs, wrong, checked = DevVerbs(ROOT), [], 0
        self.assertIn("demo", verbs)
        for path in self.documents:
            for verb in re.findall(r"\./dev ([a-z]+)", path.read_text(encoding="utf-8")):
                checked += 1
                if verb not in verbs:
                    wrong.append(f"{path.relative_to(ROOT)}: ./dev {verb}")
        self.assertEqual(wrong, [])
        self.assertGreater(checked, 5)

    def test_room_table_is_the_builds(self):
        text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
        section = text[text.index("## Rooms"):text.index("## The path of one request")]
        documented = {}
        for name, sentence, uses in re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", section, re.M):
            documented[name] = [] if uses.strip() == "-" else [use.strip() for use in uses.split(",")]
        self.assertEqual(list(documented.items()), list(RoomTable(ROOT).items()))

    def test_contract_ids_are_the_pinned_ones(self):
        pinned = re.findall(r'Preset::k(\w+), KvType::kBf16\}\.Id\(\)\), "([0-9a-f]{64})"',
                            (ROOT / "src/contract/contract_test.cc").read_text(encoding="utf-8"))
        self.assertEqual([name for name, _ in pinned], ["Portable", "TensorCore", "TensorCoreInt8"])
        rows = re.findall(r"^\| `([\w-]+)` \| `bf16` \| `([0-9a-f]{64})` \|$",
                          (ROOT / "docs/contract.md").read_text(encoding="utf-8"), re.M)
        self.assertEqual([(name.replace("-", ""), id) for name, id in rows], [(name.lower(), id) for name, id in pinned])

    def test_decisions_are_numbered_and_complete(self):
        files = sorted((ROOT / "docs/decisions").glob("*.md"))
        self.assertEqual([path.name for path in files], [f"{i:03}.md" for i in range(1, len(files) + 1)])
        for path in files:
            text = path.read_text(encoding="utf-8")
            self.assertTrue(text.startswith(f"# {path.stem}: "), path.name)
            for part in ("**Choice.**", "**Alternatives.**", "**What would change our mind.**"):
                self.assertEqual(text.count(part), 1, f"{path.name}: {part}")

    def test_json_blocks_parse(self):
        import json
        for block in self.blocks:
            if block.kind == "json":
                with self.subTest(block=str(block)):
                    json.loads(block.text)

    def test_shell_blocks_parse(self):
        for block in self.blocks:
            if block.kind.split(" ")[0] == "sh":
                with self.subTest(block=str(block)):
                    run = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
                    self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_blocks_marked_run_do_what_they_say(self):
        if BINARY is None:
            print("docs: no --binary, so no block was run", file=sys.stderr)
            return
        num_run = 0
        for block in self.blocks:
            if block.kind != "sh run":
                continue
            with self.subTest(block=str(block)), tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "tests").symlink_to(ROOT / "tests")
                environment = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}"}
                run = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=folder, env=environment, capture_output=True,
                                     text=True, timeout=120)
                self.assertEqual(run.returncode, 0, f"{block}\n{run.stdout}{run.stderr}")
                if block.output is not None:
                    self.assertEqual(run.stdout, block.output)
                num_run += 1
        print(f"docs: ran {num_run} blocks", file=sys.stderr)

    def test_documented_flags_are_those_of_the_binary(self):
        if BINARY is None:
            return
        for command, flags in CommandFlags(ROOT).items():
            with self.subTest(command=command):
                text, subcommands = "", [[]]
                if command == "contract":
                    subcommands += [["show"], ["diff"], ["check"]]
                for sub in subcommands:
                    run = subprocess.run([BINARY, command, *sub, "--help"], capture_output=True, text=True, timeout=60)
                    self.assertEqual(run.returncode, 0, run.stderr)
                    text += run.stdout
                self.assertEqual({flag for flag in flags - BUILT_IN_FLAGS if flag not in FLAG.findall(text)}, set())


class CheckerTest(unittest.TestCase):
    """The checks above see what they are for."""

    def test_commands_are_found(self):
        self.assertEqual(Commands("isobit serve --model 'a --b' --port 1 # isobit old --x"), [("serve", ["--model", "--port"])])
        self.assertEqual(Commands('$isobit run --chat \\\n  --seed 1'), [("run", ["--chat", "--seed"])])
        self.assertEqual(Commands("build/release/isobit gate URL | tee --append x"), [("gate", [])])
        self.assertEqual(Commands("cmp one two; isobit contract diff a b || echo no"), [("contract", [])])
        self.assertEqual(Commands("an isobit"), [])

    def test_blocks_and_outputs_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.md"
            path.write_text("a\n```sh run\necho x\n```\n```text output\nx\n```\n\n```sh\ny\n```\n", encoding="utf-8")
            blocks = Blocks(Path(folder), path)
            self.assertEqual([(b.line, b.kind, b.text, b.output) for b in blocks],
                             [(2, "sh run", "echo x\n", "x\n"), (5, "text output", "x\n", None), (9, "sh", "y\n", None)])
            self.assertEqual(Prose(path).count("echo"), 0)

    def test_slugs(self):
        self.assertEqual(Slug("`isobit serve`"), "isobit-serve")
        self.assertEqual(Slug("Exp, Log: the [law](x.md)"), "exp-log-the-law")

    def test_room_table_is_read(self):
        rooms = RoomTable(ROOT)
        self.assertEqual(rooms["base"], [])
        self.assertEqual(rooms["backend"], ["tensor", "contract"])
        self.assertEqual(rooms["tokenizer"], ["base"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--root", type=Path)
    options, rest = parser.parse_known_args()
    if options.root:
        ROOT = options.root.resolve()
    if options.binary:
        BINARY = options.binary.resolve()
        if not BINARY.exists():
            sys.exit(f"docs_test: {options.binary} is not there; build it first: ./dev build")
    unittest.main(argv=[sys.argv[0], *rest])
