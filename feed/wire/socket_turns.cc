#include "feed/wire/socket_turns.h"

#include "core/base/clock.h"

namespace millrace {
namespace {

// Threads that only look now and then cost their program less than a signal for each batch.
constexpr absl::Duration kLongLead = absl::Milliseconds(20);
constexpr absl::Duration kRecheck = absl::Seconds(10);

}  // namespace

void SocketTurns::TakeAsSocketThread() {
  MutexLock lock(&mu_);
  while (held_ || (!stopped_ && (leading_ || RealClock()->SteadyNow() < lease_until_))) {
    const absl::Duration now = RealClock()->SteadyNow();
    if (!held_ && !leading_) {
      changed_.WaitWithTimeout(&mu_, lease_until_ - now);
    } else if (leading_ && !stopped_ && now - lead_since_ < kLongLead) {
      changed_.WaitWithTimeout(&mu_, kLease);
    } else {
      ++sleepers_;
      changed_.WaitWithTimeout(&mu_, kRecheck);
      --sleepers_;
    }
  }
  held_ = true;
}

bool SocketTurns::TryLead(absl::FunctionRef<void()> wake) {
  {
    MutexLock lock(&mu_);
    if (leading_ || stopped_) return false;
    leading_ = true;
    lead_since_ = RealClock()->SteadyNow();
    if (!held_) {
      held_ = true;
      return true;
    }
  }
  wake();
  MutexLock lock(&mu_);
  while (held_) {
    ++sleepers_;
    changed_.WaitWithTimeout(&mu_, kRecheck);
    --sleepers_;
  }
  held_ = true;
  return true;
}

void SocketTurns::StopLeading(bool yield) {
  MutexLock lock(&mu_);
  leading_ = false;
  lease_until_ = yield ? absl::ZeroDuration() : RealClock()->SteadyNow() + kLease;
  if (yield) changed_.SignalAll();
  GiveLocked();
}

bool SocketTurns::TryTake() {
  MutexLock lock(&mu_);
  if (held_) return false;
  held_ = true;
  return true;
}

void SocketTurns::Give() {
  MutexLock lock(&mu_);
  GiveLocked();
}

void SocketTurns::GiveLocked() {
  held_ = false;
  if (sleepers_ > 0) changed_.SignalAll();
}

void SocketTurns::Stop() {
  MutexLock lock(&mu_);
  stopped_ = true;
  changed_.SignalAll();
}

}  // namespace millrace
