#include "isobit/in_process_server.h"

#include <fmt/format.h>

#include <thread>

#include "isobit/loaded_model.h"
#include "serve/server.h"

namespace isobit {
namespace {

class LoopbackServer final : public InProcessServer {
 public:
  LoopbackServer(std::unique_ptr<LoadedModel> model, RunningEngine running, std::unique_ptr<Server> server)
      : model_(std::move(model)), running_(std::move(running)), server_(std::move(server)) {
    url_ = fmt::format("http://127.0.0.1:{}", server_->port());
    running_.engine->Start();
    thread_ = std::thread([this] { server_->Run(); });
  }

  ~LoopbackServer() override {
    server_->Stop(/*drain_seconds=*/0);
    thread_.join();
    server_.reset();
    running_.engine->Stop();
  }

  const std::string& url() const override { return url_; }

 private:
  std::unique_ptr<LoadedModel> model_;
  RunningEngine running_;
  std::unique_ptr<Server> server_;
  std::string url_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<InProcessServer>> StartInProcessServer(const ModelFlags& flags, const Clock& clock,
                                                              const std::function<void(std::string_view)>& progress) {
  ISOBIT_ASSIGN(auto model, LoadModel(flags, clock, progress));
  ISOBIT_TRY(model->RequireTokenizer());
  ISOBIT_ASSIGN(auto running, MakeEngine(flags, *model, clock));
  ServerConfig config;
  config.port = 0;
  ISOBIT_ASSIGN(auto server, Server::Create(config, model->serving, *running.engine, clock));
  return std::unique_ptr<InProcessServer>(new LoopbackServer(std::move(model), std::move(running), std::move(server)));
}

}  // namespace isobit
