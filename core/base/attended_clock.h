// File: core/base/attended_clock.h
//
// Steady time that passes only while this process could have heard somebody.
//
// Defines: AttendedClock.
//
//   const AttendedClock clock(RealClock(), /*longest_gap=*/absl::Seconds(2));
//   ...                       // somebody reads it at least every second
//   clock.SteadyNow();        // after Ctrl-Z and fg, or a pause of the machine: without that time

#ifndef CORE_BASE_ATTENDED_CLOCK_H_
#define CORE_BASE_ATTENDED_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace millrace {

// A process that was stopped and continued finds that much time has passed, and messages that it
// could not read. What is measured by this clock (silence, leases, limits of waits) does not count
// that time: of two reads that are further apart than `longest_gap` nothing between them counts. So
// somebody must read it more often than that.
//
// Thread safety: thread-safe. Blocking: never.
class AttendedClock final : public Clock {
 public:
  // `clock` is not owned.
  AttendedClock(Clock* clock, absl::Duration longest_gap)
      : clock_(clock), longest_gap_(longest_gap), last_read_(clock->SteadyNow()) {}

  [[nodiscard]] absl::Time Now() const override { return clock_->Now(); }
  [[nodiscard]] absl::Duration SteadyNow() const override;

 private:
  Clock* const clock_;
  const absl::Duration longest_gap_;
  mutable Mutex mu_;
  mutable absl::Duration last_read_ ABSL_GUARDED_BY(mu_);  // by clock_
  mutable absl::Duration missed_ ABSL_GUARDED_BY(mu_);     // what did not count so far
};

}  // namespace millrace

#endif  // CORE_BASE_ATTENDED_CLOCK_H_
