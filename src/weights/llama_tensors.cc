#include "weights/llama_tensors.h"

#include <cstring>

#include "weights/owned_bytes.h"

namespace isobit {
namespace {

// Row r of the result is row source(r in head) of the same head.
template <class SourceRow>
TensorView MoveRows(const TensorView& tensor, std::int64_t num_heads, SourceRow source_row) {
  ISOBIT_CHECK(
      tensor.shape.size() == 2 && num_heads > 0 && tensor.num_rows() % (2 * num_heads) == 0,
      "{} {} in {} heads", tensor.name, ToString(tensor.shape), num_heads);
  const std::int64_t head_rows = tensor.num_rows() / num_heads;
  const auto row_bytes = static_cast<std::size_t>(RowBytes(tensor.dtype, tensor.num_columns()));
  const auto copy = AllocateOwnedBytes(tensor.data.size());
  for (std::int64_t head = 0; head < num_heads; ++head) {
    for (std::int64_t row = 0; row < head_rows; ++row) {
      const std::int64_t from = head * head_rows + source_row(row, head_rows);
      std::memcpy(copy.get() + (head * head_rows + row) * row_bytes,
                  tensor.data.data() + from * row_bytes, row_bytes);
    }
  }
  TensorView moved = tensor;
  moved.data = {copy.get(), tensor.data.size()};
  moved.keep_alive = copy;
  return moved;
}

}  // namespace

std::vector<ExpectedTensor> LlamaTensors(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size, intermediate = config.intermediate_size,
                     vocab = config.vocab_size;
  const std::int64_t query = config.num_heads * config.head_dim,
                     kv = config.num_kv_heads * config.head_dim;
  std::vector<ExpectedTensor> all = {
      {"model.embed_tokens.weight", "token_embd.weight", TensorKind::kMatrix, {vocab, hidden}},
      {"model.norm.weight", "output_norm.weight", TensorKind::kNorm, {hidden}},
  };
  if (!config.tied_head)
    all.push_back({"lm_head.weight", "output.weight", TensorKind::kMatrix, {vocab, hidden}});

  const std::vector<ExpectedTensor> layer = {
      {"input_layernorm", "attn_norm", TensorKind::kNorm, {hidden}},
      {"self_attn.q_proj", "attn_q", TensorKind::kMatrix, {query, hidden}, config.num_heads},
      {"self_attn.k_proj", "attn_k", TensorKind::kMatrix, {kv, hidden}, config.num_kv_heads},
      {"self_attn.v_proj", "attn_v", TensorKind::kMatrix, {kv, hidden}},
      {"self_attn.o_proj", "attn_output", TensorKind::kMatrix, {hidden, query}},
      {"post_attention_layernorm", "ffn_norm", TensorKind::kNorm, {hidden}},
      {"mlp.gate_proj", "ffn_gate", TensorKind::kMatrix, {intermediate, hidden}},
      {"mlp.up_proj", "ffn_up", TensorKind::kMatrix, {intermediate, hidden}},
      {"mlp.down_proj", "ffn_down", TensorKind::kMatrix, {hidden, intermediate}},
  };
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    for (const ExpectedTensor& tensor : layer) {
      all.push_back(tensor);
      all.back().name = fmt::format("model.layers.{}.{}.weight", i, tensor.name);
      all.back().gguf_name = fmt::format("blk.{}.{}.weight", i, tensor.gguf_name);
    }
  }
  return all;
}

Status CheckTensor(const TensorView& tensor, const ExpectedTensor& expected) {
  if (tensor.shape != expected.shape) {
    return Fail(ErrorCode::kCorrupt, tensor.name, "has shape {}, the configuration demands {}",
                ToString(tensor.shape), ToString(expected.shape));
  }
  const bool is_float =
      tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
  if (is_float || (expected.kind == TensorKind::kMatrix && IsQuantized(tensor.dtype))) return {};
  return Fail(ErrorCode::kUnsupported, tensor.name, "has dtype {}; {} expected", Name(tensor.dtype),
              expected.kind == TensorKind::kNorm ? "f32, f16 or bf16" : "a float or block type");
}

TensorView UnpermuteRows(const TensorView& tensor, std::int64_t num_heads) {
  return MoveRows(tensor, num_heads, [](std::int64_t row, std::int64_t head_rows) {
    const std::int64_t half = head_rows / 2;
    return row < half ? 2 * row : 2 * (row - half) + 1;
  });
}

TensorView PermuteRows(const TensorView& tensor, std::int64_t num_heads) {
  return MoveRows(tensor, num_heads, [](std::int64_t row, std::int64_t head_rows) {
    return row / 2 + row % 2 * (head_rows / 2);
  });
}

}  // namespace isobit
