// File: resolver/update_recorder.h
//
// Keeps what a watch tells, for tests to wait for. Test only.
//
//   UpdateRecorder updates;
//   auto watch = resolver.Watch(updates.callback(), options);
//   EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 2; }));

#ifndef RESOLVER_UPDATE_RECORDER_H_
#define RESOLVER_UPDATE_RECORDER_H_

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "millrace/membership.h"

namespace millrace {

// Outlives the watch. Thread safety: thread-safe.
class UpdateRecorder {
 public:
  MembershipCallback callback() {
    return [this](const MembershipUpdate& update) {
      MutexLock lock(&mu_);
      updates_.push_back(update);
      added_.SignalAll();
    };
  }

  // Blocks until some update so far is such a one; false after a minute.
  bool WaitFor(const std::function<bool(const MembershipUpdate&)>& condition) const {
    MutexLock lock(&mu_);
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (std::none_of(updates_.begin(), updates_.end(), condition)) {
      if (added_.WaitWithDeadline(&mu_, deadline)) return false;
    }
    return true;
  }

  std::vector<MembershipUpdate> updates() const {
    MutexLock lock(&mu_);
    return updates_;
  }

 private:
  mutable Mutex mu_;
  mutable CondVar added_;
  std::vector<MembershipUpdate> updates_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // RESOLVER_UPDATE_RECORDER_H_
