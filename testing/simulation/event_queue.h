// File: testing/simulation/event_queue.h
//
// Virtual time: what happens next, and to which process.
//
// Defines: Process, EventQueue.
//
//   EventQueue queue;
//   queue.After(absl::Seconds(1), &process, [&] { ... });
//   while (queue.RunNext(end)) {
//   }

#ifndef TESTING_SIMULATION_EVENT_QUEUE_H_
#define TESTING_SIMULATION_EVENT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"

namespace millrace::simulation {

// What is due for a process waits while it is stopped, in order, and is lost when it is dead.
class Process {
 public:
  [[nodiscard]] bool alive() const { return alive_; }
  [[nodiscard]] bool stopped() const { return stops_ > 0; }

 private:
  friend class EventQueue;
  bool alive_ = true;
  int stops_ = 0;  // SIGSTOP, and its host's pause
  std::deque<absl::AnyInvocable<void()>> waiting_;
};

// Thread safety: not thread-safe. Processes are not owned, and outlive what is due for them.
class EventQueue {
 public:
  using Body = absl::AnyInvocable<void()>;

  // `process` null: the world itself.
  void After(absl::Duration delay, Process* process, Body body);
  // The next event, not after `end`; false: there is none, and it is `end` now.
  bool RunNext(absl::Duration end);
  // Other things happen for so long, in the midst of an event.
  void RunFor(absl::Duration duration);

  void Stop(Process* process) { ++process->stops_; }
  void Continue(Process* process);
  void Kill(Process* process);

  // Since the beginning.
  [[nodiscard]] absl::Duration now() const { return now_; }
  [[nodiscard]] FakeClock* clock() { return &clock_; }
  [[nodiscard]] int64_t events() const { return events_; }

 private:
  struct Event {
    absl::Duration at;
    uint64_t order = 0;
    Process* process = nullptr;
    Body body;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }
  void MoveTo(absl::Duration at);

  FakeClock clock_;
  absl::Duration now_;
  std::vector<Event> heap_;
  uint64_t next_order_ = 0;
  int64_t events_ = 0;
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_EVENT_QUEUE_H_
