// File: core/coordinator/state/role_dealer.h
//
// Which role each executor plays, dealt as TensorFlowOnSpark's TFCluster.run deals it.
//
// Defines: IsFedRole(), RoleOptions, DealRoles().
//
//   MILLRACE_ASSIGN_OR_RETURN(
//       std::vector<NodeRole> roles,
//       DealRoles({.num_executors = 4, .num_ps = 1, .master_node = "chief"}));
//   // ps:0, chief:0, worker:0, worker:1 for executors 0, 1, 2, 3
//
// Thread safety: pure functions.

#ifndef CORE_COORDINATOR_STATE_ROLE_DEALER_H_
#define CORE_COORDINATOR_STATE_ROLE_DEALER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/node_role.h"

namespace millrace {

// Chief, master and workers are fed, and counted in num_workers, RANK and WORLD_SIZE; parameter
// servers and the evaluator never are.
[[nodiscard]] bool IsFedRole(absl::string_view job_name);

struct RoleOptions {
  int num_executors = 0;  // the whole cluster, parameter servers and evaluator included
  int num_ps = 0;
  std::string master_node;  // "" (no such node), "chief" or "master"
  bool eval_node = false;
};

// The roles by executor id: first the parameter servers, then the master node, then the evaluator,
// the rest workers.
//
// Returns INVALID_ARGUMENT, saying which option and what to do, if num_executors is not in
// 1..131,072, num_ps is negative, master_node is another name, or no executor is left for a chief,
// master or worker.
[[nodiscard]] absl::StatusOr<std::vector<NodeRole>> DealRoles(const RoleOptions& options);

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_ROLE_DEALER_H_
