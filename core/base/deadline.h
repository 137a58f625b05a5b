// File: core/base/deadline.h
//
// How long something may take, by steady time: a date that somebody sets meanwhile changes nothing.
//
// Defines: Deadline.
//
//   const Deadline deadline(timeout);
//   MutexLock lock(&mu_);
//   while (values_.empty()) {
//     if (arrived_.WaitWithTimeout(&mu_, deadline.Left())) return false;
//   }

#ifndef CORE_BASE_DEADLINE_H_
#define CORE_BASE_DEADLINE_H_

#include <algorithm>

#include "absl/time/time.h"
#include "core/base/clock.h"

namespace millrace {

// A moment of steady time, by `clock`, which is not owned. A value; thread-safe as one.
class Deadline {
 public:
  // `timeout` from now on; absl::InfiniteDuration(): never.
  explicit Deadline(absl::Duration timeout, Clock* clock = RealClock())
      : clock_(clock), at_(clock->SteadyNow() + timeout) {}
  [[nodiscard]] static Deadline Never() { return Deadline(absl::InfiniteDuration()); }

  // What is left, never less than zero.
  [[nodiscard]] absl::Duration Left() const {
    return std::max(at_ - clock_->SteadyNow(), absl::ZeroDuration());
  }
  [[nodiscard]] bool Passed() const { return Left() == absl::ZeroDuration(); }

  // So much later.
  [[nodiscard]] Deadline operator+(absl::Duration more) const {
    Deadline later = *this;
    later.at_ += more;
    return later;
  }
  // Of two by the same clock, which is the earlier.
  friend bool operator<(const Deadline& a, const Deadline& b) { return a.at_ < b.at_; }

 private:
  Clock* clock_;
  absl::Duration at_;
};

}  // namespace millrace

#endif  // CORE_BASE_DEADLINE_H_
