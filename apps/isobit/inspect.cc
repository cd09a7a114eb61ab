// isobit inspect: what a checkpoint holds.
#include <cstdio>

#include "isobit/commands.h"
#include "isobit/output.h"
#include "weights/inspect.h"

namespace isobit {
namespace {

struct InspectFlags {
  std::string model;
  std::string json;
  InspectOptions options;
};

Status Inspect(const InspectFlags& flags) {
  ISOBIT_ASSIGN(const auto checkpoint, Checkpoint::Open(flags.model));
  if (!flags.json.empty()) return WriteJson(flags.json, InspectJson(*checkpoint, flags.options));
  std::printf("%s", InspectText(*checkpoint, flags.options).c_str());
  return {};
}

}  // namespace

void AddInspectCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand("inspect", "Check a checkpoint and show its tensors, formats and digest");
  command->add_option("model", flags->model, "A .gguf file or a model folder")->required();
  command->add_option("--json", flags->json, "Write JSON to this file; - for standard output");
  command->add_flag("--digest", flags->options.with_digest, "Also digest every weight");
  command->add_flag("--tensors,!--no-tensors", flags->options.with_tensors, "One line per tensor (on)");
  command->footer("Examples:\n  isobit inspect SmolLM2.gguf --digest\n  isobit inspect tests/golden/llama --json -");
  command->callback([flags, exit_code] {
    const Status status = Inspect(*flags);
    *exit_code = status.ok() ? 0 : PrintError(status.error());
  });
}

}  // namespace isobit
