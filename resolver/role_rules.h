// File: resolver/role_rules.h
//
// The rules by which the functions of millrace/roles.h tell roles. That header has ours; there are
// TensorFlow's beside them.
//
// Defines: RoleRules, OurRoleRules().

#ifndef RESOLVER_ROLE_RULES_H_
#define RESOLVER_ROLE_RULES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// Each member is the function of its name, but for check_task. Thread safety: pure functions.
struct RoleRules {
  using TaskType = std::optional<std::string>;
  using TaskId = std::optional<int>;

  absl::StatusOr<bool> (*is_chief)(const ClusterSpec&, const TaskType&, const TaskId&);
  // Whether there is such a task, in a cluster whose roles make sense.
  absl::Status (*check_task)(const ClusterSpec&, const TaskType&, const TaskId&);
  absl::StatusOr<std::string> (*coordination_leader)(const ClusterSpec&);
  absl::StatusOr<int> (*worker_count)(const ClusterSpec&, const TaskType&);
  absl::StatusOr<int> (*id_in_cluster)(const ClusterSpec&, const TaskType&, const TaskId&);
};

[[nodiscard]] RoleRules OurRoleRules();

}  // namespace millrace

#endif  // RESOLVER_ROLE_RULES_H_
