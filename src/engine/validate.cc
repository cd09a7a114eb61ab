#include "engine/validate.h"

#include <algorithm>
#include <string>

#include "kvcache/block_table.h"

namespace isobit {
namespace {

Status ValidateTokenIds(const std::vector<std::int32_t>& ids, const char* field,
                        std::int64_t vocab_size) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return Fail(ErrorCode::kInvalidArgument, field,
                  "token id {} at index {} is outside the vocabulary; use 0 to {}", ids[i], i,
                  vocab_size - 1);
    }
  }
  return {};
}

Status ValidateLength(const GenerationRequest& request, const ModelLimits& limits) {
  const auto prompt_length = static_cast<std::int64_t>(request.prompt_ids.size());
  const std::int64_t capacity = limits.num_blocks * limits.block_size;
  const std::int64_t max_length = limits.max_model_len > 0 ? limits.max_model_len : capacity;
  if (prompt_length > max_length || request.max_new_tokens > max_length - prompt_length) {
    return Fail(ErrorCode::kInvalidArgument, prompt_length > max_length ? "prompt" : "max_tokens",
                "this model's maximum context length is {} tokens, but {} of prompt and {} of "
                "completion were asked "
                "for; shorten one of them",
                max_length, prompt_length, request.max_new_tokens);
  }
  // The last token sampled is never run, so it needs no KV.
  const std::int64_t num_positions =
      prompt_length + std::max<std::int64_t>(request.max_new_tokens - 1, 0);
  if (NumBlocksFor(num_positions, limits.block_size) > limits.num_blocks) {
    return Fail(ErrorCode::kInvalidArgument, "max_tokens",
                "the request needs KV for {} tokens and the server holds {}; shorten it or start "
                "the server with a "
                "larger --kv-tokens",
                num_positions, capacity);
  }
  return {};
}

Status ValidateTopCount(std::int64_t count, const char* field, std::int64_t vocab_size) {
  const std::int64_t max_count = std::min(kMaxTopLogprobs, vocab_size);
  if (count < -1 || count > max_count) {
    return Fail(ErrorCode::kInvalidArgument, field, "{} is out of range; use 0 to {}", count,
                max_count);
  }
  return {};
}

}  // namespace

Status ValidateRequest(const GenerationRequest& request, std::int64_t vocab_size,
                       const ModelLimits& limits) {
  if (request.prompt_ids.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "prompt",
                "the prompt has no tokens; send at least one");
  }
  ISOBIT_TRY(ValidateTokenIds(request.prompt_ids, "prompt", vocab_size));
  if (request.max_new_tokens < 0) {
    return Fail(ErrorCode::kInvalidArgument, "max_tokens", "{} is negative; use 0 or more",
                request.max_new_tokens);
  }
  ISOBIT_TRY(ValidateLength(request, limits));
  if (request.min_new_tokens < 0 || request.min_new_tokens > request.max_new_tokens) {
    return Fail(ErrorCode::kInvalidArgument, "min_tokens",
                "{} is out of range; use 0 to max_tokens, which is {}", request.min_new_tokens,
                request.max_new_tokens);
  }
  if (static_cast<std::int64_t>(request.stop_token_ids.size()) > kMaxStopTokenIds) {
    return Fail(ErrorCode::kInvalidArgument, "stop_token_ids", "{} ids; send at most {}",
                request.stop_token_ids.size(), kMaxStopTokenIds);
  }
  ISOBIT_TRY(ValidateTokenIds(request.stop_token_ids, "stop_token_ids", vocab_size));
  ISOBIT_TRY(ValidateTopCount(request.num_logprobs, "logprobs", vocab_size));
  ISOBIT_TRY(ValidateTopCount(request.num_prompt_logprobs, "prompt_logprobs", vocab_size));
  if (static_cast<std::int64_t>(request.cache_salt.size()) > kMaxCacheSaltBytes) {
    return Fail(ErrorCode::kInvalidArgument, "cache_salt", "{} bytes; send at most {}",
                request.cache_salt.size(), kMaxCacheSaltBytes);
  }
  return ValidateSamplingParams(request.sampling, vocab_size);
}

}  // namespace isobit
