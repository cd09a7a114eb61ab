#include "isobit/bench_bandwidth.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace isobit {
namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kMaxWeightBytes = std::int64_t{1} << 30;  // past every cache: more would only cost memory
constexpr int kPasses = 4;

std::int64_t WholeLines(std::int64_t bytes) { return std::max(kLine, bytes / kLine * kLine); }

// Reads every byte. Eight independent accumulators, so that loads wait for memory only.
void ReadAll(const std::byte* from, std::int64_t num_lines) {
  const float* at = reinterpret_cast<const float*>(from);
  __m256 sums[8] = {};
  std::int64_t line = 0;
  for (; line + 4 <= num_lines; line += 4, at += 64) {
    for (int i = 0; i < 8; ++i) sums[i] = _mm256_xor_ps(sums[i], _mm256_load_ps(at + 8 * i));
  }
  for (; line < num_lines; ++line, at += 16) {
    for (int i = 0; i < 2; ++i) sums[i] = _mm256_xor_ps(sums[i], _mm256_load_ps(at + 8 * i));
  }
  for (int i = 1; i < 8; ++i) sums[0] = _mm256_xor_ps(sums[0], sums[i]);
  asm volatile("" : : "x"(sums[0]));  // "is used": or the compiler would leave the loads out
}

}  // namespace

BandwidthProbe::BandwidthProbe(int num_threads, std::int64_t buffer_bytes, std::int64_t weight_bytes, const Clock& clock)
    : pool_(num_threads),
      clock_(clock),
      buffer_bytes_(WholeLines(buffer_bytes)),
      weight_bytes_(WholeLines(std::min(weight_bytes, kMaxWeightBytes))),
      memory_(std::max(buffer_bytes_, weight_bytes_)) {}

template <class Pass>
double BandwidthProbe::BestRate(std::int64_t bytes, const Pass& pass) {
  std::int64_t best = -1;
  for (int i = 0; i < kPasses; ++i) {
    const std::int64_t start = clock_.MonotonicNanos();
    pass();
    const std::int64_t nanos = clock_.MonotonicNanos() - start;
    if (best < 0 || nanos < best) best = nanos;
  }
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<std::int64_t>(best, 1));
}

Bandwidth BandwidthProbe::Measure() {
  const auto read = [&](std::int64_t num_bytes) {
    pool_.Run([&](int worker) {
      const Share share = ShareOf(num_bytes / kLine, worker, pool_.size());
      ReadAll(memory_.data() + share.begin * kLine, share.end - share.begin);
    });
  };
  const std::int64_t half = buffer_bytes_ / 2;
  Bandwidth rates;
  rates.copy = BestRate(2 * half, [&] {
    pool_.Run([&](int worker) {
      const Share share = ShareOf(half, worker, pool_.size());
      std::memcpy(memory_.data() + half + share.begin, memory_.data() + share.begin, share.end - share.begin);
    });
  });
  rates.read = BestRate(buffer_bytes_, [&] { read(buffer_bytes_); });
  rates.read_weights = BestRate(weight_bytes_, [&] { read(weight_bytes_); });
  return rates;
}

}  // namespace isobit
