#include "contract/float_bits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace isobit::contract {
namespace {

TEST(FloatBits, F16RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = F32FromF16(static_cast<std::uint16_t>(bits));
    if (wide != wide) continue;
    EXPECT_EQ(F16FromF32(wide), bits);
  }
}

// Against an independent definition: the nearest of all 65536 values is a neighbour in rank order, ties to even.
TEST(FloatBits, F16RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits + 1 < 0x7c00; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float a = F32FromF16(low), b = F32FromF16(high), middle = a + (b - a) / 2;  // exact in f32
    EXPECT_EQ(F16FromF32(middle), bits % 2 == 0 ? low : high);
    EXPECT_EQ(F16FromF32(std::nextafter(middle, 0.0f)), low);
    EXPECT_EQ(F16FromF32(std::nextafter(middle, INFINITY)), high);
    EXPECT_EQ(F16FromF32(-middle), 0x8000 | (bits % 2 == 0 ? low : high));
  }
  EXPECT_EQ(F16FromF32(65519.996f), 0x7bff);
  EXPECT_EQ(F16FromF32(65520.0f), 0x7c00);
  EXPECT_EQ(F16FromF32(NAN), 0x7e00);
  EXPECT_EQ(F16FromF32(-INFINITY), 0xfc00);
}

TEST(FloatBits, Bf16RoundsToNearestEven) {
  EXPECT_EQ(Bf16FromF32(FloatOf(0x3f808000u)), 0x3f80);
  EXPECT_EQ(Bf16FromF32(FloatOf(0x3f818000u)), 0x3f82);
  EXPECT_EQ(Bf16FromF32(FloatOf(0x3f808001u)), 0x3f81);
  EXPECT_EQ(Bf16FromF32(FloatOf(0x7f7fffffu)), 0x7f80);  // past the largest finite
  EXPECT_EQ(Bf16FromF32(FloatOf(0x7f800001u)), 0x7fc0);
  EXPECT_EQ(Bf16FromF32(FloatOf(0x00008001u)), 0x0001);  // subnormals are kept
}

}  // namespace
}  // namespace isobit::contract
