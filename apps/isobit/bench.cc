// isobit bench: how fast this build runs a model here, what bounds it, and whether the bits stayed: a digest beside every figure.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "isobit/bench_bandwidth.h"
#include "isobit/bench_engine.h"
#include "isobit/bench_peer.h"
#include "isobit/commands.h"
#include "isobit/output.h"
#include "serve/version.h"

namespace isobit {
namespace {

struct BenchFlags {
  ModelFlags model;
  std::int64_t prefill = 512;
  std::int64_t decode = 128;
  std::int64_t context = 128;
  std::vector<std::int64_t> streams = {1, 4, 16};
  std::int64_t rounds = 3;
  std::uint32_t seed = 1;
  std::int64_t buffer_mib = 512;
  std::string peer, peer_python = "python3", peer_script;
  std::string json;
  bool plans = false;
};

// Figures of the same thing over the rounds.
struct Series {
  std::vector<double> values;

  double Median() const {
    std::vector<double> sorted = values;
    std::ranges::sort(sorted);
    const std::size_t n = sorted.size();
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  }
  double Min() const { return *std::ranges::min_element(values); }
  double Max() const { return *std::ranges::max_element(values); }
  // Of the range around the median: 0.1 is "10 %".
  double Spread() const { return (Max() - Min()) / Median(); }
};

// One piece of work and everything that was measured of it.
struct Row {
  BenchWork work;
  std::vector<std::vector<std::int32_t>> prompts;
  std::string digest;                             // of the warm-up: tokens and log-probabilities
  std::vector<std::vector<std::int32_t>> tokens;  // of the warm-up; every round must repeat them
  Series rate;                                    // tokens per second
  Series forward_share;                           // of the time, in LanguageModel::Forward
  std::vector<Series> peer_rates;                 // [variant]

  std::size_t BestVariant() const {
    const auto best = std::ranges::max_element(peer_rates, {}, [](const Series& series) { return series.Median(); });
    return static_cast<std::size_t>(best - peer_rates.begin());
  }
  double Ratio() const { return rate.Median() / peer_rates[BestVariant()].Median(); }
};

struct Report {
  std::vector<Row> rows;
  Series copy, read, read_weights;  // bytes per second
  std::int64_t weight_bytes = 0;    // of every tensor that a step reads whole, as stored in the checkpoint
  std::int64_t kv_token_bytes = 0;  // of one position
  std::unique_ptr<BenchPeer> peer;  // may be null

