#include "weights/inspect.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

namespace isobit {
namespace {

struct Totals {
  std::int64_t num_parameters = 0;
  std::int64_t num_bytes = 0;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> by_dtype;  // name: tensors, bytes
};

Totals Sum(const Checkpoint& checkpoint) {
  Totals totals;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    totals.num_parameters += NumElements(tensor.shape);
    const auto num_bytes = static_cast<std::int64_t>(tensor.data.size());
    totals.num_bytes += num_bytes;
    auto& [count, bytes] = totals.by_dtype[Name(tensor.dtype)];
    ++count;
    bytes += num_bytes;
  }
  return totals;
}

const char* ScalingName(RopeScaling scaling) {
  return scaling == RopeScaling::kLlama3 ? "llama3" : "none";
}

// Digits compare as numbers, so that layer 10 comes after layer 9. Names are distinct and without
// leading zeros.
bool NaturalLess(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto number_end = [&](std::string_view text, std::size_t i) {
    while (i < text.size() && is_digit(text[i])) ++i;
    return i;
  };
  std::size_t i = 0;
  while (i < a.size() && i < b.size()) {
    if (is_digit(a[i]) && is_digit(b[i])) {
      const std::size_t a_end = number_end(a, i), b_end = number_end(b, i);
      if (a_end != b_end) return a_end < b_end;
    }
    if (a[i] != b[i]) return a[i] < b[i];
    ++i;
  }
  return a.size() < b.size();
}

// 98362432 -> "98,362,432"
std::string Grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (auto position = static_cast<std::int64_t>(text.size()) - 3; position > 0; position -= 3)
    text.insert(position, ",");
  return text;
}

std::string Joined(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += fmt::format("{}{}", text.empty() ? "" : ", ", id);
  return text.empty() ? "none" : text;
}

std::string RopeText(const RopeConfig& rope) {
  std::string text = fmt::format("theta {}", rope.theta);
  if (!rope.frequency_divisors.empty())
    return text + fmt::format(", {} frequency divisors", rope.frequency_divisors.size());
  if (rope.scaling == RopeScaling::kNone) return text;
  return text + fmt::format(", llama3 x{} (low {}, high {}, original positions {})", rope.factor,
                            rope.low_freq_factor, rope.high_freq_factor,
                            rope.original_max_positions);
}

}  // namespace

std::int64_t KvBytesPerTokenBf16(const ModelConfig& config) {
  constexpr std::int64_t kKeyAndValue = 2, kBf16Bytes = 2;
  return config.num_layers * config.num_kv_heads * config.head_dim * kKeyAndValue * kBf16Bytes;
}

Json InspectJson(const Checkpoint& checkpoint, const InspectOptions& options) {
  const ModelConfig& config = checkpoint.config();
  const Totals totals = Sum(checkpoint);
  Json json;
  json["path"] = checkpoint.path();
  json["container"] = checkpoint.container();
  json["family"] = config.family;
  json["num_layers"] = config.num_layers;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_heads"] = config.num_heads;
  json["num_kv_heads"] = config.num_kv_heads;
  json["head_dim"] = config.head_dim;
  json["vocab_size"] = config.vocab_size;
  json["max_positions"] = config.max_positions;
  json["norm_eps"] = JsonFloat(config.norm_eps);
  json["tied_head"] = config.tied_head;
  Json& rope = json["rope"];
  rope["theta"] = config.rope.theta;
  rope["scaling"] = ScalingName(config.rope.scaling);
  if (!config.rope.frequency_divisors.empty()) {
    for (const float divisor : config.rope.frequency_divisors)
      rope["frequency_divisors"].push_back(JsonFloat(divisor));
  } else if (config.rope.scaling == RopeScaling::kLlama3) {
    rope["factor"] = config.rope.factor;
    rope["low_freq_factor"] = config.rope.low_freq_factor;
    rope["high_freq_factor"] = config.rope.high_freq_factor;
    rope["original_max_positions"] = config.rope.original_max_positions;
  }
  json["eos_token_ids"] = config.eos_token_ids;
  json["bos_token_id"] = config.bos_token_id.has_value() ? Json(*config.bos_token_id) : Json();
  json["num_parameters"] = totals.num_parameters;
  json["num_tensors"] = checkpoint.tensors().size();
  json["weight_bytes"] = totals.num_bytes;
  for (const auto& [name, sum] : totals.by_dtype)
    json["dtypes"][name] = {{"num_tensors", sum.first}, {"bytes", sum.second}};
  json["kv_bytes_per_token_bf16"] = KvBytesPerTokenBf16(config);
  if (options.with_digest) json["weights_digest"] = checkpoint.WeightsDigest();
  if (options.with_tensors) {
    Json& table = json["tensors"] = Json::array();
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      table.push_back({{"name", name},
                       {"dtype", Name(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.data.size()}});
    }
  }
  return json;
}

std::string InspectText(const Checkpoint& checkpoint, const InspectOptions& options) {
  const ModelConfig& config = checkpoint.config();
  const Totals totals = Sum(checkpoint);
  std::string text;
  const auto line = [&](std::string_view label, const std::string& value) {
    text += fmt::format("{:<14}{}\n", label, value);
  };
  line("model", checkpoint.path());
  line("container", checkpoint.container());
  line("family", config.family);
  line("layers", fmt::format("{}", config.num_layers));
  line("hidden", fmt::format("{}, feed-forward {}", config.hidden_size, config.intermediate_size));
  line("heads", fmt::format("{} query, {} KV, head_dim {}", config.num_heads, config.num_kv_heads,
                            config.head_dim));
  line("vocabulary",
       fmt::format("{}, {} head", config.vocab_size, config.tied_head ? "tied" : "untied"));
  line("positions", fmt::format("{}", config.max_positions));
  line("norm eps", FormatFloat(config.norm_eps));
  line("rope", RopeText(config.rope));
  line("end tokens", Joined(config.eos_token_ids));
  line("parameters", Grouped(totals.num_parameters));
  line("weights", fmt::format("{} bytes in {} tensors", Grouped(totals.num_bytes),
                              checkpoint.tensors().size()));
  for (const auto& [name, sum] : totals.by_dtype) {
    line("", fmt::format("{:<6} {:>14} bytes in {} tensors", name, Grouped(sum.second), sum.first));
  }
  line("KV per token", fmt::format("{} bytes in bf16", Grouped(KvBytesPerTokenBf16(config))));
  if (options.with_digest) line("digest", checkpoint.WeightsDigest());
  if (!options.with_tensors) return text;

  std::vector<const TensorView*> tensors;
  for (const auto& [name, tensor] : checkpoint.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorView* a, const TensorView* b) { return NaturalLess(a->name, b->name); });

  // Each column as wide as its widest cell.
  std::vector<std::array<std::string, 4>> rows = {{"tensor", "dtype", "shape", "bytes"}};
  for (const TensorView* tensor : tensors) {
    rows.push_back({tensor->name, Name(tensor->dtype), ToString(tensor->shape),
                    Grouped(static_cast<std::int64_t>(tensor->data.size()))});
  }
  std::array<std::size_t, 4> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  text += "\n";
  for (const auto& row : rows) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}\n", row[0], widths[0], row[1], widths[1],
                        row[2], widths[2], row[3], widths[3]);
  }
  return text;
}

}  // namespace isobit
