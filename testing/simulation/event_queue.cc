#include "testing/simulation/event_queue.h"

#include <algorithm>
#include <utility>

namespace millrace::simulation {

void EventQueue::After(absl::Duration delay, Process* process, Body body) {
  const absl::Duration at = now_ + std::max(delay, absl::ZeroDuration());
  heap_.push_back({at, next_order_++, process, std::move(body)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

void EventQueue::MoveTo(absl::Duration at) {
  if (at <= now_) return;
  clock_.Advance(at - now_);
  now_ = at;
}

bool EventQueue::RunNext(absl::Duration end) {
  if (heap_.empty() || heap_.front().at > end) {
    MoveTo(end);
    return false;
  }
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  Event event = std::move(heap_.back());
  heap_.pop_back();
  MoveTo(event.at);
  if (event.process != nullptr && !event.process->alive()) return true;
  if (event.process != nullptr && event.process->stopped()) {
    event.process->waiting_.push_back(std::move(event.body));
    return true;
  }
  ++events_;
  event.body();
  return true;
}

void EventQueue::RunFor(absl::Duration duration) {
  const absl::Duration end = now_ + duration;
  while (RunNext(end)) {
  }
}

void EventQueue::Continue(Process* process) {
  if (process->stops_ == 0 || --process->stops_ > 0) return;
  std::deque<Body> waiting = std::exchange(process->waiting_, {});
  for (Body& body : waiting) After(absl::ZeroDuration(), process, std::move(body));
}

void EventQueue::Kill(Process* process) {
  process->alive_ = false;
  process->waiting_.clear();
}

}  // namespace millrace::simulation
