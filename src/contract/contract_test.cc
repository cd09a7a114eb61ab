#include "contract/contract.h"

#include <gtest/gtest.h>

#include <set>

#include "contract/sampling.h"

namespace isobit::contract {
namespace {

// A change that alters any bit changes these in the same commit; a change here without one is a mistake.
TEST(Contract, GoldenIds) {
  EXPECT_EQ((Contract{Preset::kPortable, KvType::kBf16}.Id()), "f46ba9cbe3c53dbd144e38218f341c8b3f28e9d9977e8993aeff50f3d5e6c611");
  EXPECT_EQ((Contract{Preset::kTensorCore, KvType::kBf16}.Id()), "a665416220c9c1368b6cca9338ff666218a56089da9fb83f0a3e695cb1af3bcb");
  EXPECT_EQ((Contract{Preset::kTensorCoreInt8, KvType::kBf16}.Id()), "4812dc2ff17c818bfd5b40d5a7f2eeb47efc59cfa8183b477931117b4fe79421");
}

TEST(Contract, EveryPresetAndKvTypeIsAnotherFunction) {
  std::set<std::string> ids;
  for (const Preset preset : {Preset::kPortable, Preset::kTensorCore, Preset::kTensorCoreInt8}) {
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBf16, KvType::kInt8}) {
      const Contract contract{preset, type};
      ids.insert(contract.Id());
      const auto parsed = CheckContract(std::move(ParseJson(DumpJson(contract.ToJson()), "")).value());
      ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
      EXPECT_EQ(parsed->preset, preset);
      EXPECT_EQ(parsed->kv_type, type);
    }
  }
  EXPECT_EQ(ids.size(), 12u);
}

TEST(Contract, CheckNamesTheFieldThatDiffers) {
  Json json = Contract{}.ToJson();
  json["attention"]["tile"] = 64;
  const auto result = CheckContract(json);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().field, "attention.tile");
  EXPECT_EQ(DiffContracts(json, Contract{}.ToJson()), "attention.tile: 64 | 128\n");
  json = Contract{}.ToJson();
  json["extra"] = 1;
  EXPECT_EQ(CheckContract(json).error().field, "extra");
  EXPECT_EQ(CheckContract(Json::array()).error().field, "contract");
  json = Contract{}.ToJson();
  json["preset"] = "fastest";
  EXPECT_EQ(CheckContract(json).error().field, "--contract");
}

TEST(Contract, Profiles) {
  EXPECT_EQ((Contract{Preset::kPortable}.LinearProfile(DType::kQ4_1)), Profile::kInt8Dot);
  EXPECT_EQ((Contract{Preset::kPortable}.LinearProfile(DType::kBF16)), Profile::kF32Fma);
  EXPECT_EQ((Contract{Preset::kTensorCore}.LinearProfile(DType::kQ4_1)), Profile::kBf16Tc);
  EXPECT_EQ((Contract{Preset::kTensorCoreInt8}.LinearProfile(DType::kBF16)), Profile::kInt8Dot);
  EXPECT_EQ((Contract{Preset::kTensorCoreInt8}.AttentionProfile()), Profile::kBf16Tc);
}

TEST(Contract, ModelContractKeepsFieldsApart) {
  EXPECT_NE(ModelContractId("ab", "c", "", ""), ModelContractId("a", "bc", "", ""));
  EXPECT_EQ(ModelContractId("a", "b", "c", "d").size(), 64u);
}

TEST(Sampling, ArgMaxTakesTheLowestOfEquals) {
  EXPECT_EQ(ArgMax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{-0.0f, 0.0f}), 0);
}

TEST(Sampling, GumbelNoiseHasItsDistributionAndItsKey) {
  double sum = 0, square = 0;
  float largest = -100;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const float g = GumbelNoise(42, 0, 7, i);
    sum += g;
    square += static_cast<double>(g) * g;
    largest = std::max(largest, g);
  }
  const double mean = sum / kDraws, variance = square / kDraws - mean * mean;
  EXPECT_NEAR(mean, 0.57722, 0.01);
  EXPECT_NEAR(variance, 1.64493, 0.03);
  EXPECT_LT(largest, kMaxGumbelNoise);
  const float base = GumbelNoise(42, 0, 7, 3);
  EXPECT_EQ(GumbelNoise(42, 0, 7, 3), base);
  EXPECT_NE(GumbelNoise(43, 0, 7, 3), base);
  EXPECT_NE(GumbelNoise(42, 1, 7, 3), base);
  EXPECT_NE(GumbelNoise(42, 0, 8, 3), base);
  EXPECT_NE(GumbelNoise(42 | 1ull << 40, 0, 7, 3), base);
}

TEST(Sampling, MinBitsBoundEveryDraw) {
  for (std::uint32_t bits = 0; bits < 1u << 23; bits += 37) {
    const float noise = GumbelOfBits(bits);
    ASSERT_LT(noise, kMaxGumbelNoise);
    if (noise < 0) continue;
    ASSERT_GE(bits, MinBitsForNoise(noise)) << bits;
  }
  EXPECT_GT(MinBitsForNoise(10.0f), (1u << 23) - 1000);  // and it does rule draws out
  EXPECT_LT(GumbelOfBits((1u << 23) - 1), kMaxGumbelNoise);
}

TEST(FloatEnvironment, HoldsHere) { AssertFloatEnvironment(); }

TEST(FloatEnvironmentDeathTest, FlushingSubnormalsIsFatal) {
  EXPECT_DEATH(
      {
        __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8000);
        AssertFloatEnvironment();
      },
      "subnormals are flushed");
}

}  // namespace
}  // namespace isobit::contract