  // What decode must move at least in a second: the weights once a step, and each stream's KV up to the middle of the run.
  double WeightRate(const Row& row) const {
    return row.rate.Median() / static_cast<double>(row.work.streams) * static_cast<double>(weight_bytes);
  }
  double KvRate(const Row& row) const {
    return row.rate.Median() * static_cast<double>(kv_token_bytes) *
           (static_cast<double>(row.work.prompt_tokens) + static_cast<double>(row.work.steps) / 2);
  }
};

Status CheckFlags(const BenchFlags& flags) {
  const auto in_range = [](const char* flag, std::int64_t value, std::int64_t low, std::int64_t high) -> Status {
    if (value >= low && value <= high) return {};
    return Fail(ErrorCode::kInvalidArgument, flag, "{} is out of range; use {} to {}", value, low, high);
  };
  ISOBIT_TRY(in_range("--prefill", flags.prefill, 0, 1 << 20));
  ISOBIT_TRY(in_range("--decode", flags.decode, 0, 1 << 20));
  ISOBIT_TRY(in_range("--context", flags.context, 1, 1 << 20));
  ISOBIT_TRY(in_range("--rounds", flags.rounds, 1, 1000));
  ISOBIT_TRY(in_range("--bandwidth-mib", flags.buffer_mib, 1, 1 << 16));
  for (const std::int64_t streams : flags.streams) ISOBIT_TRY(in_range("--streams", streams, 1, 1024));
  if (flags.prefill == 0 && (flags.decode == 0 || flags.streams.empty())) {
    return Fail(ErrorCode::kInvalidArgument, "--prefill", "and --decode are both 0: nothing is left to measure");
  }
  // Divisors of the work's sizes; LoadModel checks them too, but later.
  ISOBIT_TRY(in_range("--prefill-chunk", flags.model.prefill_chunk, 1, std::int64_t{1} << 31));
  ISOBIT_TRY(in_range("--block-size", flags.model.block_size, 8, 256));
  if (!flags.peer.empty() && flags.peer != "llama-cpp-python") {
    return Fail(ErrorCode::kInvalidArgument, "--peer", "\"{}\" is not known; use llama-cpp-python", flags.peer);
  }
  return {};
}

std::vector<BenchWork> Works(const BenchFlags& flags) {
  std::vector<BenchWork> works;
  if (flags.prefill > 0) works.push_back({.streams = 1, .prompt_tokens = flags.prefill, .steps = 0});
  if (flags.decode == 0) return works;
  for (const std::int64_t streams : flags.streams) {
    works.push_back({.streams = streams, .prompt_tokens = flags.context, .steps = flags.decode});
  }
  return works;
}

Status CheckLengths(const std::vector<BenchWork>& works, const ModelFlags& flags, std::int64_t max_model_len) {
  for (const BenchWork& work : works) {
    const std::int64_t length = work.MaxLength(flags.prefill_chunk);
    if (length <= max_model_len) continue;
    return Fail(ErrorCode::kInvalidArgument, work.steps == 0 ? "--prefill" : "--decode",
                "\"{}\" needs sequences of {} tokens, the model's maximum context length is {}; ask for less", work.Name(), length,
                max_model_len);
  }
  return {};
}

int NumThreads(int asked) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (asked != 0 || sched_getaffinity(0, sizeof set, &set) != 0) return std::max(1, asked);
  return std::max(1, CPU_COUNT(&set));
}

// A tied embedding is the head, so it is read whole; an untied one is read a row at a time and does not count.
std::int64_t WeightBytes(const Checkpoint& checkpoint) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (name == "model.embed_tokens.weight" && !checkpoint.config().tied_head) continue;
    bytes += static_cast<std::int64_t>(tensor.data.size());
  }
  return bytes;
}

// tools/bench_peer.py of the source tree that this program was built in: build/PRESET/isobit.
Result<std::string> PeerScript(const std::string& asked) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path script =
      !asked.empty() ? std::filesystem::path(asked)
                     : program.parent_path().parent_path().parent_path() / "tools" / "bench_peer.py";
  if (std::filesystem::is_regular_file(script, error)) return script.string();
  return Fail(ErrorCode::kNotFound, "--peer-script", "{} is not there; name tools/bench_peer.py of isobit's source tree", script.string());
}

// --- Measuring -------------------------------------------------------------------------------------------------------------------

class Measurement {
 public:
  Measurement(const BenchFlags& flags, EngineBench& engine, BandwidthProbe& probe, ProgressLine& progress, Report& report)
      : flags_(flags), engine_(engine), probe_(probe), progress_(progress), report_(report) {}

  // The pieces of work take turns within a round, and isobit and the peer within a piece: a machine that slows down slows both.
  Status Run() {
    for (Row& row : report_.rows) ISOBIT_TRY(WarmUp(row));
    for (std::int64_t round = 1; round <= flags_.rounds; ++round) {
      round_ = round;
      MeasureBandwidth();
      for (Row& row : report_.rows) {
        ISOBIT_TRY(MeasureOwn(row));
        ISOBIT_TRY(MeasurePeer(row));
      }
    }
    return {};
  }

 private:
  void Show(const char* who, const Row& row) {
    const std::string when = round_ == 0 ? "warm-up" : fmt::format("round {} of {}", round_, flags_.rounds);
    progress_.Show(fmt::format("{}: {}, {}", when, row.work.Name(), who));
  }

