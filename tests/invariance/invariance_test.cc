// The whole matrix on tiny llama checkpoints: presets, KV types, instruction sets, threads, block sizes and prefill chunks. Each preset
// and KV type has one digest, pinned here; the law backend gives it, and so does every other setting.
#include <gtest/gtest.h>

#include <map>

#include "backend_cpu/cpu_backend.h"
#include "tiny_model.h"

namespace isobit {
namespace {

using contract::Contract;
using contract::KvType;
using contract::Preset;

constexpr Preset kPresets[] = {Preset::kPortable, Preset::kTensorCore, Preset::kTensorCoreInt8};
constexpr KvType kKvTypes[] = {KvType::kBf16, KvType::kF32, KvType::kF16, KvType::kInt8};

// Golden bits: a uniform change of order passes every comparison of one setting with another, and only these see it.
// `./dev golden` prints the present values. A change here goes with a change of the contract id, in one commit.
const std::map<std::string, std::string>& GoldenDigests() {
  static const std::map<std::string, std::string> digests = {
#include "golden_digests.inc"
  };
  return digests;
}

std::string Key(const std::string& checkpoint, const Contract& contract) {
  return checkpoint + " " + Name(contract.preset) + " " + Name(contract.kv_type);
}

TEST(Golden, DigestsOfTinyCheckpoints) {
  for (const std::string checkpoint : {"llama", "llama3-rope"}) {
    for (const Preset preset : kPresets) {
      for (const KvType kv_type : kKvTypes) {
        const Setting setting{.contract = {preset, kv_type}};
        TinyModel tiny = LoadTiny(GoldenFolder(checkpoint), setting);
        const std::string digest = LogitsDigest(*tiny.model, MakePrompts(16, 300, tiny.model->vocab_size()), 512);
        const std::string key = Key(checkpoint, setting.contract);
        std::printf("    {\"%s\", \"%s\"},\n", key.c_str(), digest.c_str());
        const auto golden = GoldenDigests().find(key);
        EXPECT_EQ(digest, golden == GoldenDigests().end() ? "(none)" : golden->second) << key << ", contract " << setting.contract.Id();
      }
    }
  }
}

// The slow definition of everything, end to end.
TEST(Invariance, LawBackendGivesTheGoldenBits) {
  for (const Preset preset : kPresets) {
    for (const KvType kv_type : kKvTypes) {
      const Setting setting{.contract = {preset, kv_type}, .isa = "law"};
      TinyModel law = LoadTiny(GoldenFolder("llama"), setting);
      TinyModel cpu = LoadTiny(GoldenFolder("llama"), {.contract = {preset, kv_type}});
      const auto prompts = MakePrompts(8, 140, law.model->vocab_size());
      EXPECT_EQ(LogitsDigest(*law.model, prompts, 512), LogitsDigest(*cpu.model, prompts, 512)) << setting.ToString();
    }
  }
}

TEST(Invariance, EveryIsaThreadCountBlockSizeAndChunk) {
  int settings = 0;
  for (const Preset preset : kPresets) {
    const Contract contract{preset, KvType::kBf16};
    std::string expected;
    for (const std::string& isa : AvailableIsas()) {
      for (const int threads : {1, 2, 3}) {
        for (const std::int64_t block_size : {8, 16, 32, 64, 128, 256}) {
          Setting setting{.contract = contract, .isa = isa, .threads = threads, .block_size = block_size};
          TinyModel tiny = LoadTiny(GoldenFolder("llama"), setting);
          auto prompts = MakePrompts(9, 140, tiny.model->vocab_size());
          prompts = {prompts[3], prompts[4], prompts[7]};  // 16, 17 and 129 ids
          for (const std::int64_t chunk : {1, 7, 64, 512}) {
            setting.chunk = chunk;
            const std::string digest = LogitsDigest(*tiny.model, prompts, chunk);
            if (expected.empty()) expected = digest;
            EXPECT_EQ(digest, expected) << setting.ToString();
            ++settings;
          }
        }
      }
    }
  }
  EXPECT_GE(settings, 3 * 3 * 6 * 4);  // presets, threads, block sizes, chunks, and as many instruction sets as there are
}

// A peer flips 10 first tokens of 144 here.
TEST(Invariance, Chunks1And7And64And512Over144Prompts) {
  for (const Preset preset : {Preset::kPortable, Preset::kTensorCore}) {
    TinyModel tiny = LoadTiny(GoldenFolder("llama"), {.contract = {preset, KvType::kBf16}, .threads = 2});
    const auto prompts = MakePrompts(144, 300, tiny.model->vocab_size());
    const std::string expected = LogitsDigest(*tiny.model, prompts, 512);
    for (const std::int64_t chunk : {1, 7, 64}) EXPECT_EQ(LogitsDigest(*tiny.model, prompts, chunk), expected) << "chunk " << chunk;
  }
}

// The comparison can fail: another contract, another prompt and another weight are other bits.
TEST(Invariance, DigestsSeeDifferences) {
  TinyModel a = LoadTiny(GoldenFolder("llama"), {.contract = {Preset::kPortable, KvType::kBf16}});
  TinyModel b = LoadTiny(GoldenFolder("llama"), {.contract = {Preset::kPortable, KvType::kF32}});
  auto prompts = MakePrompts(2, 20, a.model->vocab_size());
  const std::string digest = LogitsDigest(*a.model, prompts, 512);
  EXPECT_NE(LogitsDigest(*b.model, prompts, 512), digest);
  prompts[1][0] ^= 1;
  EXPECT_NE(LogitsDigest(*a.model, prompts, 512), digest);
}

}  // namespace
}  // namespace isobit
