#include "backend_cpu/thread_pool.h"

#include <xmmintrin.h>

#include "base/check.h"
#include "contract/contract.h"

namespace isobit {
namespace {

// Spinning covers the gap between two ops of a step (a few microseconds); between steps a thread sleeps in the kernel.
constexpr int kSpins = 400;

// Returns the value once it differs from `old`.
std::uint32_t AwaitChange(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    _mm_pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : size_(num_threads) {
  ISOBIT_CHECK(num_threads >= 1);
  contract::AssertFloatEnvironment();
  for (int worker = 1; worker < size_; ++worker) threads_.emplace_back([this, worker] { WorkerLoop(worker); });
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::RunErased(Function function, const void* context) {
  if (size_ == 1) return function(context, 0);
  function_ = function;
  context_ = context;
  pending_.store(static_cast<std::uint32_t>(size_ - 1), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  function(context, 0);
  for (std::uint32_t left = pending_.load(std::memory_order_acquire); left != 0;) left = AwaitChange(pending_, left);
}

void ThreadPool::WorkerLoop(int worker) {
  contract::AssertFloatEnvironment();
  std::uint32_t seen = 0;
  while (true) {
    // One epoch at a time: Run does not start the next before every worker has finished this one.
    seen = AwaitChange(epoch_, seen);
    if (stopping_) return;
    function_(context_, worker);
    pending_.fetch_sub(1, std::memory_order_acq_rel);
    pending_.notify_one();
  }
}

}  // namespace isobit
