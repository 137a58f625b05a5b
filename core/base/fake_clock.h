// File: core/base/fake_clock.h
//
// A Clock that moves only when told to. Test only.
//
//   FakeClock clock;
//   Lease lease(&clock);
//   clock.Advance(absl::Seconds(11));
//   EXPECT_TRUE(lease.Expired());
//   clock.AdvanceWall(-absl::Hours(1));  // an administrator sets the date; steady time stays

#ifndef CORE_BASE_FAKE_CLOCK_H_
#define CORE_BASE_FAKE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: never.
class FakeClock final : public Clock {
 public:
  // Starts at `now`, by default 2024-01-01T00:00:00Z; steady time starts at one hour, so that code
  // which mistakes zero for "never" is caught.
  explicit FakeClock(absl::Time now = absl::FromUnixSeconds(1704067200)) : now_(now) {}

  absl::Time Now() const override;
  absl::Duration SteadyNow() const override;

  // Moves both clocks. `by` must not be negative: steady time never goes back.
  void Advance(absl::Duration by);

  // Moves the wall clock only, in either direction.
  void AdvanceWall(absl::Duration by);

 private:
  mutable Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
  absl::Duration steady_ ABSL_GUARDED_BY(mu_) = absl::Hours(1);
};

}  // namespace millrace

#endif  // CORE_BASE_FAKE_CLOCK_H_
