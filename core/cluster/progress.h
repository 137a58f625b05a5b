// File: progress.h
//
// What a person at a terminal sees of a cluster: one line that changes, with the ladder while nodes
// start and rows/s while they are fed.
#ifndef CORE_CLUSTER_PROGRESS_H_
#define CORE_CLUSTER_PROGRESS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "millrace/cluster_status.h"

namespace millrace {

// Thread safety: all methods. Blocking: as `show` does, which is called at most ten times a second,
// and not at all if disabled.
class Progress {
 public:
  // `show` puts a line in the place of the one before; empty: it takes that away.
  Progress(bool enabled, int num_slots, std::function<void(absl::string_view)> show, Clock* clock);

  // Stderr, enabled if that is a terminal whose lines can be erased (TERM is not dumb).
  [[nodiscard]] static bool StderrIsTerminal();
  static void ShowOnStderr(absl::string_view line);

  void OnSlot(const SlotStatus& slot);
  // Rows acknowledged so far of a feed that began at `start` (steady time) and has `partitions`.
  void OnFeed(int64_t rows, int64_t partitions_done, int64_t partitions);
  void FeedStarted();

  // Takes the line away, so that something else can be printed; the next event brings it back.
  void Clear();

 private:
  void Show(bool now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string LadderText() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string FeedText() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const bool enabled_;
  const int num_slots_;
  const std::function<void(absl::string_view)> show_;
  Clock* const clock_;
  const absl::Duration start_;

  Mutex mu_;
  std::map<int, SlotState> slots_ ABSL_GUARDED_BY(mu_);  // by executor id; absent: requested
  bool feeding_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration feed_start_ ABSL_GUARDED_BY(mu_);
  int64_t rows_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t partitions_done_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t partitions_ ABSL_GUARDED_BY(mu_) = 0;
  bool shown_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration last_shown_ ABSL_GUARDED_BY(mu_) = -absl::InfiniteDuration();
};

}  // namespace millrace

#endif  // CORE_CLUSTER_PROGRESS_H_
