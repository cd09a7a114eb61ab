#!/usr/bin/env python3
"""docs_test's own mutants: a copy of the docs with one lie in it must turn the check that is for it red."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECK = Path(__file__).resolve().parent / "docs_test.py"

# (check, file, what it says, what the mutant says, part of the failure)
MUTANTS = [
    ("test_links_lead_somewhere", "README.md", "](LICENSE)", "](LICENCE)", "LICENCE is not there"),
    ("test_links_lead_somewhere", "docs/operating.md", "(#traces)", "(#tracks)", "#tracks has no such heading"),
    ("test_commands_and_flags_exist", "README.md", "logits --model", "logits --max-seqs 2 --model", "isobit logits has no flag --max-seqs"),
    ("test_commands_and_flags_exist", "README.md", "$isobit inspect", "$isobit show", "there is no command isobit show"),
    ("test_commands_and_flags_exist", "apps/isobit/serve.cc", 'option("--api-key-file"', 'option("--key-file"', "isobit serve has no flag --api-key-file"),
    ("test_dev_verbs_exist", "README.md", "./dev mutants", "./dev canaries", "./dev canaries"),
    ("test_room_table_is_the_builds", "docs/architecture.md", "| engine, tokenizer |", "| engine |", "serve"),
    ("test_room_table_is_the_builds", "cmake/room_table.cmake", "room(sample      USES contract)", "room(sample      USES contract trace)", "sample"),
    ("test_contract_ids_are_the_pinned_ones", "docs/contract.md", "| `bf16` | `f46ba9", "| `bf16` | `046ba9", "f46ba9"),
    ("test_decisions_are_numbered_and_complete", "docs/decisions/003.md", "**Alternatives.**", "**Others.**", "003.md"),
    ("test_shell_blocks_parse", "README.md", "'{\"messages\"", "{\"messages\"", "unexpected"),
    ("test_blocks_marked_run_do_what_they_say", "docs/contract.md", "show portable --id\nisobit", "show portable --id\nfalse\nisobit", "docs/contract.md"),
    ("test_blocks_marked_run_do_what_they_say", "docs/contract.md", "```text output\nf46ba9", "```text output\n046ba9", "046ba9"),
]

# Stands in for the program where a check runs it: says what the docs' blocks need and nothing else.
STAND_IN = """#!/bin/sh
case "$1 $2 $3" in
  "contract show portable") id=f46ba9cbe3c53dbd144e38218f341c8b3f28e9d9977e8993aeff50f3d5e6c611 ;;
  "contract show tensor-core") id=a665416220c9c1368b6cca9338ff666218a56089da9fb83f0a3e695cb1af3bcb ;;
  "contract show tensor-core-int8") id=4812dc2ff17c818bfd5b40d5a7f2eeb47efc59cfa8183b477931117b4fe79421 ;;
  *) exit 0 ;;
esac
echo $id
"""


class DocsMutantsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "copy"
        self.root.mkdir()
        for name in ("docs", "cmake", "apps"):
            shutil.copytree(ROOT / name, self.root / name)
        for name in ("README.md", "dev"):
            shutil.copy(ROOT / name, self.root / name)
        for name in ("src", "tests", "LICENSE"):
            (self.root / name).symlink_to(ROOT / name)
        self.stand_in = Path(folder.name) / "isobit"
        self.stand_in.write_text(STAND_IN, encoding="utf-8")
        self.stand_in.chmod(0o755)

    def Check(self, name):
        return subprocess.run([sys.executable, "-B", str(CHECK), "--root", str(self.root), "--binary", str(self.stand_in),
                               f"DocsTest.{name}"], capture_output=True, text=True)

    def test_every_lie_is_seen(self):
        for check, file, says, lie, expected in MUTANTS:
            with self.subTest(check=check, file=file, lie=lie):
                path = self.root / file
                text = path.read_text(encoding="utf-8")
                self.assertTrue(says in text, f"the mutant no longer applies: {says}")
                path.write_text(text.replace(says, lie, 1), encoding="utf-8")
                run = self.Check(check)
                path.write_text(text, encoding="utf-8")
                self.assertEqual(run.returncode, 1)
                self.assertIn(expected, run.stderr)

    def test_without_the_lies_the_same_checks_pass(self):
        for check in sorted({mutant[0] for mutant in MUTANTS}):
            with self.subTest(check=check):
                run = self.Check(check)
                self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    unittest.main()
