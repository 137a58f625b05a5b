#include "millrace/roles.h"

#include "millrace/status_macros.h"
#include "resolver/role_rules.h"
#include "resolver/tensorflow/tensorflow_roles.h"

namespace millrace {
namespace {

RoleRules RulesOf(ResolverBehavior behavior) {
  return behavior == ResolverBehavior::kTensorFlow ? TensorFlowRoleRules() : OurRoleRules();
}

}  // namespace

absl::StatusOr<bool> IsChief(const ClusterSpec& spec, const std::optional<std::string>& task_type,
                             const std::optional<int>& task_id, ResolverBehavior behavior) {
  return RulesOf(behavior).is_chief(spec, task_type, task_id);
}

absl::StatusOr<std::string> CollectiveLeader(const ClusterSpec& spec,
                                             const std::optional<std::string>& task_type,
                                             const std::optional<int>& task_id,
                                             ResolverBehavior behavior) {
  if (spec.empty()) return std::string();
  const RoleRules rules = RulesOf(behavior);
  MILLRACE_RETURN_IF_ERROR(rules.check_task(spec, task_type, task_id));
  if (task_type == "evaluator") return std::string();
  return rules.coordination_leader(spec);
}

absl::StatusOr<std::string> CoordinationLeader(const ClusterSpec& spec, ResolverBehavior behavior) {
  return RulesOf(behavior).coordination_leader(spec);
}

absl::StatusOr<int> WorkerCount(const ClusterSpec& spec,
                                const std::optional<std::string>& task_type,
                                ResolverBehavior behavior) {
  return RulesOf(behavior).worker_count(spec, task_type);
}

absl::StatusOr<int> IdInCluster(const ClusterSpec& spec,
                                const std::optional<std::string>& task_type,
                                const std::optional<int>& task_id, ResolverBehavior behavior) {
  return RulesOf(behavior).id_in_cluster(spec, task_type, task_id);
}

}  // namespace millrace
