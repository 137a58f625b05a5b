#include "core/base/fake_clock.h"

#include "core/base/log.h"

namespace millrace {

absl::Time FakeClock::Now() const {
  MutexLock lock(&mu_);
  return now_;
}

absl::Duration FakeClock::SteadyNow() const {
  MutexLock lock(&mu_);
  return steady_;
}

void FakeClock::Advance(absl::Duration by) {
  MILLRACE_CHECK(by >= absl::ZeroDuration()) << "steady time never goes back; got " << by;
  MutexLock lock(&mu_);
  now_ += by;
  steady_ += by;
}

void FakeClock::AdvanceWall(absl::Duration by) {
  MutexLock lock(&mu_);
  now_ += by;
}

}  // namespace millrace
