#include "tiny_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/law_backend.h"
#include "backend_cpu/cpu_backend.h"
#include "base/random.h"
#include "base/sha256.h"
#include "model/score.h"

namespace isobit {

std::string Setting::ToString() const {
  return fmt::format("{} kv {} isa {} threads {} block {} chunk {}", Name(contract.preset), Name(contract.kv_type),
                     isa.empty() ? "best" : isa, threads, block_size, chunk);
}

std::string GoldenFolder(const std::string& name) { return std::string(ISOBIT_SOURCE_DIR) + "/tests/golden/" + name; }

TinyModel LoadTiny(const std::string& path, const Setting& setting) {
  TinyModel tiny;
  tiny.checkpoint = std::move(Checkpoint::Open(path)).value();
  tiny.backend = setting.isa == "law"
                     ? MakeLawBackend(setting.contract)
                     : std::move(MakeCpuBackend(setting.contract, {.num_threads = setting.threads, .isa = setting.isa})).value();
  const std::int64_t blocks =
      setting.num_blocks != 0 ? setting.num_blocks : (setting.max_model_len + setting.block_size - 1) / setting.block_size;
  tiny.model = std::move(Transformer::Load(*tiny.checkpoint, *tiny.backend,
                                           {.max_batch_tokens = std::max<std::int64_t>(setting.chunk, 64),
                                            .max_logit_rows = 16,
                                            .max_model_len = setting.max_model_len,
                                            .num_blocks = blocks,
                                            .block_size = setting.block_size}))
                   .value();
  return tiny;
}

std::vector<std::vector<std::int32_t>> MakePrompts(std::size_t count, std::size_t max_length, std::int64_t vocab_size) {
  constexpr std::size_t kEdges[] = {1, 2, 15, 16, 17, 127, 128, 129, 130, 255, 256, 257};
  std::vector<std::vector<std::int32_t>> prompts(count);
  for (std::size_t p = 0; p < count; ++p) {
    const std::uint32_t draw = Philox4x32({static_cast<std::uint32_t>(p), 0, 0, 0}, {11, 0})[0];
    std::size_t length = p < std::size(kEdges) ? kEdges[p] : 1 + draw % max_length;
    length = std::min(length, max_length);
    for (std::size_t i = 0; i < length; ++i) {
      const std::uint32_t word = Philox4x32({static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(i), 1, 0}, {11, 0})[0];
      prompts[p].push_back(static_cast<std::int32_t>(word % static_cast<std::uint32_t>(vocab_size)));
    }
  }
  return prompts;
}

std::string LogitsDigest(LanguageModel& model, const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t chunk) {
  Sha256 hash;
  for (const auto& prompt : prompts) {
    VisitLogits(model, prompt, chunk, [&](std::int64_t, std::span<const float> logits) { hash.Update(std::as_bytes(logits)); });
  }
  return HexString(hash.Finish());
}

}  // namespace isobit
