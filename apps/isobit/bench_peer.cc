#include "isobit/bench_peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace isobit {
namespace {

// The members of a peer's answer, checked: it is another program.
std::string StringOr(const Json& answer, const char* member, const char* otherwise) {
  const auto value = answer.find(member);
  return value != answer.end() && value->is_string() ? value->get<std::string>() : otherwise;
}

Result<std::vector<std::string>> Strings(const Json& answer, const char* member) {
  const auto list = answer.find(member);
  if (list == answer.end() || !list->is_array() || list->empty()) {
    return Fail(ErrorCode::kIo, "--peer", "the peer's answer has no list \"{}\"", member);
  }
  std::vector<std::string> strings;
  for (const Json& item : *list) {
    if (!item.is_string()) return Fail(ErrorCode::kIo, "--peer", "the peer's \"{}\" holds something that is no string", member);
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Result<std::vector<std::vector<std::int32_t>>> Tokens(const Json& answer, std::size_t streams, std::size_t length) {
  const Error wrong = Fail(ErrorCode::kIo, "--peer", "the peer did not answer with {} lists of {} token ids", streams, length);
  const auto list = answer.find("tokens");
  if (list == answer.end() || !list->is_array() || list->size() != streams) return wrong;
  std::vector<std::vector<std::int32_t>> tokens;
  for (const Json& stream : *list) {
    if (!stream.is_array() || stream.size() != length) return wrong;
    std::vector<std::int32_t>& ids = tokens.emplace_back();
    for (const Json& id : stream) {
      if (!id.is_number_integer()) return wrong;
      ids.push_back(id.get<std::int32_t>());
    }
  }
  return tokens;
}

}  // namespace

Result<std::unique_ptr<BenchPeer>> BenchPeer::Start(const Options& options) {
  std::unique_ptr<BenchPeer> peer(new BenchPeer());
  ISOBIT_TRY(peer->Spawn(options));
  ISOBIT_ASSIGN(peer->about_, peer->Ask({{"op", "load"},
                                         {"model", options.model},
                                         {"threads", options.num_threads},
                                         {"max_length", options.max_length}}));
  ISOBIT_ASSIGN(peer->variants_, Strings(peer->about_, "variants"));
  peer->name_ = StringOr(peer->about_, "name", "unnamed") + " " + StringOr(peer->about_, "version", "of no version");
  return peer;
}

Status BenchPeer::Spawn(const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);  // a peer that died is an error of the next Ask
  int requests[2], answers[2];
  if (pipe2(requests, O_CLOEXEC) != 0) return Fail(ErrorCode::kIo, "--peer", "no pipe: {}", std::strerror(errno));
  to_ = fdopen(requests[1], "w");
  if (pipe2(answers, O_CLOEXEC) != 0) {
    close(requests[0]);
    return Fail(ErrorCode::kIo, "--peer", "no pipe: {}", std::strerror(errno));
  }
  from_ = fdopen(answers[0], "r");

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, requests[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
  std::string python = options.python, script = options.script;
  char* const arguments[] = {python.data(), script.data(), nullptr};
  const int error = posix_spawnp(&pid_, python.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(requests[0]);
  close(answers[1]);
  if (error != 0) {
    pid_ = -1;
    return Fail(ErrorCode::kNotFound, "--peer-python", "cannot run \"{}\": {}; name a Python that can import llama_cpp", options.python,
                std::strerror(error));
  }
  return {};
}

// Closing its standard input ends the peer.
BenchPeer::~BenchPeer() {
  if (to_ != nullptr) std::fclose(to_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  if (from_ != nullptr) std::fclose(from_);
}

Result<Json> BenchPeer::Ask(const Json& request) {
  const std::string line = DumpJson(request) + "\n";
  char* text = nullptr;
  std::size_t capacity = 0;
  ssize_t length = -1;
  if (std::fwrite(line.data(), 1, line.size(), to_) == line.size() && std::fflush(to_) == 0) length = getline(&text, &capacity, from_);
  const std::string answer_text(text == nullptr ? "" : text, length < 0 ? 0 : static_cast<std::size_t>(length));
  std::free(text);
  if (length <= 0) {
    return Fail(ErrorCode::kIo, "--peer", "the peer ended without an answer; what it printed above says why");
  }
  ISOBIT_ASSIGN(Json answer, ParseJson(answer_text, "--peer"));
  if (!answer.is_object()) return Fail(ErrorCode::kIo, "--peer", "the peer's answer is no JSON object");
  if (const auto error = answer.find("error"); error != answer.end()) {
    return Error{ErrorCode::kNotFound, StringOr(answer, "field", "--peer"), error->is_string() ? error->get<std::string>() : DumpJson(*error)};
  }
  return answer;
}

Result<BenchPeer::Sample> BenchPeer::Run(const std::string& variant, const std::vector<std::vector<std::int32_t>>& prompts,
                                         std::int64_t steps) {
  ISOBIT_ASSIGN(const Json answer, Ask({{"op", "run"}, {"variant", variant}, {"prompts", prompts}, {"steps", steps}}));
  const auto seconds = answer.find("seconds");
  if (seconds == answer.end() || !seconds->is_number() || !(seconds->get<double>() > 0)) {
    return Fail(ErrorCode::kIo, "--peer", "the peer's answer has no positive \"seconds\"");
  }
  Sample sample;
  sample.seconds = seconds->get<double>();
  ISOBIT_ASSIGN(sample.tokens, Tokens(answer, prompts.size(), static_cast<std::size_t>(steps) + 1));
  return sample;
}

}  // namespace isobit
