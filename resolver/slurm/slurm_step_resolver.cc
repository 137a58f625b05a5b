#include "resolver/slurm/slurm_step_resolver.h"

#include <cstddef>
#include <utility>

#include "millrace/resolver_base.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<SlurmResolver>> MakeSlurmStepResolver(
    const SlurmResolverOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  MILLRACE_ASSIGN_OR_RETURN(SlurmStep step, ReadSlurmStep(options));
  return std::make_unique<SlurmStepResolver>(options, std::move(step));
}

SlurmResolver::SlurmResolver(const SlurmResolverOptions& options)
    : ResolverBase({.properties = {.task_type = options.properties.task_type,
                                   .task_id = options.properties.task_id,
                                   .rpc_layer = options.properties.rpc_layer.value_or("grpc")},
                    .count_accelerators = nullptr}) {}

SlurmResolver::~SlurmResolver() = default;

SlurmStepResolver::SlurmStepResolver(const SlurmResolverOptions& options, SlurmStep step)
    : SlurmResolver(options),
      step_(std::move(step)),
      write_(options.auto_set_gpu.value_or(false) ? options.write
                                                  : SlurmResolverOptions::Writer()) {}

absl::StatusOr<ClusterSpec> SlurmStepResolver::cluster_spec() {
  MILLRACE_ASSIGN_OR_RETURN(ClusterSpec spec, step_.Spec());
  MILLRACE_RETURN_IF_ERROR(WriteVisibleDevices());
  return spec;
}

absl::Status SlurmStepResolver::WriteVisibleDevices() const {
  if (write_ == nullptr) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::string devices, VisibleDevices());
  return write_(kSlurmDevices, devices);
}

absl::StatusOr<std::map<std::string, int>> SlurmStepResolver::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  const int gpus = static_cast<int>(step_.gpus_per_task);
  if (task_type.has_value() || task_id.has_value()) {
    const SlurmTaskInfo own = step_.TaskInfo();
    if (!task_type.has_value()) task_type = own.task_type;
    if (!task_id.has_value()) task_id = own.task_id;
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, step_.Spec());
    MILLRACE_RETURN_IF_ERROR(ResolvedTaskAddress(spec, task_type, task_id));
  }
  if (gpus == 0) return std::map<std::string, int>();
  return std::map<std::string, int>{{"GPU", gpus}};
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> SlurmStepResolver::Watch(
    MembershipCallback callback, const WatchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckWatch(callback, options));
  return TellOnce(cluster_spec(), std::move(callback));
}

SlurmTaskInfo SlurmStepResolver::GetTaskInfo() const { return step_.TaskInfo(); }

absl::StatusOr<std::string> SlurmStepResolver::VisibleDevices() const {
  return step_.VisibleDevices(static_cast<size_t>(step_.rank));
}

absl::StatusOr<std::optional<std::string>> SlurmStepResolver::SourceTaskType() {
  return step_.TaskInfo().task_type;
}

absl::StatusOr<std::optional<int>> SlurmStepResolver::SourceTaskId() {
  return step_.TaskInfo().task_id;
}

}  // namespace millrace
