#include "core/base/mutex.h"

#ifdef MILLRACE_INTERNAL_STD_MUTEX
#include <cstdio>
#include <cstdlib>
#endif

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "core/base/clock.h"

namespace millrace {
namespace {

#ifndef MILLRACE_INTERNAL_SCHEDULED_THREADS

// Longer waits are split by the caller's loop: the sum of a time and more than that overflows.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

// A Mutex as the standard library has locks.
struct Lockable {
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) { mu->Lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION(mu) { mu->Unlock(); }

  Mutex* const mu;
};

#endif

}  // namespace

#ifdef MILLRACE_INTERNAL_STD_MUTEX

void Mutex::Lock() {
  mu_.lock();
  holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

void Mutex::Unlock() {
  holder_.store(std::thread::id(), std::memory_order_relaxed);
  mu_.unlock();
}

void Mutex::AssertHeld() const {
  if (holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
  std::fputs("Mutex::AssertHeld: the calling thread does not hold the lock\n", stderr);
  std::abort();
}

#else

void Mutex::Lock() { mu_.Lock(); }
void Mutex::Unlock() { mu_.Unlock(); }
void Mutex::AssertHeld() const { mu_.AssertHeld(); }

#endif

void CondVar::Wait(Mutex* mu) { WaitWithTimeout(mu, absl::InfiniteDuration()); }

#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS

bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  if (timeout <= absl::ZeroDuration()) return true;
  return cv_.Wait(&mu->mu_, timeout);
}

void CondVar::Signal() { cv_.Signal(); }
void CondVar::SignalAll() { cv_.SignalAll(); }

#else

// Waits always have a limit: wait() without one is a symbol of GCC 12's libstdc++, and the wheel is
// to load with older ones.
bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  if (timeout <= absl::ZeroDuration()) return true;
  Lockable lock{mu};
  const std::cv_status status =
      cv_.wait_for(lock, absl::ToChronoNanoseconds(std::min(timeout, kLongest)));
  return status == std::cv_status::timeout && timeout <= kLongest;
}

void CondVar::Signal() { cv_.notify_one(); }
void CondVar::SignalAll() { cv_.notify_all(); }

#endif

bool CondVar::WaitWithDeadline(Mutex* mu, absl::Time deadline) {
  return WaitWithTimeout(
      mu, deadline == absl::InfiniteFuture() ? absl::InfiniteDuration() : deadline - absl::Now());
}

Notification::~Notification() {
  // Lets a Notify() that a waiter has already seen get out of the lock before the lock goes away.
  MutexLock lock(&mu_);
}

bool Notification::HasBeenNotified() const {
  MutexLock lock(&mu_);
  return notified_;
}

void Notification::Notify() {
  MutexLock lock(&mu_);
  notified_ = true;
  raised_.SignalAll();
}

void Notification::WaitForNotification() const {
  MutexLock lock(&mu_);
  while (!notified_) raised_.Wait(&mu_);
}

bool Notification::WaitForNotificationWithTimeout(absl::Duration timeout) const {
  const absl::Duration until = RealClock()->SteadyNow() + timeout;
  MutexLock lock(&mu_);
  while (!notified_) {
    const absl::Duration left = until - RealClock()->SteadyNow();
    if (left <= absl::ZeroDuration()) break;
    raised_.WaitWithTimeout(&mu_, left);
  }
  return notified_;
}

}  // namespace millrace
