// Every axis once on SmolLM2-135M-Instruct Q4_1. ISOBIT_SMOLLM2 names the file; ./dev test sets it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend_cpu/cpu_backend.h"
#include "tiny_model.h"

namespace isobit {
namespace {

using contract::KvType;
using contract::Preset;

std::string Path() {
  const char* path = std::getenv("ISOBIT_SMOLLM2");
  EXPECT_NE(path, nullptr) << "set ISOBIT_SMOLLM2 to the model's path: ISOBIT_SMOLLM2=$(./dev model smollm2)";
  return path == nullptr ? "" : path;
}

std::string Digest(const Setting& setting, std::size_t max_length) {
  TinyModel model = LoadTiny(Path(), setting);
  auto prompts = MakePrompts(6, max_length, model.model->vocab_size());
  prompts.erase(prompts.begin(), prompts.begin() + 4);  // 17 and max_length ids
  return LogitsDigest(*model.model, prompts, setting.chunk);
}

// Pinned: a change goes with a change of the contract id.
TEST(SmolLm2, GoldenDigestAndEveryAxisOnce) {
  if (Path().empty()) return;
  const auto prompts_of = [](Preset preset) { return Setting{.contract = {preset, KvType::kBf16}, .threads = 2, .max_model_len = 256}; };
  const std::string portable = Digest(prompts_of(Preset::kPortable), 40);
  EXPECT_EQ(portable, "a587ecc705e9ef5224a5a6d8105c53c41fd95353c47b572d959e6c0f7a5ca1dd");
  EXPECT_EQ(Digest(prompts_of(Preset::kTensorCore), 40), "204b55dae218d303f77946c234b0988819141b3818ad902f2c11114c5f4b4e77");
  EXPECT_EQ(Digest(prompts_of(Preset::kTensorCoreInt8), 40), "38d2fb585d7be947f6b638468489fbd26a9262a2c2cb20d36edb4d5cc3b809b4");

  Setting setting = prompts_of(Preset::kPortable);
  for (const std::int64_t block_size : {8, 256}) {
    setting.block_size = block_size;
    EXPECT_EQ(Digest(setting, 40), portable) << setting.ToString();
  }
  setting = prompts_of(Preset::kPortable);
  for (const std::int64_t chunk : {1, 7, 64}) {
    setting.chunk = chunk;
    EXPECT_EQ(Digest(setting, 40), portable) << setting.ToString();
  }
  setting = prompts_of(Preset::kPortable);
  for (const int threads : {1, 3}) {
    setting.threads = threads;
    EXPECT_EQ(Digest(setting, 40), portable) << setting.ToString();
  }
  setting = prompts_of(Preset::kPortable);
  for (const std::string& isa : AvailableIsas()) {
    setting.isa = isa;
    EXPECT_EQ(Digest(setting, 40), portable) << setting.ToString();
  }
}

}  // namespace
}  // namespace isobit
