// BenchPeer: another engine in a child process that stays up and takes work over its standard input, so that loading, and Python's
// start, are in no figure. tools/bench_peer.py is the other end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace isobit {

class BenchPeer {
 public:
  struct Options {
    std::string python = "python3";
    std::string script;  // tools/bench_peer.py
    std::string model;
    int num_threads = 1;
    std::int64_t max_length = 0;  // tokens of the longest stream
  };

  // kNotFound (field "--peer-python") if the package that the peer needs cannot be imported: the message names it.
  static Result<std::unique_ptr<BenchPeer>> Start(const Options& options);
  ~BenchPeer();

  const std::string& name() const { return name_; }                       // "llama-cpp-python 0.3.36"
  const Json& about() const { return about_; }                             // name, version, system
  const std::vector<std::string>& variants() const { return variants_; }  // ways to run it, each measured; the best one counts

  struct Sample {
    double seconds = 0;  // of the same timed part as BenchSample
    std::vector<std::vector<std::int32_t>> tokens;  // [streams][1 + steps]; informative: the peer has other numerics
  };
  Result<Sample> Run(const std::string& variant, const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t steps);

 private:
  BenchPeer() = default;
  Status Spawn(const Options& options);
  Result<Json> Ask(const Json& request);

  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  std::string name_;
  Json about_;
  std::vector<std::string> variants_;
};

}  // namespace isobit