  Status WarmUp(Row& row) {
    Show("isobit", row);
    ISOBIT_ASSIGN(BenchSample sample, engine_.Run(row.work, row.prompts, /*with_logprobs=*/true));
    row.digest = std::move(sample.digest);
    row.tokens = std::move(sample.tokens);
    if (report_.peer == nullptr) return {};
    row.peer_rates.resize(report_.peer->variants().size());
    for (const std::string& variant : report_.peer->variants()) {
      Show(variant.c_str(), row);
      ISOBIT_TRY(report_.peer->Run(variant, row.prompts, row.work.steps));
    }
    return {};
  }

  void MeasureBandwidth() {
    const Bandwidth bandwidth = probe_.Measure();
    report_.copy.values.push_back(bandwidth.copy);
    report_.read.values.push_back(bandwidth.read);
    report_.read_weights.values.push_back(bandwidth.read_weights);
  }

  Status MeasureOwn(Row& row) {
    Show("isobit", row);
    ISOBIT_ASSIGN(const BenchSample sample, engine_.Run(row.work, row.prompts, /*with_logprobs=*/false));
    if (sample.tokens != row.tokens) {
      return Fail(ErrorCode::kInternal, row.work.Name(), "round {} gave other tokens than the warm-up: a fault of isobit, report it", round_);
    }
    row.rate.values.push_back(static_cast<double>(row.work.TimedTokens()) / sample.seconds);
    row.forward_share.values.push_back(sample.forward_seconds / sample.seconds);
    return {};
  }

  Status MeasurePeer(Row& row) {
    if (report_.peer == nullptr) return {};
    for (std::size_t i = 0; i < row.peer_rates.size(); ++i) {
      const std::string& variant = report_.peer->variants()[i];
      Show(variant.c_str(), row);
      ISOBIT_ASSIGN(const BenchPeer::Sample sample, report_.peer->Run(variant, row.prompts, row.work.steps));
      row.peer_rates[i].values.push_back(static_cast<double>(row.work.TimedTokens()) / sample.seconds);
    }
    return {};
  }

  const BenchFlags& flags_;
  EngineBench& engine_;
  BandwidthProbe& probe_;
  ProgressLine& progress_;
  Report& report_;
  std::int64_t round_ = 0;
};

// --- Telling ---------------------------------------------------------------------------------------------------------------------

// Four significant digits: more would be noise.
double Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10.0, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

Json SeriesJson(const Series& series, double unit = 1) {
  Json rounds = Json::array();
  for (const double value : series.values) rounds.push_back(Rounded(value / unit));
  return {{"median", Rounded(series.Median() / unit)},
          {"min", Rounded(series.Min() / unit)},
          {"max", Rounded(series.Max() / unit)},
          {"rounds", rounds}};
}

Json RowJson(const Row& row, const Report& report) {
  Json json = {{"name", row.work.Name()},
               {"kind", row.work.steps == 0 ? "prefill" : "decode"},
               {"streams", row.work.streams},
               {"prompt_tokens", row.work.prompt_tokens},
               {"steps", row.work.steps},
               {"tokens_per_second", SeriesJson(row.rate)},
               {"forward_share", Rounded(row.forward_share.Median())},
               {"digest", row.digest}};
  if (row.work.steps > 0) {
    const double moved = report.WeightRate(row) + report.KvRate(row);
    json["weight_gb_per_second"] = Rounded(report.WeightRate(row) / 1e9);
    json["kv_gb_per_second"] = Rounded(report.KvRate(row) / 1e9);
    json["weight_share_of_copy"] = Rounded(report.WeightRate(row) / report.copy.Median());
    json["share_of_read"] = Rounded(moved / report.read_weights.Median());
  }
  if (report.peer != nullptr) {
    Json variants;
    for (std::size_t i = 0; i < row.peer_rates.size(); ++i) variants[report.peer->variants()[i]] = SeriesJson(row.peer_rates[i]);
    json["peer"] = {{"best", report.peer->variants()[row.BestVariant()]}, {"tokens_per_second", variants}};
    json["ratio"] = Rounded(row.Ratio());
  }
  return json;
}

