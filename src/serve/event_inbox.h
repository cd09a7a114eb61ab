// EventInbox: the engine's events on their way to the server's thread, in the order in which the engine spoke. One wake-up serves
// all that came since the last one.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace isobit {

// Names the receiver by number: a sink may die on the engine's thread, and nothing of the server may die with it.
struct InboxEvent {
  std::uint64_t generation = 0;
  std::size_t choice = 0;   // which of its engine requests
  std::int64_t nanos = 0;   // when the engine spoke
  EngineEvent event;
};

class EventInbox {
 public:
  // wake: called once when events are waiting and none were; must not block.
  void Open(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }
  // Thread-safe; what comes later is dropped. The engine may outlive the server.
  void Close() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    events_.clear();
  }
  // On the engine's thread.
  void Push(InboxEvent event) {
    const std::lock_guard lock(mutex_);
    if (!wake_) return;
    events_.push_back(std::move(event));
    if (events_.size() == 1) wake_();
  }
  std::vector<InboxEvent> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<InboxEvent> events_;
};

}  // namespace isobit
