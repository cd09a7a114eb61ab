#include "model/transformer.h"

#include <array>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "contract/rope.h"

namespace isobit {
namespace {

contract::RopeSpec MakeRopeSpec(const ModelConfig& config) {
  return {.theta = config.rope.theta,
          .head_dim = config.head_dim,
          .llama3 = config.rope.scaling == RopeScaling::kLlama3,
          .factor = config.rope.factor,
          .low_freq_factor = config.rope.low_freq_factor,
          .high_freq_factor = config.rope.high_freq_factor,
          .original_max_positions = config.rope.original_max_positions,
          .frequency_divisors = config.rope.frequency_divisors};
}

Result<ModelLimits> CheckLimits(ModelLimits limits, const ModelConfig& config) {
  const auto refuse = [](const char* flag, std::string message) {
    return Error{ErrorCode::kInvalidArgument, flag, std::move(message)};
  };
  if (limits.max_model_len == 0) limits.max_model_len = config.max_positions;
  if (limits.max_model_len < 1 || limits.max_model_len > config.max_positions) {
    return refuse("--max-model-len", fmt::format("must be from 1 to the model's own maximum, {}", config.max_positions));
  }
  if (limits.block_size < 8 || limits.block_size > 256 || !std::has_single_bit(static_cast<std::uint64_t>(limits.block_size))) {
    return refuse("--block-size", "must be 8, 16, 32, 64, 128 or 256");
  }
  if (limits.num_blocks < 1) return refuse("--kv-tokens", "must hold at least one KV block");
  if (limits.max_batch_tokens < 1) return refuse("--max-batch-tokens", "must be at least 1");
  if (limits.max_logit_rows < 1) return refuse("--max-seqs", "must be at least 1");
  return limits;
}

}  // namespace

Result<std::unique_ptr<Transformer>> Transformer::Load(const Checkpoint& checkpoint, Backend& backend, const ModelLimits& limits) {
  const ModelConfig& config = checkpoint.config();
  if (config.family != "llama") {
    return Fail(ErrorCode::kUnsupported, checkpoint.path(), "model family \"{}\" is not supported; supported: llama", config.family);
  }
  ISOBIT_ASSIGN(const ModelLimits checked, CheckLimits(limits, config));
  std::unique_ptr<Transformer> model(new Transformer(config, backend, checked));
  ISOBIT_TRY(backend.SetRopeTable(contract::MakeRopeTable(MakeRopeSpec(config), checked.max_model_len)));
  ISOBIT_TRY(model->LoadWeights(checkpoint));
  ISOBIT_TRY(model->TakeMemory());
  return model;
}

Status Transformer::LoadWeights(const Checkpoint& checkpoint) {
  using contract::Topology;
  const auto linear = [&](const std::string& name, Topology topology) {
    return backend_.LoadLinear(checkpoint.tensor(name), nullptr, topology);
  };
  ISOBIT_ASSIGN(embedding_, backend_.LoadEmbedding(checkpoint.tensor("model.embed_tokens.weight")));
  ISOBIT_ASSIGN(head_, linear(config_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight", Topology::kFold));
  ISOBIT_ASSIGN(final_norm_, backend_.LoadVector(checkpoint.tensor("model.norm.weight")));
  for (std::int64_t i = 0; i < config_.num_layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    Layer layer;
    ISOBIT_ASSIGN(layer.attention_norm, backend_.LoadVector(checkpoint.tensor(prefix + "input_layernorm.weight")));
    ISOBIT_ASSIGN(layer.mlp_norm, backend_.LoadVector(checkpoint.tensor(prefix + "post_attention_layernorm.weight")));
    ISOBIT_ASSIGN(layer.q, linear(prefix + "self_attn.q_proj.weight", Topology::kFold));
    ISOBIT_ASSIGN(layer.k, linear(prefix + "self_attn.k_proj.weight", Topology::kFold));
    ISOBIT_ASSIGN(layer.v, linear(prefix + "self_attn.v_proj.weight", Topology::kFold));
    ISOBIT_ASSIGN(layer.o, linear(prefix + "self_attn.o_proj.weight", Topology::kTree));
    ISOBIT_ASSIGN(layer.gate, linear(prefix + "mlp.gate_proj.weight", Topology::kFold));
    ISOBIT_ASSIGN(layer.up, linear(prefix + "mlp.up_proj.weight", Topology::kFold));
    ISOBIT_ASSIGN(layer.down, linear(prefix + "mlp.down_proj.weight", Topology::kTree));
    layers_.push_back(std::move(layer));
  }
  return {};
}

Status Transformer::TakeMemory() {
  const std::int64_t tokens = limits_.max_batch_tokens;
  const std::int64_t query_cols = config_.num_heads * config_.head_dim, kv_cols = config_.num_kv_heads * config_.head_dim;
  const auto take = [&](Matrix& matrix, std::int64_t rows, std::int64_t cols) -> Status {
    ISOBIT_ASSIGN(matrix, backend_.Allocate(rows, cols));
    return {};
  };
  ISOBIT_TRY(take(buffers_.hidden, tokens, config_.hidden_size));
  ISOBIT_TRY(take(buffers_.normed, tokens, config_.hidden_size));
  ISOBIT_TRY(take(buffers_.q, tokens, query_cols));
  ISOBIT_TRY(take(buffers_.attended, tokens, query_cols));
  ISOBIT_TRY(take(buffers_.k, tokens, kv_cols));
  ISOBIT_TRY(take(buffers_.v, tokens, kv_cols));
  ISOBIT_TRY(take(buffers_.gate, tokens, config_.intermediate_size));
  ISOBIT_TRY(take(buffers_.up, tokens, config_.intermediate_size));
  ISOBIT_TRY(take(buffers_.outputs, tokens, config_.hidden_size));
  ISOBIT_TRY(take(buffers_.wanted, limits_.max_logit_rows, config_.hidden_size));
  ISOBIT_TRY(take(buffers_.logits, limits_.max_logit_rows, config_.vocab_size));
  ISOBIT_ASSIGN(cache_, backend_.MakeKvMemory({.num_layers = config_.num_layers,
                                              .num_kv_heads = config_.num_kv_heads,
                                              .head_dim = config_.head_dim,
                                              .num_blocks = limits_.num_blocks,
                                              .block_size = limits_.block_size,
                                              .type = backend_.contract().kv_type}));
  return {};
}

void Transformer::Forward(const BatchInputs& batch) {
  const std::int64_t num_tokens = batch.num_tokens();
  ISOBIT_CHECK(num_tokens > 0 && num_tokens <= limits_.max_batch_tokens, "{} rows", num_tokens);
  const Matrix hidden = buffers_.hidden.first_rows(num_tokens);
  backend_.Embed(*embedding_, batch.token_ids, hidden);
  for (std::int64_t i = 0; i < config_.num_layers; ++i) RunLayer(i, batch);
  num_outputs_ = batch.num_outputs();
  if (num_outputs_ == 0) return;
  const Matrix outputs = buffers_.outputs.first_rows(num_outputs_);
  backend_.GatherRows(hidden, batch.output_rows, outputs);
  backend_.RmsNorm(outputs, final_norm_, config_.norm_eps, outputs);
}

void Transformer::RunLayer(std::int64_t layer_index, const BatchInputs& batch) {
  const Layer& layer = layers_[layer_index];
  const std::int64_t num_tokens = batch.num_tokens();
  const auto rows = [&](const Matrix& matrix) { return matrix.first_rows(num_tokens); };
  const Matrix hidden = rows(buffers_.hidden), normed = rows(buffers_.normed);
  const Matrix q = rows(buffers_.q), k = rows(buffers_.k), v = rows(buffers_.v), attended = rows(buffers_.attended);
  const Matrix gate = rows(buffers_.gate), up = rows(buffers_.up);

  backend_.RmsNorm(hidden, layer.attention_norm, config_.norm_eps, normed);
  backend_.Linear(normed, std::array{LinearOutput{layer.q.get(), q}, LinearOutput{layer.k.get(), k}, LinearOutput{layer.v.get(), v}});
  backend_.Rope(q, config_.head_dim, batch.positions);
  backend_.Rope(k, config_.head_dim, batch.positions);
  backend_.WriteKv(*cache_, layer_index, k, v, batch);
  backend_.Attention(*cache_, layer_index,
                     {.num_heads = config_.num_heads, .num_kv_heads = config_.num_kv_heads, .head_dim = config_.head_dim}, q, batch,
                     attended);
  backend_.Linear(attended, std::array{LinearOutput{layer.o.get(), normed}});
  backend_.Add(hidden, normed);

  backend_.RmsNorm(hidden, layer.mlp_norm, config_.norm_eps, normed);
  backend_.Linear(normed, std::array{LinearOutput{layer.gate.get(), gate}, LinearOutput{layer.up.get(), up}});
  backend_.SiluMul(gate, up, gate);
  backend_.Linear(gate, std::array{LinearOutput{layer.down.get(), normed}});
  backend_.Add(hidden, normed);
}

std::span<const float> Transformer::Logits(std::int64_t first, std::int64_t count) {
  ISOBIT_CHECK(first >= 0 && count > 0 && first + count <= num_outputs_ && count <= limits_.max_logit_rows);
  std::vector<std::int32_t> rows(count);
  std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(first));
  const Matrix wanted = buffers_.wanted.first_rows(count), logits = buffers_.logits.first_rows(count);
  backend_.GatherRows(buffers_.outputs.first_rows(num_outputs_), rows, wanted);
  backend_.Linear(wanted, std::array{LinearOutput{head_.get(), logits}});
  return backend_.Read(logits);
}

}  // namespace isobit
