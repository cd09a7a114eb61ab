// isobit: the same bits, whoever else is asking.
#include <immintrin.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "contract/contract.h"
#include "isobit/commands.h"
#include "serve/version.h"

int main(int argc, char** argv) {
  // Every translation unit may use FMA3; without it the first fused multiply-add would be an illegal instruction.
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx")) {
    std::fprintf(stderr, "isobit: this processor has no FMA3; isobit needs x86-64 with FMA (Intel Haswell, AMD Piledriver or later)\n");
    return 2;
  }
  isobit::contract::AssertFloatEnvironment();

  CLI::App app{"isobit: an LLM inference server whose answers are bit-identical whoever else is asking, and the gate that proves it"};
  app.set_version_flag("--version", std::string("isobit ") + isobit::kVersion);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.get_formatter()->column_width(34);
  app.footer("Examples:\n"
             "  isobit serve --model SmolLM2.gguf                       an OpenAI-compatible server on port 8000\n"
             "  isobit run   --model SmolLM2.gguf --chat                talk in the terminal\n"
             "  isobit gate  http://127.0.0.1:8000 --concurrency 2,8,16 prove that neighbours do not matter\n"
             "  isobit COMMAND --help                                   flags and examples of one command\n"
             "Exit codes: 0 holds, 1 does not hold, 2 usage or environment, 3 inconclusive.");
  int exit_code = 0;
  isobit::AddServeCommand(app, &exit_code);
  isobit::AddRunCommand(app, &exit_code);
  isobit::AddGateCommand(app, &exit_code);
  isobit::AddLogitsCommand(app, &exit_code);
  isobit::AddInspectCommand(app, &exit_code);
  isobit::AddBenchCommand(app, &exit_code);
  isobit::AddContractCommand(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
  }
  // An answer that did not reach a full disk is no success.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && exit_code == 0) {
    std::fprintf(stderr, "isobit: standard output: not all of it could be written; is the disk full?\n");
    return 2;
  }
  return exit_code;
}
