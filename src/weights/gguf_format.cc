#include "weights/gguf_format.h"

namespace isobit {
namespace {

// Numbers 4, 5, 31 to 33 and 36 to 38 were withdrawn by ggml; their names make the refusal clear.
constexpr GgmlType kGgmlTypes[] = {
    {0, "f32", DType::kF32},
    {1, "f16", DType::kF16},
    {2, "q4_0", DType::kQ4_0},
    {3, "q4_1", DType::kQ4_1},
    {4, "q4_2", {}},
    {5, "q4_3", {}},
    {6, "q5_0", {}},
    {7, "q5_1", {}},
    {8, "q8_0", DType::kQ8_0},
    {9, "q8_1", {}},
    {10, "q2_k", {}},
    {11, "q3_k", {}},
    {12, "q4_k", {}},
    {13, "q5_k", {}},
    {14, "q6_k", {}},
    {15, "q8_k", {}},
    {16, "iq2_xxs", {}},
    {17, "iq2_xs", {}},
    {18, "iq3_xxs", {}},
    {19, "iq1_s", {}},
    {20, "iq4_nl", {}},
    {21, "iq3_s", {}},
    {22, "iq2_s", {}},
    {23, "iq4_xs", {}},
    {24, "i8", {}},
    {25, "i16", {}},
    {26, "i32", {}},
    {27, "i64", {}},
    {28, "f64", {}},
    {29, "iq1_m", {}},
    {30, "bf16", DType::kBF16},
    {31, "q4_0_4_4", {}},
    {32, "q4_0_4_8", {}},
    {33, "q4_0_8_8", {}},
    {34, "tq1_0", {}},
    {35, "tq2_0", {}},
    {36, "iq4_nl_4_4", {}},
    {37, "iq4_nl_4_8", {}},
    {38, "iq4_nl_8_8", {}},
    {39, "mxfp4", {}},
    {40, "nvfp4", {}},
    {41, "q1_0", {}},
};

}  // namespace

const GgmlType* FindGgmlType(std::uint32_t number) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

const GgmlType* FindGgmlType(DType dtype) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

}  // namespace isobit
