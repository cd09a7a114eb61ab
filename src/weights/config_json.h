// config.json of Hugging Face to ModelConfig: the llama family, in the old dialect (rope_theta,
// rope_scaling, torch_dtype) and the new (rope_parameters, dtype).
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "weights/model_config.h"

namespace isobit {

// Every key is understood, known to be harmless, or stops the load: Error::field is the key
// ("rope_scaling.rope_type"), kUnsupported where its meaning is not done here, kCorrupt where its
// value makes no sense. generation_config may be null; of it only the end tokens matter here.
// tied_head is what the config asks; the checkpoint compares it with the tensors.
Result<ModelConfig> ConfigFromJson(const Json& config, const Json& generation_config);

}  // namespace isobit
