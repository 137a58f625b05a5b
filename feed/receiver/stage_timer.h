// File: feed/receiver/stage_timer.h
//
// How long something has been going on, in all.
//
// Defines: StageTimer.
//
//   StageTimer waiting;
//   waiting.Set(true, clock->SteadyNow());
//   ...
//   waiting.Set(false, clock->SteadyNow());
//   waiting.Total(clock->SteadyNow());

#ifndef FEED_RECEIVER_STAGE_TIMER_H_
#define FEED_RECEIVER_STAGE_TIMER_H_

#include "absl/time/time.h"

namespace millrace {

// Times are steady, and do not run backwards. Thread safety: none.
class StageTimer {
 public:
  // Repeating what holds changes nothing.
  void Set(bool active, absl::Duration now) {
    if (active == active_) return;
    if (!active) total_ += now - since_;
    active_ = active;
    since_ = now;
  }

  // Until `now`, what goes on at present included.
  [[nodiscard]] absl::Duration Total(absl::Duration now) const {
    return active_ ? total_ + (now - since_) : total_;
  }

 private:
  bool active_ = false;
  absl::Duration since_ = absl::ZeroDuration();
  absl::Duration total_ = absl::ZeroDuration();
};

}  // namespace millrace

#endif  // FEED_RECEIVER_STAGE_TIMER_H_
