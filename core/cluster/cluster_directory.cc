#include "core/cluster/cluster_directory.h"

#include "absl/strings/str_cat.h"
#include "millrace/status_macros.h"

namespace millrace {

ClusterDirectory::ClusterDirectory(Coordinator* coordinator, const std::vector<NodeRole>& roles)
    : coordinator_(coordinator) {
  for (const int executor_id : coordinator->fed_nodes()) {
    executors_[roles[executor_id].ToString()] = executor_id;
  }
}

std::vector<std::string> ClusterDirectory::fed_nodes() {
  std::vector<std::string> nodes;
  for (const auto& [node, executor_id] : executors_) nodes.push_back(node);
  return nodes;
}

absl::StatusOr<FeedTarget> ClusterDirectory::Lookup(const std::string& node) {
  MILLRACE_ASSIGN_OR_RETURN(const int executor_id, ExecutorOf(node));
  return coordinator_->LookupFeed(executor_id);
}

bool ClusterDirectory::IsEqual(const std::string& queue) { return coordinator_->IsEqual(queue); }

absl::Status ClusterDirectory::Cause(const std::string& node) {
  MILLRACE_ASSIGN_OR_RETURN(const int executor_id, ExecutorOf(node));
  // The cluster's first cause explains more than the node's own end, which may be its consequence.
  MILLRACE_RETURN_IF_ERROR(coordinator_->first_cause());
  MILLRACE_RETURN_IF_ERROR(coordinator_->Cause(executor_id));
  return absl::UnavailableError(absl::StrCat(node, " is gone"));
}

absl::StatusOr<int> ClusterDirectory::ExecutorOf(const std::string& node) const {
  const auto found = executors_.find(node);
  if (found != executors_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat(node, " is no fed node of this cluster"));
}

}  // namespace millrace
