#include "core/base/clock.h"

#include <time.h>

#include "absl/time/clock.h"

#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
#include "core/base/thread_scheduler.h"
#endif

namespace millrace {
namespace {

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override {
#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
    if (ThreadScheduler::IsActive()) return absl::UnixEpoch() + ThreadScheduler::Now();
#endif
    return absl::Now();
  }

  absl::Duration SteadyNow() const override {
#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
    if (ThreadScheduler::IsActive()) return ThreadScheduler::Now();
#endif
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);  // cannot fail with this clock and a valid pointer
    return absl::DurationFromTimespec(now);
  }
};

}  // namespace

Clock* RealClock() {
  // Never destroyed: threads may ask for the time while the process exits. No state, so no bound.
  static SystemClock* const clock = new SystemClock;
  return clock;
}

}  // namespace millrace
