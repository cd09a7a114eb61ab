// The tensor-core step of Hopper as integer arithmetic: sixteen bf16 products and a binary32 accumulator, summed as the hardware
// does. Checked against outputs recorded on an H200 (tests/golden/h200_mma_bf16).
//
// The 16 products are exact. The exponent of a product is ea + eb, where a subnormal operand has exponent -126 and its significand as
// it stands (no renormalisation); zero products do not count. emax is the largest of the exponents, the accumulator's exponent (a
// subnormal one: -126; zero does not count) and -133. Each term is truncated toward zero to a multiple of 2^(emax - 25); the sum of
// the truncated terms is exact; it is rounded toward zero to binary32 with gradual underflow. A zero result is +0.
// Order inside a step is therefore irrelevant, and zero operands are an exact no-op.
//
// Non-finite values follow IEEE 754, also measured (nonfinite.bin): a NaN operand or accumulator, infinity times zero, or infinities of
// both signs among the terms give the NaN 0x7fffffff; else an infinite term gives its infinity; a sum past the largest finite gives an
// infinity too, although rounding is toward zero.
#pragma once

#include <cstdint>
#include <span>

namespace isobit::contract {

inline constexpr int kStepFractionBits = 25;  // F
inline constexpr int kStepMinExponent = -133;
inline constexpr std::uint32_t kStepNan = 0x7fffffffu;

// One step. a and b: at most 16 bf16 bit patterns each, of equal length (missing ones are zero).
float TensorCoreStep(float accumulator, std::span<const std::uint16_t> a, std::span<const std::uint16_t> b);

// Steps over consecutive k16 blocks, ascending; the last may be short.
float TensorCoreChain(float accumulator, std::span<const std::uint16_t> a, std::span<const std::uint16_t> b);

}  // namespace isobit::contract
