#!/usr/bin/env python3
"""isobit bench at tiny sizes: what its JSON holds, that its digests depend on nothing that is speed only, what it refuses, and that a
peer's figures are put beside the right ones. The peer is a script of known times.

usage: bench_smoke_test.py --binary build/release/isobit
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/golden/llama"
BINARY = None
TINY = {"--prefill": "24", "--decode": "5", "--context": "8", "--streams": "1,3", "--rounds": "2", "--bandwidth-mib": "1"}

# Speaks the protocol of tools/bench_peer.py. Variant "a" takes 2 seconds for everything, "b" 1 second for decode and 4 for prefill.
SCRIPTED_PEER = """#!%s
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    if ask["op"] == "load":
        assert ask["threads"] == 1 and ask["max_length"] == 25 and ask["model"].endswith("llama"), ask
        answer = {"name": "scripted", "version": "1", "system": "none", "variants": ["a", "b"]}
    else:
        assert {len(prompt) for prompt in ask["prompts"]} == {24 if ask["steps"] == 0 else 8}, ask
        answer = {"seconds": 2.0 if ask["variant"] == "a" else 1.0 if ask["steps"] else 4.0,
                  "tokens": [[0] * (1 + ask["steps"]) for _ in ask["prompts"]]}
        %s
    print(json.dumps(answer), flush=True)
