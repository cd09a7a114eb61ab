#include "contract/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/sha256.h"
#include "contract/float_bits.h"

namespace isobit::contract {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Distance in units of the last place of the float32 nearest to `exact`.
double UlpError(float value, double exact) {
  const auto nearest = static_cast<float>(exact);
  const double ulp = static_cast<double>(std::nextafter(std::fabs(nearest), kInfinity)) - std::fabs(nearest);
  return std::fabs(static_cast<double>(value) - exact) / ulp;
}

TEST(Elementary, ExpIsWithinOneUlp) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 4099) {
    const float x = FloatOf(static_cast<std::uint32_t>(bits));
    if (x != x || x > kExpMax || x < kExpMin) continue;
    worst = std::max(worst, UlpError(Exp(x), std::exp(static_cast<double>(x))));
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_GT(worst, 0.4);  // the measure can see rounding
}

TEST(Elementary, ExpEdges) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(BitsOf(Exp(-kInfinity)), 0u);
  EXPECT_EQ(BitsOf(Exp(FloatOf(0xffc12345u))), 0x7fc00000u);
  EXPECT_TRUE(std::isfinite(Exp(kExpMax)));
  EXPECT_EQ(Exp(std::nextafter(kExpMax, kInfinity)), kInfinity);
  EXPECT_EQ(BitsOf(Exp(-103.0f)), 1u);  // rounded once to the smallest subnormal
  EXPECT_EQ(BitsOf(Exp(std::nextafter(kExpMin, -kInfinity))), 0u);
}

TEST(Elementary, LogIsWithinOneUlp) {
  double worst = 0;
  for (std::uint32_t bits = 1; bits < 0x7f800000u; bits += 2053) {
    const float x = FloatOf(bits);
    worst = std::max(worst, UlpError(Log(x), std::log(static_cast<double>(x))));
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_EQ(BitsOf(Log(1.0f)), 0u);
  EXPECT_EQ(Log(0.0f), -kInfinity);
  EXPECT_EQ(Log(-0.0f), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_EQ(BitsOf(Log(-1.0f)), 0x7fc00000u);
  EXPECT_EQ(BitsOf(Log(FloatOf(0x7fa00000u))), 0x7fc00000u);
}

// Golden bits: a change of any polynomial, constant or order shows here.
TEST(Elementary, GoldenDigest) {
  Sha256 hash;
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 65537) {
    const float x = FloatOf(static_cast<std::uint32_t>(bits));
    hash.UpdateU64(BitsOf(Exp(x))).UpdateU64(BitsOf(Log(x))).UpdateU64(BitsOf(Sigmoid(x))).UpdateU64(BitsOf(SiluMul(x, 0.75f)));
  }
  EXPECT_EQ(HexString(hash.Finish()), "30517b950b29d3b2c075523868a48181c3494ed719c08e8ad9f2e36ec6f35575");
}

TEST(Elementary, SigmoidAndSilu) {
  EXPECT_EQ(Sigmoid(0.0f), 0.5f);
  EXPECT_EQ(Sigmoid(-1000.0f), 0.0f);
  EXPECT_EQ(Sigmoid(1000.0f), 1.0f);
  EXPECT_EQ(SiluMul(0.0f, 5.0f), 0.0f);
  EXPECT_NEAR(SiluMul(1.5f, 2.0f), 2 * 1.5 / (1 + std::exp(-1.5)), 1e-6);
}

}  // namespace
}  // namespace isobit::contract
