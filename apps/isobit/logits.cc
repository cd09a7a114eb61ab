// isobit logits: float32 logits of given ids, for comparison with anything else. Needs no tokenizer.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "isobit/commands.h"
#include "isobit/loaded_model.h"
#include "isobit/output.h"
#include "model/score.h"
#include "weights/safetensors_writer.h"

namespace isobit {
namespace {

struct LogitsFlags {
  ModelFlags model;
  std::string ids;
  std::string out;
  bool digest = false;
};

// "1,2,3", "1 2 3", "[1, 2, 3]", or the name of a file with such text.
Result<std::vector<std::int32_t>> ParseIds(const std::string& text, std::int64_t vocab_size) {
  std::string list = text;
  if (std::filesystem::exists(text)) {
    ISOBIT_ASSIGN(list, ReadFile(text, 64 << 20));
  }
  std::vector<std::int32_t> ids;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    if (std::string_view(" ,\t\r\n[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::int64_t id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error != std::errc() || rest == at) {
      return Fail(ErrorCode::kInvalidArgument, "--ids", "\"{}\" is neither a file nor a list of ids such as 1,2,3",
                  list.substr(0, 60));
    }
    if (id < 0 || id >= vocab_size) {
      return Fail(ErrorCode::kInvalidArgument, "--ids", "id {} is outside the vocabulary [0, {})", id, vocab_size);
    }
    ids.push_back(static_cast<std::int32_t>(id));
    at = rest;
  }
  if (ids.empty()) return Fail(ErrorCode::kInvalidArgument, "--ids", "holds no id");
  return ids;
}

Status WriteLogits(const std::string& path, const std::vector<float>& logits, const std::vector<std::int32_t>& ids,
                   const LoadedModel& model) {
  const auto rows = static_cast<std::int64_t>(ids.size());
  const std::vector<TensorView> tensors = {
      {.name = "ids", .dtype = DType::kI32, .shape = {rows}, .data = std::as_bytes(std::span(ids))},
      {.name = "logits",
       .dtype = DType::kF32,
       .shape = {rows, model.transformer->vocab_size()},
       .data = std::as_bytes(std::span(logits))}};
  return WriteSafetensors(path, tensors,
                          {{"contract_id", model.serving.contract_id}, {"model_contract_id", model.serving.model_contract_id}});
}

Status Run(const LogitsFlags& flags) {
  const SystemClock clock;
  ProgressLine progress;
  const auto show = [&](std::string_view text) { progress.Show(text); };
  // The pool must hold the sequence, so the ids are read first; the vocabulary comes from the checkpoint's headers.
  ISOBIT_ASSIGN(const auto checkpoint, Checkpoint::Open(flags.model.model));
  ISOBIT_ASSIGN(const std::vector<std::int32_t> ids, ParseIds(flags.ids, checkpoint->config().vocab_size));
  ModelFlags model_flags = flags.model;
  model_flags.max_seqs = 1;
  model_flags.kv_tokens = static_cast<std::int64_t>(ids.size());
  model_flags.prefill_chunk = std::min(model_flags.prefill_chunk, static_cast<std::int64_t>(ids.size()));
  model_flags.max_batch_tokens = model_flags.prefill_chunk;
  const std::int64_t max_len =
      model_flags.max_model_len == 0 ? checkpoint->config().max_positions : model_flags.max_model_len;
  if (static_cast<std::int64_t>(ids.size()) > max_len) {
    return Fail(ErrorCode::kInvalidArgument, "--ids", "{} ids are more than the maximum context length {}", ids.size(), max_len);
  }
  ISOBIT_ASSIGN(const auto model, LoadModel(model_flags, clock, show));

  Sha256 hash;
  std::vector<float> all;
  VisitLogits(*model->transformer, ids, model_flags.prefill_chunk, [&](std::int64_t position, std::span<const float> logits) {
    hash.Update(std::as_bytes(logits));
    if (!flags.out.empty()) all.insert(all.end(), logits.begin(), logits.end());
    if (position % 16 == 0) show(fmt::format("position {} of {}", position, ids.size()));
  });
  progress.Show("");
  if (!flags.out.empty()) ISOBIT_TRY(WriteLogits(flags.out, all, ids, *model));
  if (flags.digest || flags.out.empty()) std::printf("%s\n", HexString(hash.Finish()).c_str());
  return {};
}

}  // namespace

void AddLogitsCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command = app.add_subcommand("logits", "Float32 logits at every position of a list of token ids");
  flags->model.AddNumericTo(*command);
  command->add_option("--ids", flags->ids, "Token ids, \"1,2,3\", or a file with them")->required();
  command->add_option("--out", flags->out, "Write `ids` [len] and `logits` [len, vocab] to this .safetensors file");
  command->add_flag("--digest", flags->digest, "Print the SHA-256 of all logits (the default without --out)");
  command->footer("Examples:\n"
                  "  isobit logits --model SmolLM2.gguf --ids 1,9690,198 --digest\n"
                  "  isobit logits --model tests/golden/llama --kv-type f32 --ids ids.txt --out logits.safetensors\n"
                  "The digest does not depend on --threads, --block-size, --prefill-chunk, --device or ISOBIT_ISA.");
  command->callback([flags, exit_code] {
    const Status status = Run(*flags);
    *exit_code = status.ok() ? 0 : PrintError(status.error());
  });
}

}  // namespace isobit
