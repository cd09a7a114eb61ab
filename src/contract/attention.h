// Attention of the law: one query head against the stored keys and values of positions 0 .. p, in tiles of 128 positions aligned to
// absolute position 0.
//
// Per live tile, from zero:
//   score[j] = dot(q, k[j]) * scale, where dot is one chain over head_dim by the profile (f32-fma: fma(k, q, acc) ascending from +0;
//     bf16-tc: k16 steps from +0) and scale is one f32 multiplication; scale = 1 / sqrt(f32(head_dim)) in IEEE f32.
//   mt = largest score; p[j] = Exp(score[j] - mt), rounded to bf16 under bf16-tc;
//   lt = sum of the rounded p[j] by the strided tree over the 128 places of the tile: e[i] = e[i] + e[i + h] for h = 64, 32, ..., 1;
//     absent positions count as +0 (exact, since no p is negative);
//   ot[d] = chain over the tile's positions ascending, by the profile (f32-fma: fma(p[j], v[j][d], acc) from +0; bf16-tc: k16 steps over
//     positions 0..15, 16..31, ... of the tile from +0; absent positions are zero operands).
// The first live tile is taken over as (m, l, o). Each later one: m' = max(m, mt); a = Exp(m - m'), b = Exp(mt - m');
//   l = fma(l, a, lt * b); o[d] = fma(o[d], a, ot[d] * b); m = m'. Result: o[d] / l.
// Positions behind p, and before p - window + 1 where a window is set, are absent; a tile without live positions is skipped.
//
// q is f32 after RoPE, rounded to bf16 under bf16-tc. k (after RoPE) and v are what the KV cache stores: rounded once to the KV type
// when written; read back widened exactly (int8: f32(q) * scale, one rounding), and under bf16-tc rounded to bf16 where the KV
// type is wider.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/contract.h"

namespace isobit::contract {

float AttentionScale(std::int64_t head_dim);

// What storing one head's k or v of one token in `type` and reading it back gives: [head_dim] -> [head_dim].
// int8 uses QuantizeGroup over the whole head.
std::vector<float> StoreAndLoad(KvType type, std::span<const float> head);

// One query head at absolute position `position`. keys, values: [position + 1][head_dim], as StoreAndLoad returns them.
// window 0: all positions.
std::vector<float> AttentionHead(Profile profile, std::span<const float> query, std::span<const std::vector<float>> keys,
                                 std::span<const std::vector<float>> values, std::int64_t position, std::int64_t window = 0);

}  // namespace isobit::contract
