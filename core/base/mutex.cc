#include "core/base/mutex.h"

#ifdef MILLRACE_INTERNAL_STD_MUTEX
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#endif

#include "absl/time/clock.h"

namespace millrace {

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

void CondVar::Wait(Mutex* mu) {
  std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
  cv_.wait(lock);
  mu->holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  lock.release();
}

bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  // Longer waits than a year are split by the caller's loop; chrono's addition would overflow.
  constexpr absl::Duration kLongest = absl::Hours(24 * 365);
  if (timeout == absl::InfiniteDuration()) {
    Wait(mu);
    return false;
  }
  const bool cut = timeout > kLongest;
  std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
  const std::cv_status status = cv_.wait_for(
      lock, absl::ToChronoNanoseconds(cut ? kLongest : std::max(timeout, absl::ZeroDuration())));
  mu->holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  lock.release();
  return status == std::cv_status::timeout && !cut;
}

bool CondVar::WaitWithDeadline(Mutex* mu, absl::Time deadline) {
  return WaitWithTimeout(
      mu, deadline == absl::InfiniteFuture() ? absl::InfiniteDuration() : deadline - absl::Now());
}

void CondVar::Signal() { cv_.notify_one(); }
void CondVar::SignalAll() { cv_.notify_all(); }

#else

void Mutex::Lock() { mu_.Lock(); }
void Mutex::Unlock() { mu_.Unlock(); }
void Mutex::AssertHeld() const { mu_.AssertHeld(); }

void CondVar::Wait(Mutex* mu) { cv_.Wait(&mu->mu_); }

bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  return cv_.WaitWithTimeout(&mu->mu_, timeout);
}

bool CondVar::WaitWithDeadline(Mutex* mu, absl::Time deadline) {
  return cv_.WaitWithDeadline(&mu->mu_, deadline);
}

void CondVar::Signal() { cv_.Signal(); }
void CondVar::SignalAll() { cv_.SignalAll(); }

#endif

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
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (!notified_) {
    if (raised_.WaitWithDeadline(&mu_, deadline)) break;
  }
  return notified_;
}

}  // namespace millrace
