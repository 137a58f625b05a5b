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

std::map<std::string, int64_t> ClusterDirectory::EqualRows(const std::string& feed_id) {
  const std::map<int, int64_t> told = coordinator_->EqualRows(feed_id);
  std::map<std::string, int64_t> rows;
  for (const auto& [node, executor_id] : executors_) {
    const auto found = told.find(executor_id);
    if (found != told.end()) rows[node] = found->second;
  }
  return rows;
}

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
