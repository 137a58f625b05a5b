// File: core/agent/loop/event_loop.h
//
// The agent's one loop: file descriptors, timers, and closures that other threads hand over.
//
// Defines: EventLoop, EventLoop::Mailbox.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto loop, EventLoop::Create());
//   MILLRACE_RETURN_IF_ERROR(loop->Watch(fd, EPOLLIN, [&](uint32_t) { ReadMore(); }));
//   loop->After(absl::Seconds(1), [&] { loop->Quit(); });
//   std::shared_ptr<EventLoop::Mailbox> mailbox = loop->mailbox();   // for other threads
//   loop->Run();

#ifndef CORE_AGENT_LOOP_EVENT_LOOP_H_
#define CORE_AGENT_LOOP_EVENT_LOOP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread_checker.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Ownership: watched descriptors stay the caller's; Unwatch before closing one.
// Thread safety: single-threaded (the first caller's thread), except for the mailbox.
// Callbacks may watch, unwatch, start and cancel anything, themselves included; none runs after it
// was cancelled. Blocking: Run() and RunUntil() only.
class EventLoop {
 public:
  using Closure = absl::AnyInvocable<void()>;
  // Called with the ready events (EPOLLIN, EPOLLHUP, ...).
  using FdCallback = absl::AnyInvocable<void(uint32_t)>;
  using TimerId = uint64_t;  // never 0
  static constexpr TimerId kNoTimer = 0;

  // The way in for other threads. Outlives the loop: what is posted to a loop that is gone is
  // dropped. Thread safety: thread-safe. Blocking: never.
  class Mailbox {
   public:
    // Runs `closure` on the loop's thread, in the order of posting.
    void Post(Closure closure);

   private:
    friend class EventLoop;
    std::vector<Closure> Take();
    void Close();

    Mutex mu_;
    UniqueFd wakeup_ ABSL_GUARDED_BY(mu_);  // eventfd; invalid after Close()
    std::vector<Closure> closures_ ABSL_GUARDED_BY(mu_);
  };

  // Returns RESOURCE_EXHAUSTED if the process has no descriptor left.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<EventLoop>> Create();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `callback` while any of `events` is pending on `fd` (level-triggered). One watch for each
  // descriptor. Returns PERMISSION_DENIED (EPERM) for a regular file, which is always ready.
  [[nodiscard]] absl::Status Watch(int fd, uint32_t events, FdCallback callback);
  // Changes the events of a watched descriptor; 0 pauses it (a hang-up is still reported).
  void SetEvents(int fd, uint32_t events);
  // Does nothing if `fd` is not watched.
  void Unwatch(int fd);

  // Runs `closure` once, `delay` from now.
  TimerId After(absl::Duration delay, Closure closure);
  // Does nothing if the timer has run, was cancelled or is kNoTimer. Sets *id to kNoTimer.
  void Cancel(TimerId* id);

  // Runs `closure` after the present callback has returned.
  void Defer(Closure closure) { mailbox_->Post(std::move(closure)); }

  // Runs until Quit().
  void Run();
  void Quit() { quit_ = true; }

  // Runs until `done` is true or `timeout` has passed; returns whether it is true.
  bool RunUntil(absl::AnyInvocable<bool()> done, absl::Duration timeout);

  [[nodiscard]] const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

 private:
  struct WatchEntry {
    int fd = -1;
    uint32_t events = 0;
    FdCallback callback;
  };

  EventLoop(UniqueFd epoll, UniqueFd wakeup);
  void RunOnce(absl::Duration max_wait);
  absl::Duration WaitTime(absl::Duration max_wait) const;
  void RunTimers();
  void RunMailbox();

  const UniqueFd epoll_;
  const std::shared_ptr<Mailbox> mailbox_;
  ThreadChecker thread_;
  bool quit_ = false;
  uint64_t next_id_ = 1;  // of watches and timers
  absl::flat_hash_map<uint64_t, std::shared_ptr<WatchEntry>> watches_;
  absl::flat_hash_map<int, uint64_t> watch_of_fd_;  // the keys of watches_ by descriptor
  std::map<std::pair<absl::Duration, TimerId>, Closure> timers_;  // by steady time
  absl::flat_hash_map<TimerId, absl::Duration> timer_times_;      // the keys of timers_
};

}  // namespace millrace

#endif  // CORE_AGENT_LOOP_EVENT_LOOP_H_
