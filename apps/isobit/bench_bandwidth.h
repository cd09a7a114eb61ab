// BandwidthProbe: how fast this machine moves memory right now, with as many threads as the backend: the bound of decode.
#pragma once

#include <cstdint>

#include "backend_cpu/aligned_buffer.h"
#include "backend_cpu/thread_pool.h"
#include "base/clock.h"

namespace isobit {

// In bytes per second.
struct Bandwidth {
  double copy = 0;          // memcpy of one half of the buffer to the other; bytes read plus bytes written
  double read = 0;          // the whole buffer
  double read_weights = 0;  // as many bytes as the weights have, again and again: what fits a cache comes from there, as in decode
};

class BandwidthProbe {
 public:
  BandwidthProbe(int num_threads, std::int64_t buffer_bytes, std::int64_t weight_bytes, const Clock& clock);

  // The best of a few passes each: a bound is what the machine can do, not what it did while disturbed.
  Bandwidth Measure();

 private:
  template <class Pass>
  double BestRate(std::int64_t bytes, const Pass& pass);

  ThreadPool pool_;
  const Clock& clock_;
  const std::int64_t buffer_bytes_, weight_bytes_;  // whole cache lines
  cpu::AlignedBuffer memory_;
};

}  // namespace isobit
