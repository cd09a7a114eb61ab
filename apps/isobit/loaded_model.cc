#include "isobit/loaded_model.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backend/law_backend.h"
#include "backend_cpu/cpu_backend.h"
#include "base/sha256.h"
#include "serve/version.h"

namespace isobit {
namespace {

constexpr std::int64_t kDefaultKvTokens = 32768;

Result<std::unique_ptr<Backend>> MakeBackend(const ModelFlags& flags, const contract::Contract& contract) {
  if (flags.device == "law") return MakeLawBackend(contract);
  if (flags.device == "cpu") {
    const char* isa = std::getenv("ISOBIT_ISA");
    return MakeCpuBackend(contract, {.num_threads = flags.threads, .isa = isa == nullptr ? "" : isa});
  }
  return Fail(ErrorCode::kInvalidArgument, "--device", "\"{}\" is not known; use cpu or law", flags.device);
}

Result<ModelLimits> MakeLimits(const ModelFlags& flags, const ModelConfig& config) {
  const auto positive = [](const char* flag, std::int64_t value) -> Status {
    if (value >= 1 && value <= (std::int64_t{1} << 31)) return {};
    return Fail(ErrorCode::kInvalidArgument, flag, "must be at least 1 and at most 2^31, not {}", value);
  };
  ISOBIT_TRY(positive("--max-seqs", flags.max_seqs));
  ISOBIT_TRY(positive("--max-batch-tokens", flags.max_batch_tokens));
  ISOBIT_TRY(positive("--prefill-chunk", flags.prefill_chunk));
  ISOBIT_TRY(positive("--max-queue", flags.max_queue));
  ISOBIT_TRY(positive("--block-size", flags.block_size));
  if (flags.max_model_len < 0) {
    return Fail(ErrorCode::kInvalidArgument, "--max-model-len", "must be from 1 to the model's own maximum, {}", config.max_positions);
  }
  if (flags.max_seqs > flags.max_batch_tokens) {
    return Fail(ErrorCode::kInvalidArgument, "--max-batch-tokens", "must be at least --max-seqs ({}): every running sequence needs a row",
                flags.max_seqs);
  }
  const std::int64_t model_len = flags.max_model_len == 0 ? config.max_positions : flags.max_model_len;
  const std::int64_t kv_tokens = flags.kv_tokens != 0 ? flags.kv_tokens : std::min(flags.max_seqs * model_len, kDefaultKvTokens);
  ISOBIT_TRY(positive("--kv-tokens", kv_tokens));
  return ModelLimits{.max_batch_tokens = flags.max_batch_tokens,
                     .max_sequences = flags.max_seqs,
                     .max_logit_rows = std::min<std::int64_t>(std::max<std::int64_t>(flags.max_seqs, 16), 64),
                     .max_model_len = flags.max_model_len,
                     .num_blocks = (kv_tokens + flags.block_size - 1) / flags.block_size,
                     .block_size = flags.block_size};
}

std::string ModelName(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  const std::filesystem::path name = file.has_filename() ? file : file.parent_path();
  return (name.extension() == ".gguf" ? name.stem() : name.filename()).string();
}

// The tokenizer and template, as far as the checkpoint carries them: a model without them can still be run on ids.
Status LoadText(const Checkpoint& checkpoint, LoadedModel& model) {
  auto spec = TokenizerSpecFromGguf(checkpoint.metadata());
  if (!spec.ok() && spec.error().code == ErrorCode::kNotFound) {
    model.tokenizer_problem = spec.error().ToString();
    return {};
  }
  if (!spec.ok()) return spec.error();
  ISOBIT_ASSIGN(model.serving.tokenizer, Tokenizer::Create(std::move(spec).value()));
  if (model.serving.tokenizer->vocab_size() != checkpoint.config().vocab_size) {
    return Fail(ErrorCode::kCorrupt, checkpoint.path(), "the tokenizer has {} entries, the embedding {}",
                model.serving.tokenizer->vocab_size(), checkpoint.config().vocab_size);
  }
  const Json& metadata = checkpoint.metadata();
  const auto source = metadata.find("tokenizer.chat_template");
  if (source != metadata.end() && source->is_string()) {
    ISOBIT_ASSIGN(model.serving.chat_template, ChatTemplate::Parse(source->get<std::string>()));
  }
  return {};
}

}  // namespace

Status LoadedModel::RequireTokenizer() const {
  if (serving.tokenizer != nullptr) return {};
  return Fail(ErrorCode::kUnsupported, "--model", "this model has no tokenizer, so it cannot read text ({}); `isobit logits` needs none",
              tokenizer_problem);
}

Result<std::unique_ptr<LoadedModel>> LoadModel(const ModelFlags& flags, const Clock& clock,
                                               const std::function<void(std::string_view)>& progress) {
  ISOBIT_ASSIGN(const contract::Contract contract, flags.Contract());
  progress("checking " + flags.model);
  auto model = std::make_unique<LoadedModel>();
  ISOBIT_ASSIGN(model->checkpoint, Checkpoint::Open(flags.model));
  ISOBIT_ASSIGN(const ModelLimits limits, MakeLimits(flags, model->checkpoint->config()));
  ISOBIT_TRY(LoadText(*model->checkpoint, *model));
  ISOBIT_ASSIGN(model->backend, MakeBackend(flags, contract));
  progress("packing weights for " + model->backend->name());
  ISOBIT_ASSIGN(model->transformer, Transformer::Load(*model->checkpoint, *model->backend, limits));
  progress("digesting weights");

  ServingModel& serving = model->serving;
  serving.name = ModelName(flags.model);
  serving.max_model_len = model->transformer->limits().max_model_len;
  serving.eos_token_ids = model->checkpoint->config().eos_token_ids;
  serving.contract_id = contract.Id();
  serving.weights_digest = model->checkpoint->WeightsDigest();
  serving.model_contract_id = contract::ModelContractId(
      serving.contract_id, serving.weights_digest, serving.tokenizer == nullptr ? "" : serving.tokenizer->Digest(),
      serving.chat_template == nullptr ? "" : Sha256Hex(serving.chat_template->source()));
  serving.preset = Name(contract.preset);
  serving.kv_type = Name(contract.kv_type);
  serving.device = model->backend->name();
  serving.created_unix_seconds = clock.UnixSeconds();
  return model;
}

Result<RunningEngine> MakeEngine(const ModelFlags& flags, LoadedModel& model, const Clock& clock) {
  RunningEngine running;
  if (!flags.trace.empty()) {
    const Json header = {{"isobit", kVersion},
                         {"contract_id", model.serving.contract_id},
                         {"model_contract_id", model.serving.model_contract_id},
                         {"model", model.serving.name},
                         {"device", model.serving.device},
                         {"max_seqs", flags.max_seqs},
                         {"max_batch_tokens", flags.max_batch_tokens},
                         {"prefill_chunk", flags.prefill_chunk},
                         {"num_blocks", model.transformer->limits().num_blocks},
                         {"block_size", flags.block_size},
                         {"prefix_cache", flags.prefix_cache}};
    ISOBIT_ASSIGN(running.recorder, TraceRecorder::Open(flags.trace, header));
  }
  ISOBIT_ASSIGN(running.engine, Engine::Create({.max_sequences = flags.max_seqs,
                                                .max_batch_tokens = flags.max_batch_tokens,
                                                .prefill_chunk = flags.prefill_chunk,
                                                .max_queue = flags.max_queue,
                                                .prefix_cache = flags.prefix_cache},
                                               *model.transformer, clock, running.recorder.get()));
  return running;
}

}  // namespace isobit
