#include "millrace/static_resolver.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<StaticResolver>> StaticResolver::CreateCorrect(
    StaticResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  if (options.num_accelerators.has_value()) {
    for (const auto& [type, count] : *options.num_accelerators) {
      if (count < 0) {
        return absl::InvalidArgumentError(absl::StrCat("num_accelerators of type ", type,
                                                       " must not be negative, found ", count));
      }
    }
  }
  return std::unique_ptr<StaticResolver>(new StaticResolver(std::move(options)));
}

StaticResolver::StaticResolver(StaticResolverOptions options)
    : ResolverBase({.properties = std::move(options.properties),
                    .count_accelerators = std::move(options.count_accelerators)}),
      cluster_spec_(std::move(options.cluster_spec)),
      master_(std::move(options.master)),
      environment_(std::move(options.environment)),
      num_accelerators_(std::move(options.num_accelerators)) {}

absl::StatusOr<ClusterSpec> StaticResolver::cluster_spec() { return cluster_spec_; }

absl::StatusOr<std::string> StaticResolver::master(std::optional<std::string> task_type,
                                                   std::optional<int> task_id,
                                                   std::optional<std::string> rpc_layer) {
  const TaskProperties set = overrides();
  if (!rpc_layer.has_value()) rpc_layer = set.rpc_layer;
  if (!task_type.has_value()) task_type = set.task_type;
  if (!task_id.has_value()) task_id = set.task_id;
  std::string address = master_;
  if (task_type.has_value() && task_id.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(address, cluster_spec_.TaskAddress(*task_type, *task_id));
  } else if (address.empty()) {
    return address;
  }
  return FormatMasterUrl(address, rpc_layer.value_or(""));
}

absl::StatusOr<std::map<std::string, int>> StaticResolver::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  if (num_accelerators_.has_value()) return *num_accelerators_;
  return ResolverBase::num_accelerators(std::move(task_type), task_id);
}

absl::StatusOr<std::optional<std::string>> StaticResolver::environment() { return environment_; }

absl::StatusOr<std::unique_ptr<MembershipWatch>> StaticResolver::Watch(
    MembershipCallback callback, const WatchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckWatch(callback, options));
  return TellOnce(cluster_spec_, std::move(callback));
}

}  // namespace millrace