Json ReportJson(const BenchFlags& flags, const LoadedModel& model, const Report& report) {
  Json work = Json::array();
  for (const Row& row : report.rows) work.push_back(RowJson(row, report));
  Json json = {{"isobit", kVersion},
               {"model", model.serving.name},
               {"contract_id", model.serving.contract_id},
               {"model_contract_id", model.serving.model_contract_id},
               {"preset", model.serving.preset},
               {"kv_type", model.serving.kv_type},
               {"device", model.serving.device},
               {"threads", flags.model.threads},
               {"rounds", flags.rounds},
               {"seed", flags.seed},
               {"weight_bytes", report.weight_bytes},
               {"kv_bytes_per_token", report.kv_token_bytes},
               {"bandwidth_gb_per_second",
                {{"copy", SeriesJson(report.copy, 1e9)},
                 {"read", SeriesJson(report.read, 1e9)},
                 {"read_weights", SeriesJson(report.read_weights, 1e9)}}},
               {"work", work}};
  if (report.peer != nullptr) json["peer"] = report.peer->about();
  if (flags.plans) json["plans"] = model.backend->Plans();
  return json;
}

void PrintTable(const BenchFlags& flags, const LoadedModel& model, const Report& report) {
  fmt::print("{}: {}, KV {}, {}, contract {:.12}, {} rounds\n", model.serving.name, model.serving.preset, model.serving.kv_type,
             model.serving.device, model.serving.contract_id, flags.rounds);
  fmt::print("memory: copy {:.1f} GB/s, read {:.1f} GB/s, read of {:.1f} MB (the weights' size) {:.1f} GB/s\n", report.copy.Median() / 1e9,
             report.read.Median() / 1e9, static_cast<double>(report.weight_bytes) / 1e6, report.read_weights.Median() / 1e9);
  const bool with_peer = report.peer != nullptr;
  if (with_peer) {
    fmt::print("peer: {}, the faster of", report.peer->name());
    fmt::print(" {}\n", fmt::join(report.peer->variants(), " and "));
  }
  fmt::print("\n{:<18} {:>10} {:>7} {:>8} {:>9} {:>8}", "work", "tokens/s", "spread", "forward", "weights", "of read");
  if (with_peer) fmt::print(" {:>10} {:>7} {:>7}", "peer", "spread", "ratio");
  fmt::print("  digest\n");
  for (const Row& row : report.rows) {
    fmt::print("{:<18} {:>10.1f} {:>5.0f} % {:>6.0f} %", row.work.Name(), row.rate.Median(), 100 * row.rate.Spread(),
               100 * row.forward_share.Median());
    if (row.work.steps > 0) {
      fmt::print(" {:>4.1f} GB/s {:>6.0f} %", report.WeightRate(row) / 1e9,
                 100 * (report.WeightRate(row) + report.KvRate(row)) / report.read_weights.Median());
    } else {
      fmt::print(" {:>9} {:>8}", "", "");
    }
    if (with_peer) {
      const Series& best = row.peer_rates[row.BestVariant()];
      fmt::print(" {:>10.1f} {:>5.0f} % {:>7.2f}", best.Median(), 100 * best.Spread(), row.Ratio());
    }
    fmt::print("  {:.16}\n", row.digest);
  }
}

// --- The command -----------------------------------------------------------------------------------------------------------------

