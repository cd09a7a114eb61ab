#include "isobit/model_flags.h"

namespace isobit {

void ModelFlags::AddNumericTo(CLI::App& app) {
  app.add_option("--model", model, "A .gguf file, or a folder with config.json and one .safetensors file")->required();
  app.add_option("--contract", preset, "Numeric contract: portable, tensor-core or tensor-core-int8 (changes the contract id)")
      ->capture_default_str();
  app.add_option("--kv-type", kv_type, "KV cache type: bf16, f32, f16 or int8 (changes the contract id)")->capture_default_str();
  app.add_option("--device", device, "cpu, or law: the slow scalar definition (speed only)")->capture_default_str();
  app.add_option("--threads", threads, "Threads of the CPU backend; 0: one per core (speed only)")->capture_default_str();
  app.add_option("--max-model-len", max_model_len, "Longest sequence in tokens; 0: the model's own maximum")->capture_default_str();
  app.add_option("--block-size", block_size, "Positions of a KV block: 8 to 256, a power of two (speed only)")->capture_default_str();
  app.add_option("--prefill-chunk", prefill_chunk, "Most prompt tokens of one sequence in one step (speed only)")
      ->capture_default_str();
}

void ModelFlags::AddTo(CLI::App& app) {
  AddNumericTo(app);
  app.add_option("--max-seqs", max_seqs, "Sequences that run at once (speed only)")->capture_default_str();
  app.add_option("--kv-tokens", kv_tokens, "Tokens the KV cache holds; 0: max-seqs times max-model-len, at most 32768 (speed only)")
      ->capture_default_str();
  app.add_option("--max-batch-tokens", max_batch_tokens, "Most tokens of one step (speed only)")->capture_default_str();
  app.add_option("--max-queue", max_queue, "Waiting requests before new ones get 429")->capture_default_str();
  app.add_flag("--prefix-cache,!--no-prefix-cache", prefix_cache, "Reuse KV of equal prefixes (speed only; on)");
  app.add_option("--trace", trace, "Write every step as a JSON line to this file");
}

Result<contract::Contract> ModelFlags::Contract() const {
  ISOBIT_ASSIGN(const contract::Preset parsed_preset, contract::ParsePreset(preset));
  ISOBIT_ASSIGN(const contract::KvType parsed_kv_type, contract::ParseKvType(kv_type));
  return contract::Contract{parsed_preset, parsed_kv_type};
}

}  // namespace isobit
