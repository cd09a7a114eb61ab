// What `isobit inspect MODEL` shows of a checkpoint: family, dimensions, bytes per dtype, KV bytes
// per token, every tensor.
#pragma once

#include <string>

#include "base/json.h"
#include "weights/checkpoint.h"

namespace isobit {

struct InspectOptions {
  bool with_digest = false;  // reads all weights
  bool with_tensors = true;  // one line per tensor
};

Json InspectJson(const Checkpoint& checkpoint, const InspectOptions& options = {});
std::string InspectText(const Checkpoint& checkpoint, const InspectOptions& options = {});

// Bytes that one token's keys and values take over all layers in bf16.
std::int64_t KvBytesPerTokenBf16(const ModelConfig& config);

}  // namespace isobit
