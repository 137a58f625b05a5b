// File: millrace/restart_policy.h
//
// How often a node that failed is started again, how soon, and when a host is left alone
// (docs/failures.md).
//
// Defines: RestartPolicy, QuarantinePolicy.
//
// Thread safety: ordinary values.

#ifndef MILLRACE_RESTART_POLICY_H_
#define MILLRACE_RESTART_POLICY_H_

#include "absl/time/time.h"

namespace millrace {

// Of one slot. A restart is the same role in a new process: node attempt + 1.
struct RestartPolicy {
  // How many restarts a slot may use within `window`; one more failure fails the cluster. 0: none.
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
// either the host is at fault, or the program cannot run at all. If all nodes are on one host,
// failures are counted for each node separately, and a node that has failed so often is not started
// again.
struct QuarantinePolicy {
  int failures = 3;
  absl::Duration window = absl::Seconds(60);
  absl::Duration duration = absl::Minutes(5);

  friend bool operator==(const QuarantinePolicy&, const QuarantinePolicy&) = default;
};

}  // namespace millrace

#endif  // MILLRACE_RESTART_POLICY_H_
