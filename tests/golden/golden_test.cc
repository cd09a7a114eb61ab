// Tiny llama checkpoints against transformers' float32 logits at every position of three prompts, and greedy continuations wherever the
// reference's own two best tokens are further apart than the tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/law_backend.h"
#include "backend_cpu/cpu_backend.h"
#include "base/file.h"
#include "model/score.h"
#include "model/transformer.h"
#include "weights/safetensors_reader.h"

namespace isobit {
namespace {

using contract::Contract;
using contract::KvType;
using contract::Preset;

struct Prompt {
  std::vector<std::int32_t> ids, greedy;
  std::vector<float> logits;  // [ids, vocab]
};

template <class T>
std::vector<T> Copy(const TensorView& view) {
  std::vector<T> values(view.data.size() / sizeof(T));
  std::memcpy(values.data(), view.data.data(), view.data.size());
  return values;
}

std::string Folder(const std::string& name) { return std::string(ISOBIT_SOURCE_DIR) + "/tests/golden/" + name; }

std::vector<Prompt> LoadReference(const std::string& name) {
  const SafetensorsFile file =
      std::move(ReadSafetensors(std::move(MappedFile::Open(Folder(name) + "/reference.safetensors")).value())).value();
  std::vector<Prompt> prompts(3);
  for (const TensorView& tensor : file.tensors) {
    Prompt& prompt = prompts.at(tensor.name[1] - '0');
    const std::string what = tensor.name.substr(3);
    if (what == "ids") prompt.ids = Copy<std::int32_t>(tensor);
    if (what == "logits") prompt.logits = Copy<float>(tensor);
    if (what == "greedy24") prompt.greedy = Copy<std::int32_t>(tensor);
  }
  return prompts;
}

struct Loaded {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> model;
};

Loaded Load(const std::string& name, std::unique_ptr<Backend> backend) {
  Loaded loaded{std::move(Checkpoint::Open(Folder(name))).value(), std::move(backend), nullptr};
  loaded.model = std::move(Transformer::Load(*loaded.checkpoint, *loaded.backend,
                                             {.max_batch_tokens = 64, .max_logit_rows = 16, .max_model_len = 192, .num_blocks = 12}))
                     .value();
  return loaded;
}

// Largest difference of logits over the reference's own size (root mean square of its logits), the norm-derived scale.
struct Difference {
  double worst = 0;
  std::int64_t argmax_compared = 0, argmax_different = 0, argmax_skipped = 0;
};

Difference Compare(LanguageModel& model, const Prompt& prompt, double tolerance) {
  const std::int64_t vocab = model.vocab_size();
  double square = 0;
  for (const float value : prompt.logits) square += static_cast<double>(value) * value;
  const double scale = std::sqrt(square / static_cast<double>(prompt.logits.size()));
  Difference difference;
  VisitLogits(model, prompt.ids, 0, [&](std::int64_t position, std::span<const float> logits) {
    const std::span<const float> reference = std::span(prompt.logits).subspan(position * vocab, vocab);
    for (std::int64_t i = 0; i < vocab; ++i) {
      difference.worst = std::max(difference.worst, std::fabs(static_cast<double>(logits[i]) - reference[i]) / scale);
    }
    std::vector<float> sorted(reference.begin(), reference.end());
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
    const double gap = (*std::max_element(reference.begin(), reference.end()) - sorted[1]) / scale;
    if (gap <= 2 * tolerance) {
      ++difference.argmax_skipped;
      return;
    }
    const auto ours = std::max_element(logits.begin(), logits.end()) - logits.begin();
    const auto theirs = std::max_element(reference.begin(), reference.end()) - reference.begin();
    ++difference.argmax_compared;
    difference.argmax_different += ours != theirs;
  });
  return difference;
}

// Returns at how many positions the argmax was compared.
std::int64_t ExpectClose(const std::string& name, std::unique_ptr<Backend> backend, double tolerance) {
  std::int64_t compared = 0;
  Loaded loaded = Load(name, std::move(backend));
  for (const Prompt& prompt : LoadReference(name)) {
    EXPECT_FALSE(prompt.logits.empty());
    const Difference difference = Compare(*loaded.model, prompt, tolerance);
    EXPECT_LE(difference.worst, tolerance) << name << ", " << prompt.ids.size() << " ids";
    EXPECT_GT(difference.worst, 0) << "compared with itself?";
    EXPECT_EQ(difference.argmax_different, 0);
    compared += difference.argmax_compared;
    std::printf("%s, %zu ids: worst difference %.3g of the logits' size (allowed %.3g), argmax equal at %ld, too close to call at %ld\n",
                name.c_str(), prompt.ids.size(), difference.worst, tolerance, static_cast<long>(difference.argmax_compared),
                static_cast<long>(difference.argmax_skipped));
  }
  return compared;
}

// Greedy continuation, as far as no step of it is closer than the tolerance.
void ExpectGreedy(const std::string& name, std::unique_ptr<Backend> backend, double tolerance) {
  Loaded loaded = Load(name, std::move(backend));
  for (const Prompt& prompt : LoadReference(name)) {
    std::vector<std::int32_t> ids = prompt.ids;
    ids.insert(ids.end(), prompt.greedy.begin(), prompt.greedy.end() - 1);
    std::size_t compared = 0;
    bool open = true;
    VisitLogits(*loaded.model, ids, 0, [&](std::int64_t position, std::span<const float> logits) {
      const std::int64_t step = position - static_cast<std::int64_t>(prompt.ids.size()) + 1;
      if (step < 0 || !open) return;
      std::vector<float> sorted(logits.begin(), logits.end());
      std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
      const auto best = std::max_element(logits.begin(), logits.end());
      if (*best - sorted[1] <= tolerance) {
        open = false;
        return;
      }
      EXPECT_EQ(best - logits.begin(), prompt.greedy[step]) << name << " step " << step;
      ++compared;
    });
    EXPECT_GT(compared, 4u) << name;
  }
}

constexpr const char* kCheckpoints[] = {"llama", "llama3-rope"};

std::unique_ptr<Backend> Cpu(Preset preset, KvType kv_type) { return std::move(MakeCpuBackend({preset, kv_type}, {.num_threads = 1})).value(); }

// f32 operands and f32 KV differ from the reference only in the order of sums.
TEST(WorldGolden, F32) {
  for (const char* name : kCheckpoints) {
    EXPECT_EQ(ExpectClose(name, MakeLawBackend({Preset::kPortable, KvType::kF32}), 8e-6), 7 + 40 + 130);
    EXPECT_EQ(ExpectClose(name, Cpu(Preset::kPortable, KvType::kF32), 8e-6), 7 + 40 + 130);
    ExpectGreedy(name, Cpu(Preset::kPortable, KvType::kF32), 2e-4);
  }
}

// The others round operands or KV on purpose: half a unit of 8 bits (bf16, int8) or 11 bits (f16) at every layer.
TEST(WorldGolden, RoundedKv) {
  for (const char* name : kCheckpoints) {
    EXPECT_GT(ExpectClose(name, Cpu(Preset::kPortable, KvType::kF16), 4e-3), 0);
    EXPECT_GT(ExpectClose(name, Cpu(Preset::kPortable, KvType::kBf16), 0.025), 0);
    EXPECT_GT(ExpectClose(name, Cpu(Preset::kPortable, KvType::kInt8), 0.08), 0);
  }
}

TEST(WorldGolden, RoundedOperands) {
  for (const char* name : kCheckpoints) {
    EXPECT_GT(ExpectClose(name, Cpu(Preset::kTensorCore, KvType::kBf16), 0.06), 0);
    EXPECT_GT(ExpectClose(name, Cpu(Preset::kTensorCoreInt8, KvType::kBf16), 0.3), 0);
  }
}

}  // namespace
}  // namespace isobit
