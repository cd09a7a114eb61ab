#!/usr/bin/env python3
"""Adds "float64_logits" to tests/golden/smollm2/reference_logits.json: the same logits computed from the file's dequantised weights in
float64, with nothing rounded on the way. The yardstick that says how far each preset, and llama.cpp itself, is from the exact value.
Usage: add_float64_logits.py MODEL JSON. Needs: pip install numpy
"""
import json
import struct
import sys

import numpy as np

LAYERS, HEADS, KV_HEADS, HEAD_DIM, THETA, EPS = 30, 9, 3, 64, 100000.0, 1e-5
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Gguf:
    """Just enough of a reader for this one file."""

    def __init__(self, path):
        self.bytes, self.at, self.tensors = open(path, "rb").read(), 8, {}
        num_tensors, num_keys = self.read("Q"), self.read("Q")
        for _ in range(num_keys):
            self.string()
            self.value(self.read("I"))
        for _ in range(num_tensors):
            name = self.string()
            dims = [self.read("Q") for _ in range(self.read("I"))]
            self.tensors[name] = (dims[::-1], self.read("I"), self.read("Q"))
        self.data = (self.at + 31) // 32 * 32

    def read(self, code):
        (value,) = struct.unpack_from("<" + code, self.bytes, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self):
        length = self.read("Q")
        self.at += length
        return self.bytes[self.at - length : self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind in SCALARS:
            return self.read(SCALARS[kind])
        if kind == 8:
            return self.string()
        kind = self.read("I")
        return [self.value(kind) for _ in range(self.read("Q"))]

    def get(self, name):
        shape, kind, offset = self.tensors[name + ".weight"]
        count, at = int(np.prod(shape)), self.data + offset
        if kind == 0:
            return np.frombuffer(self.bytes, np.float32, count, at).reshape(shape).astype(np.float64)
        if kind == 8:
            blocks = np.frombuffer(self.bytes, np.dtype([("d", "<f2"), ("q", "i1", 32)]), count // 32, at)
            return (blocks["d"].astype(np.float64)[:, None] * blocks["q"]).reshape(shape)
        assert kind == 3, kind
        blocks = np.frombuffer(self.bytes, np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]), count // 32, at)
        q = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], 1).astype(np.float64)
        return (blocks["d"].astype(np.float64)[:, None] * q + blocks["m"].astype(np.float64)[:, None]).reshape(shape)


def norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def forward(gguf, ids):
    n = len(ids)
    embedding = gguf.get("token_embd")
    x = embedding[ids]
    angle = np.arange(n)[:, None] * THETA ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

    def rope(y, heads):  # the file's rows are permuted, so pairs are neighbours
        y = y.reshape(n, heads, HEAD_DIM // 2, 2)
        a, b = y[..., 0], y[..., 1]
        return np.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(n, heads, HEAD_DIM)

    mask = np.triu(np.full((n, n), -1e30), 1)
    for layer in range(LAYERS):
        w = lambda name: gguf.get(f"blk.{layer}.{name}")
        h = norm(x, w("attn_norm"))
        q, k = rope(h @ w("attn_q").T, HEADS), rope(h @ w("attn_k").T, KV_HEADS)
        v = (h @ w("attn_v").T).reshape(n, KV_HEADS, HEAD_DIM)
        k, v = np.repeat(k, HEADS // KV_HEADS, 1), np.repeat(v, HEADS // KV_HEADS, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD_DIM) + mask
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", p, v).reshape(n, -1) @ w("attn_output").T
        h = norm(x, w("ffn_norm"))
        gate = h @ w("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
    return norm(x, gguf.get("output_norm")) @ embedding.T


def main():
    model, path = sys.argv[1:]
    gguf, record = Gguf(model), json.load(open(path))
    for prompt in record["prompts"]:
        logits = np.take_along_axis(forward(gguf, prompt["ids"]), np.array(prompt["top_ids"]), 1)
        prompt["float64_logits"] = [[round(float(v), 4) for v in row] for row in logits]
    json.dump(record, open(path, "w"), separators=(",", ":"))


if __name__ == "__main__":
    main()
