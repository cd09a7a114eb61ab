// isobit_sim SEED [--steps]: runs one world of the simulator and prints it. Exit code 0: everything
// held, 1: it did not. isobit_sim --seeds FIRST COUNT: many worlds, prints the first that fails.
// isobit_sim --expect-caught COUNT: for the mutants: exit code 0 only if some world of the first
// COUNT fails or trips a CHECK.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "simulator.h"

namespace isobit::sim {
namespace {

constexpr int kHolds = 0, kDoesNotHold = 1, kUsage = 2;

int PrintOne(std::uint64_t seed, bool steps) {
  const World world = MakeWorld(seed);
  const SimResult result = RunWorld(world, {.print_steps = steps});
  fmt::print("{}{}", Describe(world), result.log);
  for (std::size_t i = 0; i < result.answers.size(); ++i) {
    const Answer& answer = result.answers[i];
    fmt::print("answer {}: {}, {} prompt scores, tokens [{}]\n", i + 1,
               answer.finish ? FinishReasonName(*answer.finish) : "none",
               answer.prompt_scores.size(), fmt::join(answer.tokens, " "));
  }
  fmt::print("{} steps, {} preemptions, {} of {} prompt tokens from the prefix cache\n",
             result.num_steps, result.stats.num_preemptions, result.stats.prefix_hit_tokens,
             result.stats.prefix_query_tokens);
  const std::string failure = result.failure.empty() ? CheckSeed(seed) : result.failure;
  fmt::print("{}\n", failure.empty() ? "HOLDS: every answer is the solo answer"
                                     : "DOES NOT HOLD: " + failure);
  return failure.empty() ? kHolds : kDoesNotHold;
}

int CheckSeeds(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    if (const std::string failure = CheckSeed(seed); !failure.empty()) {
      fmt::print("seed {}: {}\n", seed, failure);
      return kDoesNotHold;
    }
  }
  fmt::print("{} worlds hold\n", count);
  return kHolds;
}

// In a child process, since a mutant may also trip a CHECK, which aborts: that is caught, too.
int ExpectCaught(std::uint64_t count) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int code = CheckSeeds(1, count);
    std::fflush(stdout);
    _exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return kUsage;
  const bool failed = WIFEXITED(status) && WEXITSTATUS(status) == kDoesNotHold;
  const bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  fmt::print("{}\n", failed    ? "caught: an answer or the books were wrong"
                     : aborted ? "caught: a CHECK"
                               : "NOT CAUGHT");
  return failed || aborted ? kHolds : kDoesNotHold;
}

int Main(const std::vector<std::string_view>& args) {
  const auto number = [&](std::size_t i) {
    return std::strtoull(std::string(args[i]).c_str(), nullptr, 10);
  };
  if (args.size() == 3 && args[0] == "--seeds") return CheckSeeds(number(1), number(2));
  if (args.size() == 2 && args[0] == "--expect-caught") return ExpectCaught(number(1));
  if (args.size() == 1 || (args.size() == 2 && args[1] == "--steps"))
    return PrintOne(number(0), args.size() == 2);
  fmt::print(stderr,
             "usage: isobit_sim SEED [--steps] | --seeds FIRST COUNT | --expect-caught COUNT\n");
  return kUsage;
}

}  // namespace
}  // namespace isobit::sim

int main(int argc, char** argv) { return isobit::sim::Main({argv + 1, argv + argc}); }
