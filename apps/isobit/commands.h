// The subcommands of isobit, one file each. Every function adds its subcommand to app; when it is the one chosen, it runs during
// parsing and writes *exit_code: 0 holds, 1 does not hold, 2 usage or environment, 3 inconclusive.
#pragma once

#include <CLI/CLI.hpp>

namespace isobit {

void AddServeCommand(CLI::App& app, int* exit_code);
void AddRunCommand(CLI::App& app, int* exit_code);
void AddGateCommand(CLI::App& app, int* exit_code);
void AddLogitsCommand(CLI::App& app, int* exit_code);
void AddInspectCommand(CLI::App& app, int* exit_code);
void AddBenchCommand(CLI::App& app, int* exit_code);
void AddContractCommand(CLI::App& app, int* exit_code);

}  // namespace isobit
