// File: core/base/clock.h
//
// Time as an injected dependency: classes take a `Clock*` and tests pass FakeClock
// (core/base/fake_clock.h).
//
// Defines: Clock, RealClock().
//
//   class Lease {
//    public:
//     explicit Lease(Clock* clock) : clock_(clock), granted_(clock->SteadyNow()) {}
//     bool Expired() const { return clock_->SteadyNow() - granted_ > absl::Seconds(10); }
//    private:
//     Clock* clock_;            // not owned
//     absl::Duration granted_;  // steady
//   };
//
// Wall time is for timestamps that people or other machines read; it can jump. Steady time is for
// durations, deadlines and leases; it never goes back and means nothing outside this process.

#ifndef CORE_BASE_CLOCK_H_
#define CORE_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace millrace {

// Thread safety: implementations are thread-safe. Blocking: never.
class Clock {
 public:
  virtual ~Clock() = default;

  // Wall time. May jump in both directions.
  [[nodiscard]] virtual absl::Time Now() const = 0;

  // Time since an arbitrary origin, fixed for the life of the process. Never decreases.
  [[nodiscard]] virtual absl::Duration SteadyNow() const = 0;
};

// The machine's clock. Lives for ever; not owned by the caller.
[[nodiscard]] Clock* RealClock();

}  // namespace millrace

#endif  // CORE_BASE_CLOCK_H_
