// ValidateRequest: what the engine refuses before a request can touch anything.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/request.h"
#include "model/language_model.h"

namespace isobit {

// Bounds on one request's memory, beside those of the model.
inline constexpr std::int64_t kMaxTopLogprobs = 1024;  // alternatives per token
inline constexpr std::int64_t kMaxStopTokenIds = 1024;
inline constexpr std::int64_t kMaxCacheSaltBytes = 1024;

// kInvalidArgument with the OpenAI name of the field.
Status ValidateRequest(const GenerationRequest& request, std::int64_t vocab_size,
                       const ModelLimits& limits);

}  // namespace isobit
