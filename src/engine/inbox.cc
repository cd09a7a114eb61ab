#include "engine/inbox.h"

#include <utility>

namespace isobit {

Result<RequestId> Inbox::Push(GenerationRequest request, EventSink sink) {
  const std::lock_guard lock(mutex_);
  if (closed_)
    return Fail(ErrorCode::kCancelled, "",
                "the engine is stopped; send the request to another server");
  const auto num_waiting = static_cast<std::int64_t>(content_.arrivals.size()) + waiting_in_engine_;
  if (num_waiting >= max_waiting_) {
    return Fail(ErrorCode::kResourceExhausted, "",
                "{} requests are waiting, the maximum; retry later", num_waiting);
  }
  const RequestId id = ++last_id_;
  content_.arrivals.push_back({id, std::move(request), std::move(sink)});
  changed_.notify_one();
  return id;
}

void Inbox::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (id == 0 || id > last_id_) return;  // nobody's; it must not hit a request yet to come
  content_.cancelled.insert(id);
  changed_.notify_one();
}

void Inbox::ClearPrefixCache() {
  const std::lock_guard lock(mutex_);
  content_.clear_prefix_cache = true;
  changed_.notify_one();
}

InboxContent Inbox::Take() {
  const std::lock_guard lock(mutex_);
  waiting_in_engine_ += static_cast<std::int64_t>(content_.arrivals.size());
  return std::exchange(content_, {});
}

void Inbox::SetWaitingInEngine(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  waiting_in_engine_ = count;
}

std::int64_t Inbox::num_pending() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(content_.arrivals.size());
}

void Inbox::WaitForContent() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return HasContent() || woken_; });
  woken_ = false;
}

void Inbox::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_one();
}

void Inbox::SetClosed(bool closed) {
  const std::lock_guard lock(mutex_);
  closed_ = closed;
}

}  // namespace isobit
