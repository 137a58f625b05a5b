#include "core/cluster/cluster_directory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

FeedTarget::State TargetState(FeedRoute::State state) {
  switch (state) {
    case FeedRoute::State::kRunning:
      return FeedTarget::State::kRunning;
    case FeedRoute::State::kStarting:
    case FeedRoute::State::kRestarting:
      return FeedTarget::State::kRestarting;
    case FeedRoute::State::kFinished:
      return FeedTarget::State::kFinished;
    case FeedRoute::State::kFailed:
      return FeedTarget::State::kFailed;
  }
  return FeedTarget::State::kFailed;
}

}  // namespace

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
  MILLRACE_ASSIGN_OR_RETURN(FeedRoute route, coordinator_->LookupFeed(executor_id));
  FeedTarget target;
  target.node = node;
  target.executor_id = executor_id;
  target.attempt = static_cast<int>(route.attempt);
  target.nonce = std::move(route.nonce);
  target.ipc_endpoint = std::move(route.ipc);
  target.tcp_endpoint = std::move(route.tcp);
  target.curve_endpoint = std::move(route.curve);
  target.key = std::move(route.key);
  target.curve_key = std::move(route.curve_key);
  target.state = TargetState(route.state);
  return target;
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
