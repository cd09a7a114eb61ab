#include "sample/sampling_params.h"

#include <cmath>

namespace isobit {
namespace {

Status CheckRange(const char* field, float value, float low, bool low_open, float high) {
  const bool above = low_open ? value > low : value >= low;
  if (std::isfinite(value) && above && value <= high) return {};
  return Fail(ErrorCode::kInvalidArgument, field, "must be {} {} and at most {}", low_open ? "greater than" : "at least", low, high);
}

Status CheckIds(const char* field, std::int64_t id, std::int64_t previous, std::int64_t vocab_size) {
  if (id < 0 || id >= vocab_size) {
    return Fail(ErrorCode::kInvalidArgument, field, "token id {} is outside the vocabulary [0, {})", id, vocab_size);
  }
  if (id <= previous) return Fail(ErrorCode::kInvalidArgument, field, "names token id {} twice", id);
  return {};
}

}  // namespace

Status ValidateSamplingParams(const SamplingParams& params, std::int64_t vocab_size) {
  if (!std::isfinite(params.temperature) || params.temperature < 0 || params.temperature > 100 ||
      (params.temperature > 0 && params.temperature < kMinTemperature)) {
    return Fail(ErrorCode::kInvalidArgument, "temperature", "must be 0 (greedy) or from {} to 100", kMinTemperature);
  }
  ISOBIT_TRY(CheckRange("top_p", params.top_p, 0.0f, true, 1.0f));
  ISOBIT_TRY(CheckRange("min_p", params.min_p, 0.0f, false, 1.0f));
  ISOBIT_TRY(CheckRange("repetition_penalty", params.repetition_penalty, kMinRepetitionPenalty, false, 100.0f));
  ISOBIT_TRY(CheckRange("frequency_penalty", params.frequency_penalty, -2.0f, false, 2.0f));
  ISOBIT_TRY(CheckRange("presence_penalty", params.presence_penalty, -2.0f, false, 2.0f));
  if (params.top_k < 0) return Fail(ErrorCode::kInvalidArgument, "top_k", "must be 0 (off) or more");
  std::int64_t previous = -1;
  for (const auto& [id, bias] : params.logit_bias) {
    ISOBIT_TRY(CheckIds("logit_bias", id, previous, vocab_size));
    ISOBIT_TRY(CheckRange("logit_bias", bias, -100.0f, false, 100.0f));
    previous = id;
  }
  previous = -1;
  for (const std::int32_t id : params.allowed_token_ids) {
    ISOBIT_TRY(CheckIds("allowed_token_ids", id, previous, vocab_size));
    previous = id;
  }
  return {};
}

}  // namespace isobit
