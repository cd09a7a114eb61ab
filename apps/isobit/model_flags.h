// The flags that every command with a model shares. docs/operating.md says of each whether it is speed only or changes the contract id.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "contract/contract.h"

namespace isobit {

struct ModelFlags {
  std::string model;
  std::string preset = "portable";
  std::string kv_type = "bf16";
  std::string device = "cpu";
  int threads = 0;
  std::int64_t max_model_len = 0;
  std::int64_t max_seqs = 16;
  std::int64_t kv_tokens = 0;  // 0: max_seqs times max_model_len, at most 32768
  std::int64_t block_size = 16;
  std::int64_t max_batch_tokens = 512;
  std::int64_t prefill_chunk = 512;
  std::int64_t max_queue = 1024;
  bool prefix_cache = true;
  std::string trace;

  void AddTo(CLI::App& app);         // all
  void AddNumericTo(CLI::App& app);  // those without an engine: model, contract, kv type, device, threads, block size, chunk
  Result<contract::Contract> Contract() const;
};

}  // namespace isobit
