// A checkpoint loaded on a chosen backend, and the digest of everything it computes: what every invariance test compares.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/transformer.h"
#include "weights/checkpoint.h"

namespace isobit {

struct Setting {
  contract::Contract contract;
  std::string isa;  // "": the best; "law": the law backend
  int threads = 1;
  std::int64_t block_size = 16;
  std::int64_t chunk = 512;
  std::int64_t num_blocks = 0;  // 0: enough for one sequence of max_model_len
  std::int64_t max_model_len = 512;

  std::string ToString() const;
};

struct TinyModel {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> model;
};

std::string GoldenFolder(const std::string& name);
TinyModel LoadTiny(const std::string& path, const Setting& setting);

// Seeded prompts with lengths from 1 to max_length, edges of tiles and blocks among them.
std::vector<std::vector<std::int32_t>> MakePrompts(std::size_t count, std::size_t max_length, std::int64_t vocab_size);

// SHA-256 over the bits of every logit of every position of every prompt, in order.
std::string LogitsDigest(LanguageModel& model, const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t chunk);

}  // namespace isobit
