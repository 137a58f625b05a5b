// File: core/coordinator/state/restart_policy.h
//
// How often a node that failed is started again, how soon, and when a host is left alone.
//
// Defines: RestartPolicy, QuarantinePolicy, CheckRestartPolicy(), CheckQuarantinePolicy(),
// RestartBackoff().
//
// Thread safety: ordinary values and pure functions.

#ifndef CORE_COORDINATOR_STATE_RESTART_POLICY_H_
#define CORE_COORDINATOR_STATE_RESTART_POLICY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

// Of one slot. A restart is the same role in a new process: node attempt + 1.
struct RestartPolicy {
  // Restarts that a slot may use within `window`; the next failure is the cluster's. 0: none.
  int max_restarts = 0;
  // Restarts longer ago than this do not count any more. InfiniteDuration(): all count.
  absl::Duration window = absl::InfiniteDuration();
  // From the failure to the restart; doubled with every failure that follows on a run shorter than
  // max_backoff, and spread by a fifth to either side.
  absl::Duration initial_backoff = absl::Seconds(1);
  absl::Duration max_backoff = absl::Seconds(30);

  friend bool operator==(const RestartPolicy&, const RestartPolicy&) = default;
};

// A host on which this many nodes or agents failed within `window` gets no restarts for `duration`:
// the fault is likely the host's, or a program's that cannot run. Where all nodes are on one host
// each is counted for itself, and one that failed so often is not started again.
struct QuarantinePolicy {
  int failures = 3;
  absl::Duration window = absl::Seconds(60);
  absl::Duration duration = absl::Minutes(5);

  friend bool operator==(const QuarantinePolicy&, const QuarantinePolicy&) = default;
};

// Return INVALID_ARGUMENT that names `name` and the member that makes no sense.
[[nodiscard]] absl::Status CheckRestartPolicy(absl::string_view name, const RestartPolicy& policy);
[[nodiscard]] absl::Status CheckQuarantinePolicy(absl::string_view name,
                                                 const QuarantinePolicy& policy);

// How long to wait before a restart after `failures_before` short runs in a row; `random` in [0,
// 1).
[[nodiscard]] absl::Duration RestartBackoff(const RestartPolicy& policy, int failures_before,
                                            double random);

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_RESTART_POLICY_H_