"""


def Bench(*arguments, env=None):
    """Runs at tiny sizes, as far as the arguments do not give others."""
    sizes = [word for flag, value in TINY.items() if flag not in arguments for word in (flag, value)]
    return subprocess.run([BINARY, "bench", "--model", MODEL, *sizes, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(env or {})})


def Figures(*arguments, env=None):
    done = Bench("--json", "-", *arguments, env=env)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def Digests(figures):
    return {work["name"]: work["digest"] for work in figures["work"]}


class BenchTest(unittest.TestCase):
    def test_json(self):
        figures = Figures("--threads", "1", "--plans")
        self.assertEqual((figures["model"], figures["preset"], figures["kv_type"]), ("llama", "portable", "bf16"))
        self.assertEqual((figures["threads"], figures["rounds"], figures["seed"]), (1, 2, 1))
        self.assertRegex(figures["contract_id"], "^[0-9a-f]{64}$")
        self.assertTrue(figures["device"].endswith(" x1"), figures["device"])
        # Tied head: every tensor counts. 2 bytes a value, K and V of 4 layers with 2 heads of 16.
        self.assertEqual(figures["weight_bytes"], 410752)
        self.assertEqual(figures["kv_bytes_per_token"], 2 * 2 * 4 * 2 * 16)
        for name in ("copy", "read", "read_weights"):
            rate = figures["bandwidth_gb_per_second"][name]
            self.assertEqual(len(rate["rounds"]), 2)
            # A loop whose loads were left out would read millions of GB/s.
            self.assertTrue(0 < rate["min"] <= rate["median"] <= rate["max"] < 5000, (name, rate))
        self.assertIn("linear", figures["plans"])

        self.assertEqual([(work["name"], work["kind"], work["streams"], work["steps"]) for work in figures["work"]],
                         [("prefill 24", "prefill", 1, 0), ("decode 5", "decode", 1, 5), ("decode 5 x 3", "decode", 3, 5)])
        for work in figures["work"]:
            rate = work["tokens_per_second"]
            self.assertEqual(len(rate["rounds"]), 2)
            self.assertTrue(0 < rate["min"] <= rate["median"] <= rate["max"], work)
            self.assertTrue(0 < work["forward_share"] < 1, work)
            self.assertRegex(work["digest"], "^[0-9a-f]{64}$")
            self.assertEqual("weight_gb_per_second" in work, work["kind"] == "decode")
            self.assertNotIn("ratio", work)
            if work["kind"] == "decode":
                steps_per_second = rate["median"] / work["streams"]
                self.assertAlmostEqual(work["weight_gb_per_second"], steps_per_second * 410752 / 1e9, delta=work["weight_gb_per_second"] / 100)
        self.assertEqual(len(set(Digests(figures).values())), 3)

    def test_only_bits_move_the_digest(self):
        digests = Digests(Figures("--threads", "1"))
        self.assertEqual(Digests(Figures("--threads", "1")), digests)
        self.assertEqual(Digests(Figures("--threads", "2", "--prefill-chunk", "3", "--block-size", "8")), digests)
        self.assertEqual(Digests(Figures("--threads", "1", env={"ISOBIT_ISA": "scalar"})), digests)
        self.assertEqual(Digests(Figures("--device", "law")), digests)
        for other in (["--kv-type", "int8"], ["--contract", "tensor-core"], ["--seed", "2"]):
            moved = Digests(Figures("--threads", "1", *other))
            for name, digest in moved.items():
                self.assertNotEqual(digest, digests[name], other)

    def test_table(self):
        done = Bench("--threads", "1", "--plans")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.split("\n")
        self.assertRegex(lines[0], "^llama: portable, KV bf16, .* x1, contract [0-9a-f]{12}, 2 rounds$")
        digest = Digests(Figures("--threads", "1"))["decode 5 x 3"]
        self.assertTrue(any(line.startswith("decode 5 x 3 ") and line.endswith(digest[:16]) for line in lines), done.stdout)
        self.assertIn('"linear"', done.stdout)

    def test_parts_can_be_left_out(self):
        self.assertEqual([work["name"] for work in Figures("--decode", "0")["work"]], ["prefill 24"])
        self.assertEqual([work["name"] for work in Figures("--prefill", "0", "--streams", "2")["work"]], ["decode 5 x 2"])

    def test_refusals(self):
        for arguments, said in [
            (["--rounds", "0"], "--rounds: 0 is out of range"),
            (["--streams", "1,0"], "--streams: 0 is out of range"),
            (["--context", "0"], "--context: 0 is out of range"),
            (["--prefill", "0", "--decode", "0"], "--prefill: and --decode are both 0"),
            (["--prefill", "512"], '--prefill: "prefill 512" needs sequences of 513 tokens, the model\'s maximum context length is 512'),
            (["--decode", "1000"], "--decode: "),
            (["--prefill-chunk", "0"], "--prefill-chunk: 0 is out of range"),
            (["--block-size", "12"], "--block-size: must be 8, 16"),
            (["--bandwidth-mib", "0"], "--bandwidth-mib: 0 is out of range"),
            (["--peer", "nobody"], '--peer: "nobody" is not known; use llama-cpp-python'),
            (["--peer", "llama-cpp-python", "--peer-python", "no-such-python"], '--peer-python: cannot run "no-such-python"'),
            (["--peer", "llama-cpp-python", "--peer-script", "no-such.py"], "--peer-script: no-such.py is not there"),
        ]:
            done = Bench(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn("isobit: " + said, done.stderr)


class PeerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def ScriptedPeer(self, extra="pass"):
        path = self.folder / "peer"
        path.write_text(SCRIPTED_PEER % (sys.executable, extra))
        path.chmod(0o755)
        return ["--threads", "1", "--peer", "llama-cpp-python", "--peer-python", path, "--peer-script", ROOT / "tools/bench_peer.py"]

    def test_figures_stand_beside_ours(self):
        figures = Figures(*self.ScriptedPeer())
        self.assertEqual((figures["peer"]["name"], figures["peer"]["version"]), ("scripted", "1"))
        prefill, one, three = figures["work"]
        self.assertEqual((prefill["peer"]["best"], one["peer"]["best"], three["peer"]["best"]), ("a", "b", "b"))
        for work, best in (prefill, 24 / 2), (one, 5.0), (three, 15.0):
            rate = work["peer"]["tokens_per_second"][work["peer"]["best"]]
            self.assertEqual(rate, {"median": best, "min": best, "max": best, "rounds": [best, best]})
            self.assertAlmostEqual(work["ratio"], work["tokens_per_second"]["median"] / best, delta=work["ratio"] / 100)
        self.assertEqual(prefill["peer"]["tokens_per_second"]["b"]["median"], 6)
        self.assertEqual(Digests(figures), Digests(Figures("--threads", "1")))

    def test_peer_that_dies_or_lies(self):
        for extra, said in [("sys.exit(1)", "--peer: the peer ended without an answer"),
                            ("answer['seconds'] = 0", '--peer: the peer\'s answer has no positive "seconds"'),
                            ("answer['tokens'].pop()", "--peer: the peer did not answer with 1 lists of 1 token ids"),
                            ("answer = {'error': 'out of luck', 'field': '--model'}", "--model: out of luck"),
                            ("answer = {'error': ['no'], 'field': 3}", '--peer: ["no"]'),
                            ("answer = [1]", "--peer: the peer's answer is no JSON object")]:
            done = Bench(*self.ScriptedPeer(extra))
            self.assertEqual((done.returncode, done.stdout), (2, ""), extra)
            self.assertIn("isobit: " + said, done.stderr)

    def test_missing_package_is_named(self):
        (self.folder / "llama_cpp.py").write_text("raise ImportError('not here', name='llama_cpp')\n")
        done = Bench("--peer", "llama-cpp-python", "--peer-python", sys.executable, "--peer-script", ROOT / "tools/bench_peer.py",
                     env={"PYTHONPATH": str(self.folder)})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("isobit: --peer-python: ", done.stderr)
        self.assertIn("cannot import llama_cpp: pip install llama-cpp-python", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    known, rest = parser.parse_known_args()
    BINARY = Path(known.binary).resolve()
    unittest.main(argv=[sys.argv[0], *rest])