Status Bench(BenchFlags flags) {
  ISOBIT_TRY(CheckFlags(flags));
  const std::vector<BenchWork> works = Works(flags);
  flags.model.threads = NumThreads(flags.model.threads);  // the same number for the backend, the memory and the peer
  FitFlags(works, &flags.model);

  {
    // Before LoadModel takes memory for them.
    ISOBIT_ASSIGN(const auto checkpoint, Checkpoint::Open(flags.model.model));
    const std::int64_t own_maximum = checkpoint->config().max_positions;
    ISOBIT_TRY(CheckLengths(works, flags.model, flags.model.max_model_len == 0 ? own_maximum : flags.model.max_model_len));
  }
  const SystemClock clock;
  ProgressLine progress;
  ISOBIT_ASSIGN(const auto model, LoadModel(flags.model, clock, [&](std::string_view text) { progress.Show(text); }));
  ISOBIT_ASSIGN(EngineBench engine, EngineBench::Create(flags.model, *model, clock));

  Report report;
  report.weight_bytes = WeightBytes(*model->checkpoint);
  report.kv_token_bytes = model->transformer->kv_bytes() / (model->transformer->limits().num_blocks * flags.model.block_size);
  std::int64_t max_length = 0;
  for (const BenchWork& work : works) {
    report.rows.push_back({.work = work, .prompts = BenchPrompts(work, model->transformer->vocab_size(), flags.seed)});
    max_length = std::max(max_length, work.prompt_tokens + 1 + work.steps);
  }
  if (!flags.peer.empty()) {
    progress.Show("starting " + flags.peer);
    ISOBIT_ASSIGN(const std::string script, PeerScript(flags.peer_script));
    ISOBIT_ASSIGN(report.peer, BenchPeer::Start({.python = flags.peer_python,
                                                 .script = script,
                                                 .model = flags.model.model,
                                                 .num_threads = flags.model.threads,
                                                 .max_length = max_length}));
  }
  BandwidthProbe probe(flags.model.threads, flags.buffer_mib << 20, report.weight_bytes, clock);
  ISOBIT_TRY(Measurement(flags, engine, probe, progress, report).Run());
  progress.Show("");

  // JSON on standard output stands alone.
  if (flags.json != "-") PrintTable(flags, *model, report);
  if (flags.json != "-" && flags.plans) fmt::print("\n{}\n", DumpJson(model->backend->Plans(), 2));
  if (!flags.json.empty()) ISOBIT_TRY(WriteJson(flags.json, ReportJson(flags, *model, report)));
  return {};
}

}  // namespace

void AddBenchCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Tokens per second of a model on this machine, what bounds them, and a digest of the answers");
  flags->model.AddNumericTo(*command);
  command->add_option("--prefill", flags->prefill, "Tokens of the one prompt whose prefill is timed; 0: leave it out")->capture_default_str();
  command->add_option("--decode", flags->decode, "Timed steps of decode, one token a stream each; 0: leave it out")->capture_default_str();
  command->add_option("--context", flags->context, "Tokens of each stream before decode is timed")->capture_default_str();
  command->add_option("--streams", flags->streams, "Numbers of streams to time decode with")->delimiter(',')->capture_default_str();
  command->add_option("--rounds", flags->rounds, "Timed rounds, after one warm-up; medians are shown")->capture_default_str();
  command->add_option("--seed", flags->seed, "Chooses the token ids of the prompts")->capture_default_str();
  command->add_option("--bandwidth-mib", flags->buffer_mib, "Size of the buffer that memory is measured with")->capture_default_str();
  command->add_option("--peer", flags->peer, "Measure llama-cpp-python beside it, turn by turn, on the same GGUF file and ids");
  command->add_option("--peer-python", flags->peer_python, "A Python that can import the peer")->capture_default_str();
  command->add_option("--peer-script", flags->peer_script, "tools/bench_peer.py; default: that of the tree isobit was built in");
  command->add_flag("--plans", flags->plans, "Also print which kernel serves which op");
  command->add_option("--json", flags->json, "Write the figures as JSON to this file, or - for standard output");
  command->footer("Examples:\n"
                  "  isobit bench --model SmolLM2.gguf --threads 2\n"
                  "  isobit bench --model SmolLM2.gguf --streams 1 --rounds 5 --peer llama-cpp-python --peer-python venv/bin/python\n"
                  "The digest does not depend on --threads, --block-size, --prefill-chunk, --device or ISOBIT_ISA: a change of it is a change of bits.");
  command->callback([flags, exit_code] {
    const Status status = Bench(*flags);
    *exit_code = status.ok() ? 0 : PrintError(status.error());
  });
}

}  // namespace isobit
