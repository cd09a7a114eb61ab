#include "contract/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/file.h"
#include "contract/float_bits.h"

namespace isobit::contract {
namespace {

std::istringstream Golden(const std::string& name) {
  return std::istringstream(std::move(ReadFile(std::string(ISOBIT_SOURCE_DIR) + "/tests/golden/law/" + name)).value());
}

TEST(Rope, TrigIsCorrectlyRounded) {
  std::istringstream file = Golden("trig.txt");
  std::uint32_t x = 0, cos = 0, sin = 0;
  int count = 0;
  while (file >> std::hex >> x >> cos >> sin) {
    EXPECT_EQ(BitsOf(CosCorrectlyRounded(FloatOf(x))), cos) << FloatOf(x);
    EXPECT_EQ(BitsOf(SinCorrectlyRounded(FloatOf(x))), sin) << FloatOf(x);
    ++count;
  }
  EXPECT_GT(count, 3000);
}

TEST(Rope, FrequenciesAreCorrectlyRounded) {
  std::istringstream file = Golden("frequencies.txt");
  std::string line;
  int count = 0;
  while (std::getline(file, line)) {
    double theta = 0;
    long head_dim = 0, index = 0;
    unsigned bits = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lf %ld %ld %x", &theta, &head_dim, &index, &bits), 4);
    const auto frequencies = RopeInverseFrequencies({.theta = theta, .head_dim = head_dim});
    ASSERT_EQ(static_cast<long>(frequencies.size()), head_dim / 2);
    EXPECT_EQ(BitsOf(frequencies[index]), bits) << line;
    ++count;
  }
  EXPECT_EQ(count, 5 * (16 + 64 + 96 + 128 + 256) / 2);
}

TEST(Rope, Llama3Scaling) {
  const RopeSpec plain{.theta = 500000.0, .head_dim = 32};
  RopeSpec scaled = plain;
  scaled.llama3 = true;
  scaled.factor = 8.0;
  scaled.low_freq_factor = 1.0;
  scaled.high_freq_factor = 4.0;
  scaled.original_max_positions = 64;
  const auto before = RopeInverseFrequencies(plain), after = RopeInverseFrequencies(scaled);
  // Wavelengths under 16 are kept, over 64 are stretched by 8, between are blended.
  int kept = 0, stretched = 0, blended = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double wavelength = 2 * M_PI / before[i];
    if (wavelength < 16) {
      EXPECT_EQ(after[i], before[i]);
      ++kept;
    } else if (wavelength > 64) {
      EXPECT_EQ(after[i], before[i] / 8.0f);
      ++stretched;
    } else {
      EXPECT_LT(after[i], before[i]);
      EXPECT_GT(after[i], before[i] / 8.0f);
      ++blended;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(blended, 0);
}

TEST(Rope, DivisorsDivide) {
  const auto plain = RopeInverseFrequencies({.theta = 10000.0, .head_dim = 4});
  const auto divided = RopeInverseFrequencies({.theta = 10000.0, .head_dim = 4, .frequency_divisors = {2.0f, 8.0f}});
  EXPECT_EQ(divided[0], plain[0] / 2.0f);
  EXPECT_EQ(divided[1], plain[1] / 8.0f);
}

TEST(Rope, TableAndRotation) {
  const RopeTable table = MakeRopeTable({.theta = 10000.0, .head_dim = 4}, 3);
  ASSERT_EQ(table.cos.size(), 6u);
  EXPECT_EQ(table.cos[0], 1.0f);
  EXPECT_EQ(table.sin[0], 0.0f);
  EXPECT_EQ(table.cos[2 * 2], CosCorrectlyRounded(2.0f));
  EXPECT_EQ(table.sin[2 * 2 + 1], SinCorrectlyRounded(2.0f * 0.01f));
  float head[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  const float cos[2] = {0.6f, 1.0f}, sin[2] = {0.8f, 0.0f};
  RotateHead(head, cos, sin);
  EXPECT_EQ(head[0], std::fma(1.0f, 0.6f, -(3.0f * 0.8f)));  // pairs are half a head apart
  EXPECT_EQ(head[2], std::fma(3.0f, 0.6f, 1.0f * 0.8f));
  EXPECT_EQ(head[1], 2.0f);
  EXPECT_EQ(head[3], 4.0f);
}

}  // namespace
}  // namespace isobit::contract
