#include "core/agent/loop/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/clock.h"
#include "core/base/log.h"

namespace millrace {
namespace {

constexpr uint64_t kWakeupId = 0;  // watches have ids from 1

}  // namespace

void EventLoop::Mailbox::Post(Closure closure) {
  MutexLock lock(&mu_);
  if (!wakeup_.valid()) return;
  closures_.push_back(std::move(closure));
  const uint64_t one = 1;
  (void)!write(wakeup_.get(), &one, sizeof(one));  // EAGAIN: the loop will wake up anyway
}

std::vector<EventLoop::Closure> EventLoop::Mailbox::Take() {
  MutexLock lock(&mu_);
  uint64_t count;
  (void)!read(wakeup_.get(), &count, sizeof(count));
  return std::exchange(closures_, {});
}

void EventLoop::Mailbox::Close() {
  std::vector<Closure> dropped;  // destroyed without the lock: their captures may do anything
  MutexLock lock(&mu_);
  wakeup_.reset();
  dropped.swap(closures_);
}

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return absl::ErrnoToStatus(errno, "cannot create an epoll instance");
  UniqueFd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.valid()) return absl::ErrnoToStatus(errno, "cannot create an eventfd");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeupId}};
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wakeup.get(), &event) != 0) {
    return absl::ErrnoToStatus(errno, "cannot watch an eventfd");
  }
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wakeup)));
}

EventLoop::EventLoop(UniqueFd epoll, UniqueFd wakeup)
    : epoll_(std::move(epoll)), mailbox_(std::make_shared<Mailbox>()) {
  MutexLock lock(&mailbox_->mu_);
  mailbox_->wakeup_ = std::move(wakeup);
}

EventLoop::~EventLoop() { mailbox_->Close(); }

absl::Status EventLoop::Watch(int fd, uint32_t events, FdCallback callback) {
  MILLRACE_DCHECK(thread_.IsOnSameThread());
  MILLRACE_CHECK(!watch_of_fd_.contains(fd)) << "descriptor " << fd << " is watched already";
  const uint64_t id = next_id_++;
  epoll_event event{.events = events, .data = {.u64 = id}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return absl::ErrnoToStatus(errno, "cannot watch a descriptor");
  }
  auto entry = std::make_shared<WatchEntry>();
  entry->fd = fd;
  entry->events = events;
  entry->callback = std::move(callback);
  watches_.emplace(id, std::move(entry));
  watch_of_fd_.emplace(fd, id);
  return absl::OkStatus();
}

void EventLoop::SetEvents(int fd, uint32_t events) {
  MILLRACE_DCHECK(thread_.IsOnSameThread());
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) return;
  WatchEntry& entry = *watches_.at(found->second);
  if (entry.events == events) return;
  entry.events = events;
  epoll_event event{.events = events, .data = {.u64 = found->second}};
  const int result = epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
  MILLRACE_CHECK(result == 0) << "epoll_ctl of descriptor " << fd << ": errno " << errno;
}

void EventLoop::Unwatch(int fd) {
  MILLRACE_DCHECK(thread_.IsOnSameThread());
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_.erase(found->second);
  watch_of_fd_.erase(found);
}

EventLoop::TimerId EventLoop::After(absl::Duration delay, Closure closure) {
  MILLRACE_DCHECK(thread_.IsOnSameThread());
  const TimerId id = next_id_++;
  const absl::Duration time = RealClock()->SteadyNow() + std::max(delay, absl::ZeroDuration());
  timers_.emplace(std::make_pair(time, id), std::move(closure));
  timer_times_.emplace(id, time);
  return id;
}

void EventLoop::Cancel(TimerId* id) {
  MILLRACE_DCHECK(thread_.IsOnSameThread());
  const auto found = timer_times_.find(std::exchange(*id, kNoTimer));
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, found->first});
  timer_times_.erase(found);
}

void EventLoop::Run() {
  quit_ = false;
  while (!quit_) RunOnce(absl::InfiniteDuration());
}

bool EventLoop::RunUntil(absl::AnyInvocable<bool()> done, absl::Duration timeout) {
  const absl::Duration deadline = RealClock()->SteadyNow() + timeout;
  while (!done()) {
    const absl::Duration left = deadline - RealClock()->SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    RunOnce(left);
  }
  return true;
}

absl::Duration EventLoop::WaitTime(absl::Duration max_wait) const {
  if (timers_.empty()) return max_wait;
  return std::min(max_wait, timers_.begin()->first.first - RealClock()->SteadyNow());
}

void EventLoop::RunOnce(absl::Duration max_wait) {
  MILLRACE_DCHECK(thread_.IsOnSameThread());
  constexpr absl::Duration kLongest = absl::Hours(1);  // fits epoll's int of milliseconds
  const absl::Duration wait = std::clamp(WaitTime(max_wait), absl::ZeroDuration(), kLongest);
  const int wait_ms =
      static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms);
  MILLRACE_CHECK(count >= 0 || errno == EINTR) << "epoll_wait: errno " << errno;
  bool woken = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t id = events[i].data.u64;  // a copy: epoll_event is packed
    if (id == kWakeupId) {
      woken = true;
      continue;
    }
    const auto found = watches_.find(id);
    if (found == watches_.end()) continue;  // unwatched by an earlier callback of this round
    const std::shared_ptr<WatchEntry> entry = found->second;  // may be unwatched by its callback
    entry->callback(events[i].events);
  }
  if (woken) RunMailbox();
  RunTimers();
}

void EventLoop::RunMailbox() {
  for (Closure& closure : mailbox_->Take()) closure();
}

void EventLoop::RunTimers() {
  // Timers that are due now; one that a callback starts with no delay waits for the next round.
  const absl::Duration now = RealClock()->SteadyNow();
  const TimerId first_new = next_id_;
  for (auto next = timers_.begin(); next != timers_.end() && next->first.first <= now;
       next = timers_.begin()) {
    if (next->first.second >= first_new) break;
    Closure closure = std::move(next->second);
    timer_times_.erase(next->first.second);
    timers_.erase(next);
    closure();
  }
}

}  // namespace millrace
