// File: core/base/mutex.h
//
// The locks of the tree: absl::Mutex normally, std::mutex under ThreadSanitizer, which does not
// understand Abseil 20220623's own futex code and would report races that are none. In a build with
// --//core/base:scheduled_threads they are the scheduler's (core/base/thread_scheduler.h).
//
// Defines: Mutex, MutexLock, CondVar, Notification.
//
//   class Mailbox {
//    public:
//     void Put(int value) {
//       MutexLock lock(&mu_);
//       values_.push_back(value);
//       arrived_.Signal();
//     }
//     bool Take(absl::Duration timeout, int* value) {
//       MutexLock lock(&mu_);
//       const absl::Time deadline = absl::Now() + timeout;
//       while (values_.empty()) {
//         if (arrived_.WaitWithDeadline(&mu_, deadline)) return false;
//       }
//       *value = values_.back();
//       values_.pop_back();
//       return true;
//     }
//    private:
//     Mutex mu_;
//     CondVar arrived_;
//     std::vector<int> values_ ABSL_GUARDED_BY(mu_);
//   };
//
// Rules of the house: never call out (callbacks, RPCs, virtual methods of strangers) with a lock
// held; every wait has a deadline. Only what both implementations offer is offered here: no reader
// locks, no Await. Waits may wake spuriously: always loop on the condition.

#ifndef CORE_BASE_MUTEX_H_
#define CORE_BASE_MUTEX_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#if defined(MILLRACE_INTERNAL_SCHEDULED_THREADS)
// See below.
#elif defined(__SANITIZE_THREAD__)
#define MILLRACE_INTERNAL_STD_MUTEX 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MILLRACE_INTERNAL_STD_MUTEX 1
#endif
#endif

#include <condition_variable>

#if defined(MILLRACE_INTERNAL_SCHEDULED_THREADS)
#include "core/base/thread_scheduler.h"
#elif defined(MILLRACE_INTERNAL_STD_MUTEX)
#include <atomic>
#include <mutex>
#include <thread>
#else
#include "absl/synchronization/mutex.h"
#endif

namespace millrace {

// A non-reentrant exclusive lock. Locking twice from one thread, unlocking what one does not hold,
// and destroying a held mutex are programming errors (undefined). Neither copyable nor movable.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION();
  void Unlock() ABSL_UNLOCK_FUNCTION();

  // Ends the process if the calling thread does not hold the lock. (absl::Mutex checks in debug
  // builds that someone holds it; the std::mutex variant checks the thread.)
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK();

 private:
#if defined(MILLRACE_INTERNAL_SCHEDULED_THREADS)
  friend class CondVar;
  ScheduledMutex mu_;
#elif defined(MILLRACE_INTERNAL_STD_MUTEX)
  std::mutex mu_;
  std::atomic<std::thread::id> holder_{};
#else
  absl::Mutex mu_;
#endif
};

// Holds `mu` from construction to the end of its scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

// A condition variable. Each wait releases `mu`, which the caller holds, and holds it again on
// return. All waiters of one CondVar use the same Mutex.
//
// A timeout is of steady time, whatever becomes of the date meanwhile. A deadline is a date until
// the wait begins: what is left of it then is the timeout. Code that measures a lease re-reads
// Clock::SteadyNow() after each wake-up.
//
// Not absl::CondVar, which waits for a date: one that was set back kept a wait asleep until it came
// again.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(Mutex* mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Returns true if the timeout passed, false if woken (possibly spuriously). A timeout of zero or
  // less returns at once; absl::InfiniteDuration() and InfiniteFuture() never time out.
  bool WaitWithTimeout(Mutex* mu, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  bool WaitWithDeadline(Mutex* mu, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // May be called with or without the lock.
  void Signal();
  void SignalAll();

 private:
#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
  ScheduledCondVar cv_;
#else
  std::condition_variable_any cv_;
#endif
};

// A flag that is raised once; what happened before Notify() is visible after a wait that saw it.
// It may be destroyed as soon as a wait has returned true.
// Thread safety: thread-safe.
class Notification {
 public:
  Notification() = default;
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;
  ~Notification();

  [[nodiscard]] bool HasBeenNotified() const;

  // Raises the flag. Unlike absl::Notification's, a second call does nothing, so that a stop path
  // may be idempotent.
  void Notify();

  // Blocks until Notify().
  void WaitForNotification() const;

  // Blocks until Notify() or for `timeout`. Returns whether the flag is raised.
  bool WaitForNotificationWithTimeout(absl::Duration timeout) const;

 private:
  mutable Mutex mu_;
  mutable CondVar raised_;
  bool notified_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace millrace

#endif  // CORE_BASE_MUTEX_H_
