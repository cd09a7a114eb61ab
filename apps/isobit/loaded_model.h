// LoadedModel: a checkpoint made ready to answer: packed by a backend, with its tokenizer, template and identity. The one place that
// knows every backend.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "isobit/model_flags.h"
#include "model/transformer.h"
#include "serve/server.h"
#include "weights/checkpoint.h"

namespace isobit {

struct LoadedModel {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> transformer;
  ServingModel serving;
  std::string tokenizer_problem;  // why serving.tokenizer is null, if it is

  // Fails where text is needed and the checkpoint cannot turn it into ids.
  Status RequireTokenizer() const;
};

// progress: what is being done, one line at a time.
Result<std::unique_ptr<LoadedModel>> LoadModel(const ModelFlags& flags, const Clock& clock,
                                               const std::function<void(std::string_view)>& progress);

// An engine over a loaded model, with the trace that --trace asks for. Started by the caller; destroyed before the model.
struct RunningEngine {
  std::unique_ptr<TraceRecorder> recorder;  // may be null
  std::unique_ptr<Engine> engine;
};
Result<RunningEngine> MakeEngine(const ModelFlags& flags, LoadedModel& model, const Clock& clock);

}  // namespace isobit
