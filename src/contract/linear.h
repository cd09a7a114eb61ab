// The linear layer of the law: y[n] = sum over k of w[n, k] * x[k], as one finite expression per output.
//
// Fold (q, k, v, gate, up, lm_head): K is cut into chunks of 512 consecutive k. Tree (o, down): K is cut into 8 segments on
//   granules of lcm(16, group size of the format); with G granules (the last may be short) segment i is granules
//   [floor(i G / 8), floor((i + 1) G / 8)); an empty segment is absent. Each chunk or segment is summed from zero, ascending:
//   f32-fma:  acc = fma(w, x, acc) from +0; weights widened by DecodeRow, activations f32 as they are.
//   int8-dot: per group isum = sum of qw * qx (int32, exact), s = dw * dx (one rounding); the first group of the chunk:
//             acc = f32(isum) * s, later ones: acc = fma(f32(isum), s, acc); where the format has a minimum m, right after each:
//             acc = fma(f32(sum of qx), m * dx, acc). Activations are quantised per group (weight_formats.h).
//   bf16-tc:  both operands rounded to bf16 (a quantised weight's DecodeRow value likewise); Hopper k16 steps from +0.
// Fold: acc = chunk 0; acc = acc + chunk i. Tree: ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)), join(a, absent) = a.
// A bias is added last: y + bias. None of it depends on the number of rows of x.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contract/contract.h"
#include "tensor/dtype.h"

namespace isobit::contract {

enum class Topology : std::uint8_t { kFold, kTree };
const char* Name(Topology topology);  // "fold", "tree"

struct KRange {
  std::int64_t begin, end;
  bool empty() const { return begin == end; }
  bool operator==(const KRange&) const = default;
};

// Fold: ceil(K / 512) ranges, none empty. Tree: 8 ranges, some may be empty. `group` is GroupSize(dtype) under int8-dot, else 1.
std::vector<KRange> CutK(Topology topology, std::int64_t k, std::int64_t group);

// Joins the sums of CutK's ranges.
float JoinChunks(Topology topology, std::span<const KRange> ranges, std::span<const float> sums);

// One output element. `row` is the stored weight row; float weights under int8-dot are taken through QuantizeRowI8G128 first.
float LinearElement(Profile profile, Topology topology, DType dtype, std::span<const std::byte> row, std::span<const float> x);

// y[n] for all rows of w: [n, k] x [k] -> [n]. bias may be empty.
std::vector<float> Linear(Profile profile, Topology topology, DType dtype, std::span<const std::byte> weight, std::int64_t n,
                          std::span<const float> x, std::span<const float> bias);

}  // namespace isobit::contract
