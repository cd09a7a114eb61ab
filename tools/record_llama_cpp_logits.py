#!/usr/bin/env python3
"""Writes tests/golden/smollm2/reference_logits.json: what llama.cpp makes of SmolLM2-135M-Instruct Q4_1, at every position of four texts:
the eight largest logits, their ids and the log-sum-exp. Usage: record_llama_cpp_logits.py MODEL OUT. Needs: pip install llama-cpp-python
"""
import json
import sys

import llama_cpp
import numpy as np

TEXTS = [
    "The capital of France is Paris, and the capital of Germany is Berlin. The capital of Italy is",
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n"
    "Why is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\n"
    "for i in range(10):\n    print(",
    "Once upon a time, in a small village near the mountains, there lived a clockmaker who could not tell the time. "
    "Every morning he asked the baker, and every evening he asked the",
]


def main():
    model, out = sys.argv[1:]
    llm = llama_cpp.Llama(model, n_ctx=512, n_threads=2, logits_all=True, verbose=False)
    prompts = []
    for text in TEXTS:
        ids = llm.tokenize(text.encode(), add_bos=False, special=True)
        llm.reset()
        llm.eval(ids)
        logits = np.array(llm.scores[: len(ids)], dtype=np.float32)
        top = np.argsort(-logits, axis=1, kind="stable")[:, :8]
        peak = logits.max(1)
        lse = np.log(np.exp((logits - peak[:, None]).astype(np.float64)).sum(1)) + peak
        prompts.append(
            {
                "text": text,
                "ids": [int(i) for i in ids],
                "top_ids": top.tolist(),
                "top_logits": [[round(float(logits[r, c]), 4) for c in top[r]] for r in range(len(ids))],
                "logsumexp": [round(float(x), 4) for x in lse],
                "std": round(float(logits.std()), 4),
            }
        )
    record = {"peer": "llama-cpp-python " + llama_cpp.__version__, "model": "SmolLM2-135M-Instruct.Q4_1.gguf", "prompts": prompts}
    with open(out, "w") as file:
        json.dump(record, file, separators=(",", ":"))


if __name__ == "__main__":
    main()
