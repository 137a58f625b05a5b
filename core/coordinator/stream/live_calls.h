// File: core/coordinator/stream/live_calls.h
//
// Counts the reactors that gRPC still holds, so that what they use outlives them.
//
// Defines: LiveCalls.

#ifndef CORE_COORDINATOR_STREAM_LIVE_CALLS_H_
#define CORE_COORDINATOR_STREAM_LIVE_CALLS_H_

#include "absl/base/thread_annotations.h"
#include "core/base/mutex.h"

namespace millrace {

// Thread safety: thread-safe.
class LiveCalls {
 public:
  // A reactor begins before gRPC gets it and ends in OnDone, as the last thing that touches
  // anything but itself.
  void Begin() {
    MutexLock lock(&mu_);
    ++count_;
  }
  void End() {
    MutexLock lock(&mu_);
    if (--count_ == 0) none_.SignalAll();
  }
  // Blocks until there is none.
  void WaitForNone() {
    MutexLock lock(&mu_);
    while (count_ > 0) none_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar none_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STREAM_LIVE_CALLS_H_
