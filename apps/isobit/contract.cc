// isobit contract: show, compare and check numeric contracts.
#include <cstdio>

#include "base/file.h"
#include "contract/contract.h"
#include "isobit/commands.h"
#include "isobit/output.h"

namespace isobit {
namespace {

using contract::Contract;

struct ContractFlags {
  std::string a = "portable", b;
  std::string kv_type = "bf16";
  bool id_only = false;
};

// A preset's name, or a file with a contract's JSON.
Result<Json> LoadContract(const std::string& what, const std::string& kv_type) {
  if (const auto preset = contract::ParsePreset(what); preset.ok()) {
    ISOBIT_ASSIGN(const contract::KvType type, contract::ParseKvType(kv_type));
    return Contract{*preset, type}.ToJson();
  }
  auto text = ReadFile(what, 1 << 20);
  if (!text.ok()) {
    return Fail(ErrorCode::kInvalidArgument, what, "is neither a preset (portable, tensor-core, tensor-core-int8) nor a readable file");
  }
  return ParseJson(*text, what);
}

Result<int> Show(const ContractFlags& flags) {
  ISOBIT_ASSIGN(const Json json, LoadContract(flags.a, flags.kv_type));
  ISOBIT_ASSIGN(const Contract contract, contract::CheckContract(json));
  if (flags.id_only) std::printf("%s\n", contract.Id().c_str());
  else std::printf("%s\n", DumpJson(contract.ToJson(), 2).c_str());
  return 0;
}

Result<int> Diff(const ContractFlags& flags) {
  ISOBIT_ASSIGN(const Json a, LoadContract(flags.a, flags.kv_type));
  ISOBIT_ASSIGN(const Json b, LoadContract(flags.b, flags.kv_type));
  const std::string difference = contract::DiffContracts(a, b);
  std::printf("%s", difference.empty() ? "the contracts are equal\n" : difference.c_str());
  return difference.empty() ? 0 : 1;
}

Result<int> Check(const ContractFlags& flags) {
  ISOBIT_ASSIGN(const Json json, LoadContract(flags.a, flags.kv_type));
  const auto contract = contract::CheckContract(json);
  if (!contract.ok()) {
    std::printf("this build does not implement it: %s\n", contract.error().ToString().c_str());
    return 1;
  }
  std::printf("this build implements it: %s\n", contract->Id().c_str());
  return 0;
}

}  // namespace

void AddContractCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<ContractFlags>();
  CLI::App* command = app.add_subcommand("contract", "Print, compare and check numeric contracts");
  command->require_subcommand(1);
  command->add_option("--kv-type", flags->kv_type, "KV type of presets named here")->capture_default_str();
  command->fallthrough();
  command->footer("Examples:\n"
                  "  isobit contract show tensor-core > tensor-core.json\n"
                  "  isobit contract show portable --id\n"
                  "  isobit contract diff portable tensor-core.json\n"
                  "  isobit contract check theirs.json");
  const auto run = [flags, exit_code](Result<int> (*action)(const ContractFlags&)) {
    const Result<int> result = action(*flags);
    *exit_code = result.ok() ? *result : PrintError(result.error());
  };
  CLI::App* show = command->add_subcommand("show", "Print a contract as JSON");
  show->add_option("contract", flags->a, "A preset or a file")->capture_default_str();
  show->add_flag("--id", flags->id_only, "Only the id");
  show->callback([run] { run(Show); });
  CLI::App* diff = command->add_subcommand("diff", "Field by field; exit code 1 if they differ");
  diff->add_option("a", flags->a, "A preset or a file")->required();
  diff->add_option("b", flags->b, "A preset or a file")->required();
  diff->callback([run] { run(Diff); });
  CLI::App* check = command->add_subcommand("check", "Does this build implement it? Exit code 1 if not");
  check->add_option("contract", flags->a, "A preset or a file")->required();
  check->callback([run] { run(Check); });
}

}  // namespace isobit
