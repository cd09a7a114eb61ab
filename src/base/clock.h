// Clock: the one way to ask for the time. Real in apps, virtual in tests and the simulator. Time never reaches an output.
#pragma once

#include <cstdint>

namespace isobit {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t MonotonicNanos() const = 0;
  virtual std::int64_t UnixSeconds() const = 0;
};

// The machine's clocks. The only implementation that reads them.
class SystemClock final : public Clock {
 public:
  std::int64_t MonotonicNanos() const override;
  std::int64_t UnixSeconds() const override;
};

// A clock that moves only when told to.
class ManualClock final : public Clock {
 public:
  std::int64_t MonotonicNanos() const override { return nanos_; }
  std::int64_t UnixSeconds() const override { return nanos_ / 1'000'000'000; }
  void Advance(std::int64_t nanos) { nanos_ += nanos; }

 private:
  std::int64_t nanos_ = 0;
};

}  // namespace isobit
