// File: core/coordinator/state/restart_policy.h
//
// The rules of millrace/restart_policy.h: what makes sense, and how long to wait.
//
// Defines: CheckRestartPolicy(), CheckQuarantinePolicy(), RestartBackoff().
//
// Thread safety: pure functions.

#ifndef CORE_COORDINATOR_STATE_RESTART_POLICY_H_
#define CORE_COORDINATOR_STATE_RESTART_POLICY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/restart_policy.h"

namespace millrace {

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
