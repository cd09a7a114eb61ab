#!/usr/bin/env python3
"""Writes tests/golden/law/trig.txt and frequencies.txt: correctly rounded float32 values from mpmath (200 bits).

trig.txt: one line a case, hexadecimal float32 bits: x cos(x) sin(x). frequencies.txt: theta, head_dim, index, bits.
Needs: pip install mpmath numpy
"""
import os
import random
import struct

import mpmath as mp

mp.mp.prec = 200
OUT = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "law")


def bits(value):
    """Bits of the float32 nearest to an mpf, ties to even."""
    if value == 0:
        return 0
    sign = 0x80000000 if value < 0 else 0
    value = abs(value)
    exponent = max(int(mp.floor(mp.log(value, 2))), -126)
    if mp.mpf(2) ** (exponent + 1) <= value:
        exponent += 1
    if mp.mpf(2) ** exponent > value and exponent > -126:
        exponent -= 1
    unit = mp.mpf(2) ** (exponent - 23)
    quotient = value / unit
    low = int(mp.floor(quotient))
    rest = quotient - low
    if rest > mp.mpf(1) / 2 or (rest == mp.mpf(1) / 2 and low % 2):
        low += 1
    return sign | struct.unpack("<I", struct.pack("<f", float(mp.mpf(low) * unit)))[0]


def main():
    os.makedirs(OUT, exist_ok=True)
    random.seed(1)
    xs = [0.0, 1.0, 0.5, 3.1415927, 1.5707964, 6.2831855, 8191.0, 131071.0, 1048575.0, 1e-30, 2.0 ** -149]
    for _ in range(3000):
        position = random.randrange(0, 131072)
        xs.append(position * random.choice([1.0, 10000.0 ** (-random.random()), 500000.0 ** (-random.random())]))
    with open(os.path.join(OUT, "trig.txt"), "w") as out:
        for x in xs:
            pattern = struct.unpack("<I", struct.pack("<f", x))[0]
            exact = mp.mpf(struct.unpack("<f", struct.pack("<I", pattern))[0])
            out.write(f"{pattern:08x} {bits(mp.cos(exact)):08x} {bits(mp.sin(exact)):08x}\n")
    with open(os.path.join(OUT, "frequencies.txt"), "w") as out:
        for theta in (10000.0, 100000.0, 500000.0, 1000000.0, 5000000.0):
            for head_dim in (16, 64, 96, 128, 256):
                for i in range(head_dim // 2):
                    value = mp.mpf(theta) ** (mp.mpf(-2 * i) / head_dim)
                    out.write(f"{theta:.0f} {head_dim} {i} {bits(value):08x}\n")


if __name__ == "__main__":
    main()
