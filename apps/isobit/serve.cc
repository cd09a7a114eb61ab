// isobit serve: an OpenAI-compatible server.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "base/file.h"
#include "isobit/commands.h"
#include "isobit/loaded_model.h"
#include "isobit/output.h"

namespace isobit {
namespace {

struct ServeFlags {
  ModelFlags model;
  ServerConfig server;
  std::string served_name;
  std::string api_key_file;
  std::uint64_t default_seed = 0;
  bool quiet = false;
  std::int64_t drain_seconds = 10;
};

Status CheckFlags(const ServeFlags& flags) {
  const auto in_range = [](const char* flag, std::int64_t value, std::int64_t low, std::int64_t high) -> Status {
    if (value >= low && value <= high) return {};
    return Fail(ErrorCode::kInvalidArgument, flag, "{} is out of range; use {} to {}", value, low, high);
  };
  ISOBIT_TRY(in_range("--max-body-bytes", flags.server.max_body_bytes, 1, std::int64_t{1} << 30));
  ISOBIT_TRY(in_range("--drain-seconds", flags.drain_seconds, 0, 86400));
  for (const std::string& key : flags.server.api_keys) {
    if (key.empty()) return Fail(ErrorCode::kInvalidArgument, "--api-key", "is empty: every client would have it; leave it out, or give a key");
  }
  return {};
}

Status CollectKeys(ServeFlags& flags) {
  if (const char* key = std::getenv("ISOBIT_API_KEY"); key != nullptr && *key != '\0') flags.server.api_keys.push_back(key);
  if (flags.api_key_file.empty()) return {};
  ISOBIT_ASSIGN(const std::string text, ReadFile(flags.api_key_file, 1 << 20));
  std::string line;
  for (const char c : text + "\n") {
    if (c != '\n' && c != '\r') {
      line += c;
    } else {
      // A header's value has no space at its end, so a key with one could never be sent.
      line.erase(line.find_last_not_of(" \t") + 1);
      if (!line.empty()) flags.server.api_keys.push_back(line);
      line.clear();
    }
  }
  if (flags.server.api_keys.empty()) return Fail(ErrorCode::kInvalidArgument, "--api-key-file", "holds no key");
  return {};
}

Status Serve(ServeFlags& flags) {
  ISOBIT_TRY(CheckFlags(flags));
  ISOBIT_TRY(CollectKeys(flags));
  // Blocked before any thread starts, so that only the waiting thread below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const SystemClock clock;
  ProgressLine progress;
  ISOBIT_ASSIGN(auto model, LoadModel(flags.model, clock, [&](std::string_view text) { progress.Show(text); }));
  ISOBIT_TRY(model->RequireTokenizer());
  if (!flags.served_name.empty()) model->serving.name = flags.served_name;
  ISOBIT_ASSIGN(RunningEngine running, MakeEngine(flags.model, *model, clock));
  if (!flags.quiet) flags.server.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  ISOBIT_ASSIGN(auto server, Server::Create(flags.server, model->serving, *running.engine, clock));
  running.engine->Start();
  progress.Show("");
  std::printf("isobit serves %s on http://%s:%d\n  contract %s (%s, kv %s)\n  model    %s\n  device   %s, %ld KV blocks of %ld tokens\n",
              model->serving.name.c_str(), flags.server.host.c_str(), server->port(), model->serving.contract_id.c_str(),
              model->serving.preset.c_str(), model->serving.kv_type.c_str(), model->serving.model_contract_id.c_str(),
              model->serving.device.c_str(), static_cast<long>(model->transformer->limits().num_blocks),
              static_cast<long>(flags.model.block_size));
  std::fflush(stdout);

  std::thread stopper([&] {
    int signal_number = 0;
    sigwait(&signals, &signal_number);
    server->Stop(flags.drain_seconds);
  });
  server->Run();
  // Run also returns if the listener fails: wake the stopper either way.
  pthread_kill(stopper.native_handle(), SIGTERM);
  stopper.join();
  server.reset();
  running.engine->Stop();
  if (running.recorder != nullptr) ISOBIT_TRY(running.recorder->Close());
  return {};
}

}  // namespace

void AddServeCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over an OpenAI-compatible HTTP API");
  flags->model.AddTo(*command);
  command->add_option("--host", flags->server.host, "Address to listen on")->capture_default_str();
  command->add_option("--port", flags->server.port, "Port; 0: any free one")->capture_default_str();
  command->add_option("--served-model-name", flags->served_name, "Name clients use; default: the file's");
  command->add_option("--api-key", flags->server.api_keys, "A key that clients must send; repeatable; also ISOBIT_API_KEY");
  command->add_option("--api-key-file", flags->api_key_file, "File with one key a line");
  command->add_flag("--open-paths", flags->server.open_paths, "Serve /metrics, /tokenize and /tokenizer_info without a key");
  CLI::Option* seed = command->add_option("--default-seed", flags->default_seed, "Seed of requests that bring none; default: drawn and returned");
  command->add_flag("--strict-fields", flags->server.strict_fields, "Answer 400 to unknown request fields");
  command->add_flag("--metrics-compat-vllm,!--no-metrics-compat-vllm", flags->server.metrics_compat_vllm,
                    "Also publish metrics under vLLM's names (on)");
  command->add_option("--max-body-bytes", flags->server.max_body_bytes, "Largest request body")->capture_default_str();
  command->add_option("--drain-seconds", flags->drain_seconds, "How long answers may finish after SIGTERM")->capture_default_str();
  command->add_flag("--quiet", flags->quiet, "No request log");
  command->footer("Examples:\n"
                  "  isobit serve --model SmolLM2.gguf --port 8000\n"
                  "  isobit serve --model SmolLM2.gguf --contract tensor-core --api-key secret\n"
                  "  curl -s http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
                  "       -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"temperature\":0}'");
  command->callback([flags, seed, exit_code] {
    if (seed->count() > 0) flags->server.default_seed = flags->default_seed;
    const Status status = Serve(*flags);
    *exit_code = status.ok() ? 0 : PrintError(status.error());
  });
}

}  // namespace isobit
