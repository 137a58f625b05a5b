// File: millrace/membership.h
//
// Membership over time: what a ClusterResolver's watch tells.
//
// Defines: MembershipUpdate, MembershipCallback, MembershipWatch, WatchOptions,
// CheckWatch(), MembershipTracker.

#ifndef MILLRACE_MEMBERSHIP_H_
#define MILLRACE_MEMBERSHIP_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// One snapshot. The first has epoch 1 (or 0 and an error, while the source has not answered yet).
struct MembershipUpdate {
  // Grows by one with every changed spec.
  int64_t epoch = 0;
  // The members as last confirmed by the source; empty at epoch 0.
  ClusterSpec spec;
  // From the spec of the epoch before. Empty if only `status` changed.
  ClusterSpecDiff diff;
  // OK: the source says so at `confirmed`. Otherwise the source cannot be heard or its answer is
  // not complete, and this says why: `spec` is then old, as of `confirmed`.
  absl::Status status;
  absl::Time confirmed = absl::InfinitePast();
};

// Called by one thread at a time, which must not destroy the watch; the first call may come before
// Watch() has returned. Updates that follow each other always differ in epoch or in status (its
// code and message).
using MembershipCallback = std::function<void(const MembershipUpdate&)>;

struct WatchOptions {
  // How often a source that cannot push is asked. At least 1 ms.
  absl::Duration poll_interval = absl::Seconds(5);
};

// Returns INVALID_ARGUMENT if there is no callback or the interval is too short. For those who
// write a resolver.
[[nodiscard]] absl::Status CheckWatch(const MembershipCallback& callback,
                                      const WatchOptions& options);

// A running watch. Its destructor returns when the callback is not running and never will again.
class MembershipWatch {
 public:
  virtual ~MembershipWatch() = default;
  MembershipWatch(const MembershipWatch&) = delete;
  MembershipWatch& operator=(const MembershipWatch&) = delete;

 protected:
  MembershipWatch() = default;
};

// Turns a source's answers into updates: counts epochs, makes diffs, drops repetitions.
// Thread safety: one thread at a time.
class MembershipTracker {
 public:
  explicit MembershipTracker(MembershipCallback callback);

  // `answer` is the source's at `now`.
  void Observe(const absl::StatusOr<ClusterSpec>& answer, absl::Time now);

  // For a source of which only a part is lost: `spec` is the best that is known, as of `confirmed`,
  // and `status` says what is wrong with it.
  void ObservePartial(const ClusterSpec& spec, const absl::Status& status, absl::Time confirmed);

  [[nodiscard]] const MembershipUpdate& last() const { return last_; }

 private:
  void SetStatusAndTell(const absl::Status& status, bool changed);

  MembershipCallback callback_;
  MembershipUpdate last_;
  bool told_ = false;  // whether the callback has been called
};

}  // namespace millrace

#endif  // MILLRACE_MEMBERSHIP_H_
