// File: core/base/thread_scheduler.h
//
// Runs the threads of a program one at a time, in an order that a seed chooses, in virtual time: a
// race that needs one order out of thousands comes up in some seed, and then in every run of that
// seed. Test only: core/base/mutex.h, thread.h and clock.h are built upon it with
// --//core/base:scheduled_threads, and know nothing of it otherwise.
//
// Defines: ScheduleOptions, ScheduleResult, ThreadScheduler, ScheduledMutex, ScheduledCondVar.
//
//   const ScheduleResult result = ThreadScheduler::Run({.seed = 17}, [] {
//     Mailbox mailbox;                                        // core/base/mutex.h
//     Thread reader("reader", [&] { mailbox.Take(...); });    // core/base/thread.h
//     mailbox.Put(1);
//   });
//
// How it goes. Each thread is a real one, and all but one of them sleep. Where a thread takes or
// gives back a lock, waits, wakes others, starts, or ends, the scheduler may let another one go on.
// Half of the seeds choose by priorities that change at a few random points (PCT: a bug that needs
// d orders is found with a probability that does not shrink with the number of threads to the power
// of d), the others choose at random. Waits wake without reason now and then, as they may.
//
// Time is virtual. A step takes a microsecond or so; when every thread waits, it is at once as late
// as the first of their deadlines. Now and then a short one (up to kShortWait) passes while others
// could still go on, as on a machine that is busy.
//
// A run whose threads all wait for each other, or that takes more than max_steps, ends the process
// with status kStuckExitCode, after lines on stderr that say where each thread waits.
//
// Not seen by it: atomics, and what blocks in the system (sockets, files). A thread of a run must
// not block in the system until another one of the run does something.

#ifndef CORE_BASE_THREAD_SCHEDULER_H_
#define CORE_BASE_THREAD_SCHEDULER_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

struct ScheduleOptions {
  uint64_t seed = 1;
  int64_t max_steps = 20'000'000;
  // Where priorities change: among so many first steps.
  int64_t expected_steps = 20'000;
};

struct ScheduleResult {
  int64_t steps = 0;
  int64_t switches = 0;  // to another thread
  int threads = 0;       // that ran, the first one included
  absl::Duration elapsed;
  absl::Duration idle;  // of it, what passed while some thread could have gone on
  uint64_t hash = 0;    // of what was chosen at each step
};

class ScheduledMutex;
class ScheduledCondVar;

// Thread safety: Run() is for one thread at a time; the others for threads of its run.
class ThreadScheduler {
 public:
  static constexpr int kStuckExitCode = 70;
  static constexpr absl::Duration kShortWait = absl::Milliseconds(100);

  // Calls `body` as the first thread of a run. Blocks until it and all threads that were started
  // meanwhile have ended.
  static ScheduleResult Run(const ScheduleOptions& options, absl::FunctionRef<void()> body);

  // Whether the calling thread belongs to a run. What follows requires that.
  [[nodiscard]] static bool IsActive();

  // Steady time since the run began.
  [[nodiscard]] static absl::Duration Now();
  // As ScheduleResult::idle, so far.
  [[nodiscard]] static absl::Duration Idle();
  static void Sleep(absl::Duration time);
  // A number of the seed's, below `limit`.
  [[nodiscard]] static uint64_t Random(uint64_t limit);

  // For thread.h. `body` is to be run by a new thread of the system, with a call of this.
  [[nodiscard]] static absl::AnyInvocable<void()> Adopt(absl::string_view name,
                                                        absl::AnyInvocable<void()> body,
                                                        uint64_t* id);
  // The thread of the system is there: it may go on from now on.
  static void Started();
  // Blocks until the thread has ended.
  static void WaitEnded(uint64_t id);
};

// A lock of a run. Threads that belong to none use it as a std::mutex.
class ScheduledMutex {
 public:
  void Lock();
  void Unlock();
  void AssertHeld() const;

 private:
  friend class ScheduledCondVar;
  std::mutex mu_;       // of threads outside of a run
  uint64_t owner_ = 0;  // a thread of the run, or 0
};

class ScheduledCondVar {
 public:
  // As CondVar's. Requires a thread of a run.
  bool Wait(ScheduledMutex* mu, absl::Duration timeout);
  void Signal();
  void SignalAll();
};

}  // namespace millrace

#endif  // CORE_BASE_THREAD_SCHEDULER_H_
