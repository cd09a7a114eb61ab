// ThreadPool: a fixed number of workers that each take a static share of one task, and sleep between tasks. It decides who computes,
// never what: every split is over independent outputs.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace isobit {

// The half-open part of [0, total) that worker `index` of `count` owns.
struct Share {
  std::int64_t begin, end;
};
inline Share ShareOf(std::int64_t total, int index, int count) {
  return {total * index / count, total * (index + 1) / count};
}

class ThreadPool {
 public:
  // num_threads counts the caller of Run, which is worker 0.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // task(worker) once for each worker of [0, size()); returns when all are done. One Run at a time.
  template <class Task>
  void Run(const Task& task) {
    RunErased([](const void* context, int worker) { (*static_cast<const Task*>(context))(worker); }, &task);
  }

 private:
  using Function = void (*)(const void* context, int worker);
  void RunErased(Function function, const void* context);
  void WorkerLoop(int worker);

  int size_;
  std::vector<std::thread> threads_;
  Function function_ = nullptr;  // written before epoch_ moves, read after
  const void* context_ = nullptr;
  bool stopping_ = false;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<std::uint32_t> pending_{0};
};

}  // namespace isobit
