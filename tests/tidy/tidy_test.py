#!/usr/bin/env python3
"""Tidy's own mutants: a small clean tree passes; the same tree with one fault is reported, at the right line, and for nothing else."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tidy

CLEAN = {
    "cmake/room_table.cmake": "# The rooms.\nroom(base LIBS fmt::fmt)\nroom(contract USES base)\nroom(sample USES contract)\n"
                              "room(serve USES sample LIBS x)\nroom(gate USES base)\n",
    "src/base/clock.h": "// Clock: time as an argument.\n#pragma once\n",
    "src/base/clock.cc": '#include "base/clock.h"\n\nauto now = std::chrono::system_clock::now();  // steady_clock too\n',
    "src/base/random.cc": "auto x = getrandom(&bits, sizeof bits, 0);\n",
    "src/contract/elementary.h": '// Exp and Log of the law.\n#pragma once\n#include "base/clock.h"\n',
    "src/contract/elementary.cc":
        '#include "contract/elementary.h"\n\n'
        "// A comment may speak of std::exp(x), of atomicAdd and of system_clock.\n"
        'const char* text = "1/(1+exp(-x)), -ffast-math, unordered_map";\n'
        'const char* page = R"(\n#include "serve/server.h"\nstd::log(2) )";\n'
        "float y = Exp(x) + entry.log(2) + table->pow(3);\n"
        "std::unordered_map<int, int> cache;  // tidy: allow unordered: only counted, never walked\n",
    "src/contract/elementary_test.cc": '#include "contract/elementary.h"\nEXPECT_NEAR(Exp(1), std::exp(1.0), 1e-7);\n',
    "src/sample/sampler.cc": '#include "contract/elementary.h"\n#include "base/clock.h"\n',
    "src/serve/server.h": "// Server: the HTTP front.\n#pragma once\n",
    "src/serve/server.cc": "#include <boost/asio/post.hpp>\n#include <sys/socket.h>\n",
    "apps/isobit/serve.cc": '#include "serve/server.h"\n#include "gate/gate.h"\n'
                            'command->add_option("--port", port, "Port");\n'
                            'command->add_flag("--log,!--no-log", log, "Log");\n'
                            'const char* key = std::getenv("ISOBIT_KEY");\n',
    "apps/isobit/model_flags.cc": 'app.add_option("--model", model, "Model");\napp.add_option("ids", ids, "No flag");\n',
    "src/gate/gate.h": "// The gate.\n#pragma once\n",
    "docs/operating.md": "# Operating\n\n## Flags of every command with a model\n\n| flag | |\n|---|---|\n| `--model` | behaviour |\n\n"
                         "## `isobit serve`\n\n| flag | |\n|---|---|\n| `--port` | as `--other` of another program |\n"
                         "| `--log`, `--no-log` | |\n| `--help` | |\n\n`ISOBIT_KEY`: a key.\n",
    "tools/run.sh": "#!/bin/sh\ncurl http://127.0.0.1:8000/health http://localhost/ http://server.example/ \"http://$host/\"\nls build/tmp/x\n",
    "dev": "#!/bin/sh\necho a script without a suffix\n",
    "data/some.bin": "\0",
}

# (name, file, text that replaces the file or is added to it, line, part of the problem)
ADDED, REPLACED = "added", "replaced"
MUTANTS = [
    # Rooms.
    ("a room above", "src/contract/elementary.h", ADDED, '#include "sample/sampler.h"\n', 4, 'includes "sample/sampler.h"'),
    ("a room not reached", "src/contract/elementary.h", ADDED, '#include "serve/server.h"\n', 4, "room contract may not use serve"),
    ("a test that reaches up", "src/contract/elementary_test.cc", ADDED, '#include "serve/server.h"\n', 3, "may not use serve"),
    ("a neighbour", "src/gate/gate.h", ADDED, '#include "serve/server.h"\n', 3, "room gate may not use serve"),
    ("a bare include", "src/contract/elementary.h", ADDED, '#include "elementary.h"\n', 4, 'includes "elementary.h", which is not there'),
    ("an app's lost include", "apps/isobit/serve.cc", ADDED, '#include "serve/lost.h"\n', 6, 'includes "serve/lost.h"'),
    ("a code file in no room", "src/stray.cc", ADDED, "int x;\n", 1, "lies in no room"),
    ("an unknown room", "src/attic/old.cc", ADDED, "int x;\n", 1, 'room "attic", which does not exist'),
    ("a test of an unknown room", "src/attic/old_test.cc", ADDED, "int x;\n", 1, 'a test of room "attic"'),
    ("a circle of rooms", "cmake/room_table.cmake", REPLACED,
     CLEAN["cmake/room_table.cmake"].replace("room(base LIBS", "room(base USES sample LIBS"), 2, 'room base uses "sample"'),
    ("CUDA headers", "src/sample/sampler.cc", ADDED, "#include <cuda_runtime.h>\n", 3, "includes <cuda_runtime.h>"),
    ("CUDA code", "src/sample/kernel.cu", ADDED, "int x;\n", 1, "is CUDA code"),
    ("CUDA headers in apps", "apps/isobit/serve.cc", ADDED, "#include <cublas_v2.h>\n", 6, "includes <cublas_v2.h>"),
    ("Boost elsewhere", "src/sample/sampler.cc", ADDED, "#include <boost/asio/post.hpp>\n", 3, "includes <boost/asio/post.hpp>"),
    ("sockets elsewhere", "src/sample/sampler.cc", ADDED, "#include <sys/socket.h>\n", 3, "includes <sys/socket.h>"),
    ("sockets in apps", "apps/isobit/serve.cc", ADDED, "#include <netinet/in.h>\n", 6, "includes <netinet/in.h>"),
    # Forms.
    ("a header that does not say what it is", "src/base/clock.h", REPLACED, "#pragma once\n// Late.\n", 1, "begin with one line"),
    ("a header read twice", "src/base/clock.h", REPLACED, "// Clock.\n", 1, "has no #pragma once"),
    ("a machine's path in code", "src/base/clock.cc", ADDED, 'auto path = "/tmp/x";\n', 4, 'banned: "/tmp/"'),
    ("a machine's path in docs", "docs/operating.md", ADDED, "See /root/notes.\n", 18, 'banned: "/root/"'),
    ("a machine's path in a script", "dev", ADDED, "cd /work/main\n", 3, 'banned: "/work/"'),
    ("a host in a script", "tools/run.sh", ADDED, "curl https://files.somewhere.net/x\n", 4, "names the host files.somewhere.net"),
    ("a host in Python", "tools/get.py", ADDED, 'open("http://10.1.2.3/")\n', 1, "names the host 10.1.2.3"),
    # Banned words, by the name that an allowance would give.
    ("unordered", "src/sample/sampler.cc", ADDED, "std::unordered_set<int> seen;\n", 3, "std::map, std::set or a sorted"),
    ("atomicAdd", "src/sample/sampler.cc", ADDED, "atomicAdd(&sum, x);\n", 3, "a named tree"),
    ("float-atomic", "src/sample/sampler.cc", ADDED, "std::atomic<float> sum;\n", 3, "one partial sum per worker"),
    ("random_device", "src/sample/sampler.cc", ADDED, "std::random_device device;\n", 3, "SystemEntropy"),
    ("rand", "src/sample/sampler.cc", ADDED, "int x = rand() % 6;\n", 3, "Philox4x32"),
    ("wall-clock", "src/sample/sampler.cc", ADDED, "auto t = std::chrono::steady_clock::now();\n", 3, "a Clock passed"),
    ("getrandom", "src/sample/sampler.cc", ADDED, "getrandom(&x, 8, 0);\n", 3, "SystemEntropy"),
    ("std::regex", "src/sample/sampler.cc", ADDED, "std::regex pattern;\n", 3, "PCRE2"),
    ("unordered-sum", "src/sample/sampler.cc", ADDED, "float s = std::reduce(x.begin(), x.end());\n", 3, "a loop in the law's order"),
    ("omp", "src/sample/sampler.cc", ADDED, "#pragma omp parallel for\n", 3, "ThreadPool"),
    ("fast-math-pragma", "src/sample/sampler.cc", ADDED, "#pragma STDC FP_CONTRACT ON\n", 3, "the flags of CMakeLists.txt"),
    ("libm", "src/sample/sampler.cc", ADDED, "float p = std::exp(x);\n", 3, "Exp, Log or a table"),
    ("libm", "src/contract/elementary.cc", ADDED, "double p = pow (2.0, n);\n", 10, "Exp, Log or a table"),
    ("unfinished", "src/sample/sampler.cc", ADDED, "// TODO: the rest\n", 3, "the finished thing"),
    ("unfinished", "docs/operating.md", ADDED, "FIXME\n", 18, "the finished thing"),
    ("skipped-test", "src/contract/elementary_test.cc", ADDED, "GTEST_SKIP();\n", 3, "a test that runs"),
    ("skipped-test", "src/contract/elementary_test.cc", ADDED, "TEST(Exp, DISABLED_Edges) {}\n", 3, "a test that runs"),
    ("empty-test", "src/contract/elementary_test.cc", ADDED, "EXPECT_TRUE(true);\n", 3, "an assertion of a value"),
    ("empty-test", "src/contract/elementary_test.cc", ADDED, "SUCCEED();\n", 3, "an assertion of a value"),
    ("fast-math", "CMakeLists.txt", ADDED, "add_compile_options(-O2 -ffast-math)\n", 1, "-ffp-contract=off"),
    ("fast-math", "dev", ADDED, "g++ -Ofast x.cc\n", 3, "-ffp-contract=off"),
    ("machine-path", "src/sample/sampler.cc", ADDED, "// kept in /home/me/x\n", 3, "a path relative"),
    # Allowances.
    ("an allowance without a reason", "src/sample/sampler.cc", ADDED, "std::unordered_set<int> s;  // tidy: allow unordered\n", 3,
     "gives no reason"),
    ("an allowance of nothing", "src/sample/sampler.cc", ADDED, "int x;  // tidy: allow unordered: it was here once, long ago\n", 3,
     "allows nothing here"),
    # Flags.
    ("an undocumented flag", "apps/isobit/serve.cc", ADDED, 'command->add_option("--secret", s, "");\n', 6, "--secret is not documented"),
    ("an undocumented negation", "apps/isobit/serve.cc", ADDED, 'command->add_flag("--log{1},!--no-logs", s, "");\n', 6, "--no-logs is not documented"),
    ("an undocumented command", "apps/isobit/bench.cc", ADDED, 'command->add_option("--peer", s, "");\n', 1, "--peer is not documented"),
    ("a shared flag under a command only", "apps/isobit/model_flags.cc", ADDED, 'app.add_option("--port", s, "");\n', 3,
     "--port is not documented"),
    ("a flag that is no more", "docs/operating.md", REPLACED, CLEAN["docs/operating.md"].replace("`--port` |", "`--port`, `--gone` |"), 13,
     "--gone is no flag"),
    ("a command that is no more", "docs/operating.md", ADDED, "\n## `isobit old`\n\n| `--x` | |\n", 21, 'section "old" has no source file'),
    ("an undocumented variable", "apps/isobit/serve.cc", ADDED, 'getenv("ISOBIT_OTHER");\n', 6, "ISOBIT_OTHER is not documented"),
    ("an undocumented variable of a script", "dev", ADDED, "x=${ISOBIT_DIR:-}\n", 3, "ISOBIT_DIR is not documented"),
]


def Write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def Problems(self, files):
        Write(self.root, files)
        return tidy.Tidy(self.root)[0]

    def test_clean_tree_passes(self):
        self.assertEqual(self.Problems(CLEAN), [])

    def test_every_fault_is_reported_alone(self):
        for name, file, how, text, line, expected in MUTANTS:
            with self.subTest(name=name, file=file), tempfile.TemporaryDirectory() as folder:
                files = dict(CLEAN)
                files[file] = text if how == REPLACED else files.get(file, "") + text
                Write(Path(folder), files)
                problems = tidy.Tidy(Path(folder))[0]
                self.assertEqual(len(problems), 1, problems)
                self.assertTrue(problems[0].startswith(f"{file}:{line}: "), problems[0])
                self.assertIn(expected, problems[0])

    def test_every_banned_word_has_a_mutant(self):
        self.assertEqual({ban.word for ban in tidy.BANS} - {mutant[0] for mutant in MUTANTS}, set())

    def test_every_banned_word_can_be_allowed_with_a_reason(self):
        words = {ban.word for ban in tidy.BANS}
        for name, file, how, text, line, expected in MUTANTS:
            if name not in words or how != ADDED:
                continue
            with self.subTest(name=name, file=file), tempfile.TemporaryDirectory() as folder:
                comment = "#" if file in {"dev", "CMakeLists.txt"} else "//"
                allowed = text.rstrip("\n") + f"  {comment} tidy: allow {name}: a mutant's reason, long enough\n"
                Write(Path(folder), {**CLEAN, file: CLEAN.get(file, "") + allowed})
                self.assertEqual(tidy.Tidy(Path(folder))[0], [])

    def test_an_allowance_of_another_word_allows_nothing(self):
        line = "int x = rand();  // tidy: allow omp: a reason that does not fit\n"
        problems = self.Problems({**CLEAN, "src/sample/sampler.cc": line})
        self.assertEqual([problem.split(": ")[1] for problem in problems], ['"tidy', 'banned'])

    def test_a_large_file_is_reported(self):
        Write(self.root, CLEAN)
        with (self.root / "data/huge.bin").open("wb") as file:
            file.truncate(tidy.MAX_FILE_BYTES + 1)
        problems = tidy.Tidy(self.root)[0]
        self.assertEqual(len(problems), 1)
        self.assertIn("data/huge.bin:1: has 16777217 bytes", problems[0])

    def test_build_folders_are_not_read(self):
        self.assertEqual(self.Problems({**CLEAN, "build/release/x.cc": "// TODO\n", ".git/hooks/x.sh": "cd /tmp/\n"}), [])

    def test_without_a_room_table_or_code_it_is_red(self):
        without_table = {name: text for name, text in CLEAN.items() if name != "cmake/room_table.cmake"}
        self.assertIn("cmake/room_table.cmake:1: is missing", "\n".join(self.Problems(without_table)))
        with tempfile.TemporaryDirectory() as folder:
            Write(Path(folder), {"cmake/room_table.cmake": "room(base)\n"})
            self.assertIn("holds no C++ file", tidy.Tidy(Path(folder))[0][0])

    def test_without_operating_md_it_is_red(self):
        self.assertIn("docs/operating.md:1: is missing", self.Problems({n: t for n, t in CLEAN.items() if n != "docs/operating.md"})[-1])

    def test_program_exits_by_what_it_found(self):
        program = [sys.executable, "-B", str(Path(tidy.__file__))]
        Write(self.root, CLEAN)
        run = subprocess.run([*program, str(self.root)], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, ""))
        Write(self.root, {"src/base/clock.h": "#pragma once\n"})
        run = subprocess.run([*program, str(self.root)], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stdout, "src/base/clock.h:1: does not begin by saying what it is: begin with one line: "
                                     "// Name: what the thing is.\n")


if __name__ == "__main__":
    unittest.main()
