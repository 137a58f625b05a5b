#include "core/base/attended_clock.h"

#include <algorithm>

namespace millrace {

absl::Duration AttendedClock::SteadyNow() const {
  MutexLock lock(&mu_);
  const absl::Duration now = clock_->SteadyNow();
  if (now - last_read_ > longest_gap_) missed_ += now - last_read_;
  last_read_ = std::max(last_read_, now);
  return now - missed_;
}

}  // namespace millrace
