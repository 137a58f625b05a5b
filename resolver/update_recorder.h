// File: resolver/update_recorder.h
//
// Keeps what a watch tells, for tests to wait for. Test only.
//
//   UpdateRecorder updates;
//   auto watch = resolver.Watch(updates.callback(), options);
//   EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 2; }));
//   const auto next = updates.WaitForNext([](const auto& update) { return update.status.ok(); });

#ifndef RESOLVER_UPDATE_RECORDER_H_
#define RESOLVER_UPDATE_RECORDER_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
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

  // Blocks until there is such an update after the one that the call before returned (at first:
  // any), and returns the first such; nullopt after `patience`.
  std::optional<MembershipUpdate> WaitForNext(
      const std::function<bool(const MembershipUpdate&)>& condition,
      absl::Duration patience = absl::Minutes(1)) {
    MutexLock lock(&mu_);
    const absl::Time deadline = absl::Now() + patience;
    for (size_t i = next_;; ++i) {
      while (i == updates_.size()) {
        if (added_.WaitWithDeadline(&mu_, deadline)) return std::nullopt;
      }
      if (!condition(updates_[i])) continue;
      next_ = i + 1;
      return updates_[i];
    }
  }

  std::vector<MembershipUpdate> updates() const {
    MutexLock lock(&mu_);
    return updates_;
  }

 private:
  mutable Mutex mu_;
  mutable CondVar added_;
  std::vector<MembershipUpdate> updates_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;  // where WaitForNext() goes on
};

}  // namespace millrace

#endif  // RESOLVER_UPDATE_RECORDER_H_
