#!/usr/bin/env python3
"""llama.cpp under the bindings of the pip package llama-cpp-python, as a peer of `isobit bench`. Takes one JSON object a line on standard
input and answers each with one on standard output; ends with its input.

  {"op": "load", "model": PATH, "threads": N, "max_length": TOKENS}         -> {"name", "version", "system", "variants"}
  {"op": "run", "variant": V, "prompts": [[id, ...], ...], "steps": N}      -> {"seconds", "tokens"}
  anything that goes wrong                                                  -> {"error": what is wrong and what to do, "field": FLAG}

"run" is one piece of work: every prompt's prefill up to its first token, then N steps that give every stream one more. "seconds" is the
steps' time, or with N = 0 that of the prefill. The low-level llama_decode is called, with NumPy for the greedy choice, so that Python
costs some microseconds a step; batches of 512; one context per number of streams and variant, each stream with a cache of its own.
A variant is flash attention on or off; which one is the faster depends on the work.
"""
import json
import os
import sys
import time

BATCH = 512  # n_batch and n_ubatch
VARIANTS = {"flash-attention": 1, "no-flash-attention": 0}  # llama_flash_attn_type
IDLE_SECONDS = 0.02  # after a run: OpenMP's workers spin for a while, and must not disturb whom we are compared with


class PeerError(Exception):
    def __init__(self, message, field="--peer"):
        super().__init__(message)
        self.field = field


class Peer:
    def __init__(self, model, threads, max_length):
        try:
            import llama_cpp
            import numpy
        except ImportError as error:
            raise PeerError(f"{sys.executable} cannot import {error.name or 'llama_cpp'}: pip install llama-cpp-python there, or name a "
                            "Python that has it", "--peer-python") from error
        self.llama, self.numpy, self.threads, self.max_length = llama_cpp, numpy, threads, max_length
        self.quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)  # kept: C holds no reference
        llama_cpp.llama_log_set(self.quiet, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(os.fsencode(model), llama_cpp.llama_model_default_params())
        if not self.model:
            raise PeerError(f"llama.cpp cannot load {model}: give a .gguf file that it knows", "--model")
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.contexts = {}  # (streams, variant): context
        self.batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        view = lambda pointer: numpy.ctypeslib.as_array(pointer, shape=(BATCH,))
        self.token, self.pos, self.wanted = view(self.batch.token), view(self.batch.pos), view(self.batch.logits)
        view(self.batch.n_seq_id)[:] = 1

    def about(self):
        return {"name": "llama-cpp-python", "version": self.llama.__version__, "system": self.llama.llama_print_system_info().decode(),
                "variants": list(VARIANTS)}

    def context(self, streams, variant):
        if (streams, variant) not in self.contexts:
            params = self.llama.llama_context_default_params()
            params.n_ctx = streams * ((self.max_length + 255) // 256 * 256)
            params.n_batch = params.n_ubatch = BATCH
            params.n_seq_max = streams
            params.n_threads = params.n_threads_batch = self.threads
            params.flash_attn_type = VARIANTS[variant]
            params.kv_unified = False
            context = self.llama.llama_init_from_model(self.model, params)
            if not context:
                raise PeerError(f"llama.cpp made no context for {streams} streams of {self.max_length} tokens: give it more memory")
            self.contexts[streams, variant] = context
        return self.contexts[streams, variant]

    def decode(self, context, num_tokens):
        self.batch.n_tokens = num_tokens
        status = self.llama.llama_decode(context, self.batch)
        if status != 0:
            raise PeerError(f"llama_decode returned {status}")

    def greedy(self, context, num_outputs):
        """The best token of each wanted row of the last decode, in row order."""
        logits = self.numpy.ctypeslib.as_array(self.llama.llama_get_logits(context), shape=(num_outputs, self.vocab_size))
        return logits.argmax(axis=1)

    def prefill_batches(self, prompts):
        """Lays out the prompts' rows, BATCH at a time: yields (rows, wanted rows) to decode. The layout is not the peer's time."""
        rows = [(s, i, token, i == len(prompt) - 1) for s, prompt in enumerate(prompts) for i, token in enumerate(prompt)]
        for begin in range(0, len(rows), BATCH):
            part = rows[begin:begin + BATCH]
            for row, (stream, position, token, wanted) in enumerate(part):
                self.token[row], self.pos[row], self.wanted[row] = token, position, wanted
                self.batch.seq_id[row][0] = stream
            num_wanted = sum(row[3] for row in part)
            yield len(part), num_wanted

    def run(self, variant, prompts, steps):
        streams = len(prompts)
        context = self.context(streams, variant)
        self.llama.llama_memory_clear(self.llama.llama_get_memory(context), False)
        tokens, filling = [], 0.0
        for num_rows, num_wanted in self.prefill_batches(prompts):
            start = time.perf_counter()
            self.decode(context, num_rows)
            if num_wanted:
                tokens += [[int(token)] for token in self.greedy(context, num_wanted)]
            filling += time.perf_counter() - start
        if steps == 0:
            return {"seconds": filling, "tokens": tokens}

        for stream in range(streams):
            self.batch.seq_id[stream][0] = stream
        self.wanted[:streams] = 1
        self.pos[:streams] = [len(prompt) for prompt in prompts]
        self.token[:streams] = [token for token, in tokens]
        steps_tokens = self.numpy.empty((steps, streams), dtype=self.numpy.int32)
        start = time.perf_counter()
        for step in range(steps):
            self.decode(context, streams)
            chosen = self.greedy(context, streams)
            self.token[:streams] = steps_tokens[step] = chosen
            self.pos[:streams] += 1
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "tokens": [first + steps_tokens[:, s].tolist() for s, first in enumerate(tokens)]}


def main():
    # Libraries may print: answers have the real standard output for themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "load":
                peer = Peer(request["model"], request["threads"], request["max_length"])
                answer = peer.about()
            else:
                answer = peer.run(request["variant"], request["prompts"], request["steps"])
                time.sleep(IDLE_SECONDS)
        except PeerError as error:
            answer = {"error": str(error), "field": error.field}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
