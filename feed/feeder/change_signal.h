// File: feed/feeder/change_signal.h
//
// Lets one thread sleep until others say that something has changed. Internal to
// feed/feeder/train_job.h.
//
//   auto signal = std::make_shared<ChangeSignal>();
//   options.on_change = [signal] { signal->Raise(); };   // may outlive the sleeper
//   while (!over) { signal->Wait(absl::Seconds(1)); ... look at everything ... }

#ifndef FEED_FEEDER_CHANGE_SIGNAL_H_
#define FEED_FEEDER_CHANGE_SIGNAL_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace millrace {

// Thread safety: thread-safe.
class ChangeSignal {
 public:
  void Raise() {
    MutexLock lock(&mu_);
    raised_ = true;
    cv_.Signal();
  }

  // Blocks until Raise() was called since the last Wait() returned, or for `timeout`.
  void Wait(absl::Duration timeout) {
    MutexLock lock(&mu_);
    const absl::Duration until = RealClock()->SteadyNow() + timeout;
    while (!raised_) {
      const absl::Duration left = until - RealClock()->SteadyNow();
      if (left <= absl::ZeroDuration()) return;
      cv_.WaitWithTimeout(&mu_, left);
    }
    raised_ = false;
  }

 private:
  Mutex mu_;
  CondVar cv_;
  bool raised_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace millrace

#endif  // FEED_FEEDER_CHANGE_SIGNAL_H_
