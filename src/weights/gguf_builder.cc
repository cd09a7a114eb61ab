#include "weights/gguf_builder.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "weights/gguf_config.h"
#include "weights/llama_tensors.h"

namespace isobit {
namespace {

template <class T>
std::string Encode(T value) {
  return ByteWriter().Number(value).Take();
}

std::uint32_t Code(GgufValueType type) { return static_cast<std::uint32_t>(type); }

// What the frequency of rotary pair i is divided by under llama3 scaling: 1 for short wavelengths,
// factor for long ones, between them the reciprocal of a blend.
float Llama3Divisor(const RopeConfig& rope, std::int64_t head_dim, std::int64_t i) {
  const double wavelength =
      2 * std::numbers::pi *
      std::pow(rope.theta, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  const double positions = static_cast<double>(rope.original_max_positions);
  if (wavelength < positions / rope.high_freq_factor) return 1.0f;
  if (wavelength > positions / rope.low_freq_factor) return static_cast<float>(rope.factor);
  const double smooth = (positions / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return static_cast<float>(1.0 / ((1.0 - smooth) / rope.factor + smooth));
}

}  // namespace

GgufBuilder& GgufBuilder::AddU32(std::string_view key, std::uint32_t value) {
  return AddRaw(key, Code(GgufValueType::kU32), Encode(value));
}
GgufBuilder& GgufBuilder::AddI32(std::string_view key, std::int32_t value) {
  return AddRaw(key, Code(GgufValueType::kI32), Encode(value));
}
GgufBuilder& GgufBuilder::AddU64(std::string_view key, std::uint64_t value) {
  return AddRaw(key, Code(GgufValueType::kU64), Encode(value));
}
GgufBuilder& GgufBuilder::AddF32(std::string_view key, float value) {
  return AddRaw(key, Code(GgufValueType::kF32), Encode(value));
}
GgufBuilder& GgufBuilder::AddBool(std::string_view key, bool value) {
  return AddRaw(key, Code(GgufValueType::kBool), Encode(static_cast<std::uint8_t>(value)));
}
GgufBuilder& GgufBuilder::AddString(std::string_view key, std::string_view value) {
  return AddRaw(key, Code(GgufValueType::kString), ByteWriter().String(value).Take());
}
GgufBuilder& GgufBuilder::AddStrings(std::string_view key, const std::vector<std::string>& values) {
  ByteWriter bytes;
  bytes.Type(GgufValueType::kString).Number(static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) bytes.String(value);
  return AddRaw(key, Code(GgufValueType::kArray), bytes.Take());
}
GgufBuilder& GgufBuilder::AddI32s(std::string_view key, const std::vector<std::int32_t>& values) {
  ByteWriter bytes;
  bytes.Type(GgufValueType::kI32).Number(static_cast<std::uint64_t>(values.size()));
  for (const std::int32_t value : values) bytes.Number(value);
  return AddRaw(key, Code(GgufValueType::kArray), bytes.Take());
}
GgufBuilder& GgufBuilder::AddRaw(std::string_view key, std::uint32_t type, std::string value) {
  pairs.push_back({std::string(key), type, std::move(value)});
  return *this;
}

GgufBuilder& GgufBuilder::AddTensor(std::string_view name, DType dtype, const Shape& shape,
                                    std::span<const std::byte> data) {
  const GgmlType* type = FindGgmlType(dtype);
  ISOBIT_CHECK(type != nullptr, "{} has no ggml type", Name(dtype));
  GgufTensor tensor{
      .name = std::string(name), .dims = {}, .type = type->number, .data = {}, .offset = {}};
  for (auto dim = shape.rbegin(); dim != shape.rend(); ++dim)
    tensor.dims.push_back(static_cast<std::uint64_t>(*dim));
  tensor.data.assign(reinterpret_cast<const char*>(data.data()), data.size());
  tensors.push_back(std::move(tensor));
  return *this;
}

GgufBuilder& GgufBuilder::Erase(std::string_view key) {
  const auto found = std::find_if(pairs.begin(), pairs.end(),
                                  [&](const GgufPair& pair) { return pair.key == key; });
  ISOBIT_CHECK(found != pairs.end(), "no key {}", key);
  pairs.erase(found);
  return *this;
}

std::string GgufBuilder::Bytes() const {
  ByteWriter out;
  out.Raw(magic)
      .Number(version)
      .Number(num_tensors.value_or(tensors.size()))
      .Number(num_keys.value_or(pairs.size()));
  for (const GgufPair& pair : pairs) out.String(pair.key).Number(pair.type).Raw(pair.value);
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    out.String(tensor.name).Number(static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) out.Number(dim);
    out.Number(tensor.type).Number(tensor.offset.value_or(offset));
    offset = (offset + tensor.data.size() + alignment - 1) / alignment * alignment;
  }
  if (!tensors.empty()) out.Pad(alignment);
  for (const GgufTensor& tensor : tensors) out.Raw(tensor.data).Pad(alignment);
  return out.Take();
}

GgufBuilder LlamaGguf(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  ISOBIT_CHECK(config.family == "llama");
  const auto u32 = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  GgufBuilder builder;
  builder.AddString("general.architecture", "llama")
      .AddU32("llama.block_count", u32(config.num_layers))
      .AddU32("llama.context_length", u32(config.max_positions))
      .AddU32("llama.embedding_length", u32(config.hidden_size))
      .AddU32("llama.feed_forward_length", u32(config.intermediate_size))
      .AddU32("llama.attention.head_count", u32(config.num_heads))
      .AddU32("llama.attention.head_count_kv", u32(config.num_kv_heads))
      .AddU32("llama.attention.key_length", u32(config.head_dim))
      .AddU32("llama.attention.value_length", u32(config.head_dim))
      .AddU32("llama.rope.dimension_count", u32(config.head_dim))
      .AddF32("llama.rope.freq_base", static_cast<float>(config.rope.theta))
      .AddF32("llama.attention.layer_norm_rms_epsilon", config.norm_eps)
      .AddU32("llama.vocab_size", u32(config.vocab_size));
  if (!config.eos_token_ids.empty())
    builder.AddU32("tokenizer.ggml.eos_token_id", u32(config.eos_token_ids.front()));
  if (config.bos_token_id.has_value())
    builder.AddU32("tokenizer.ggml.bos_token_id", u32(*config.bos_token_id));

  std::vector<float> divisors = config.rope.frequency_divisors;
  if (config.rope.scaling == RopeScaling::kLlama3) {
    for (std::int64_t i = 0; i < config.head_dim / 2; ++i)
      divisors.push_back(Llama3Divisor(config.rope, config.head_dim, i));
  }
  if (!divisors.empty()) {
    builder.AddTensor(kGgufRopeDivisors, DType::kF32, {config.head_dim / 2},
                      std::as_bytes(std::span(divisors)));
  }
  for (const ExpectedTensor& one : LlamaTensors(config)) {
    const TensorView& tensor = checkpoint.tensor(one.name);
    const TensorView stored =
        one.gguf_permuted_heads > 0 ? PermuteRows(tensor, one.gguf_permuted_heads) : tensor;
    builder.AddTensor(one.gguf_name, stored.dtype, stored.shape, stored.data);
  }
  return builder;
}

}  // namespace isobit
