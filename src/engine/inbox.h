// Inbox: where threads hand requests to the engine. The arrival number is given here, under one
// lock: the only place where concurrency becomes order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace isobit {

struct Arrival {
  RequestId id = 0;
  GenerationRequest request;
  EventSink sink;
};

// Everything that was asked of the engine since the last step.
struct InboxContent {
  std::vector<Arrival> arrivals;  // by id
  std::set<RequestId> cancelled;  // ids that were given out; may be finished long ago
  bool clear_prefix_cache = false;

  bool empty() const { return arrivals.empty() && cancelled.empty() && !clear_prefix_cache; }
};

class Inbox {
 public:
  explicit Inbox(std::int64_t max_waiting) : max_waiting_(max_waiting) {}

  // kResourceExhausted if max_waiting requests wait here or in the engine's queue; kCancelled if
  // closed.
  Result<RequestId> Push(GenerationRequest request, EventSink sink);
  void Cancel(RequestId id);
  void ClearPrefixCache();

  // Takes all. The arrivals count as waiting in the engine from now on.
  InboxContent Take();
  // How many requests wait in the engine's own queue after a step.
  void SetWaitingInEngine(std::int64_t count);
  std::int64_t num_pending() const;

  // Blocks until there is something to take, or Wake.
  void WaitForContent();
  // Ends the current or next wait.
  void Wake();
  // Refuses pushes while closed.
  void SetClosed(bool closed);

 private:
  bool HasContent() const { return !content_.empty(); }

  const std::int64_t max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  InboxContent content_;
  RequestId last_id_ = 0;
  std::int64_t waiting_in_engine_ = 0;
  bool closed_ = false;
  bool woken_ = false;
};

}  // namespace isobit
