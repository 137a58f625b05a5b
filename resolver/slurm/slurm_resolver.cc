#include "millrace/slurm_resolver.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "millrace/status_macros.h"
#include "resolver/slurm/slurm_step.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<SlurmResolver>> SlurmResolver::CreateCorrect(
    SlurmResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.task_id));
  MILLRACE_ASSIGN_OR_RETURN(SlurmStep step, ReadSlurmStep(options));
  return std::unique_ptr<SlurmResolver>(new SlurmResolver(options, std::move(step)));
}

SlurmResolver::SlurmResolver(const SlurmResolverOptions& options, SlurmStep step)
    : ResolverBase({.behavior = options.behavior,
                    .properties = {.task_type = options.task_type,
                                   .task_id = options.task_id,
                                   .rpc_layer = options.rpc_layer},
                    .count_accelerators = nullptr}),
      step_(std::make_unique<const SlurmStep>(std::move(step))),
      write_(options.auto_set_gpu.value_or(false) ? options.write
                                                  : SlurmResolverOptions::Writer()) {}

SlurmResolver::~SlurmResolver() = default;

absl::StatusOr<ClusterSpec> SlurmResolver::cluster_spec() {
  MILLRACE_ASSIGN_OR_RETURN(ClusterSpec spec, step_->Spec());
  MILLRACE_RETURN_IF_ERROR(WriteVisibleDevices());
  return spec;
}

absl::Status SlurmResolver::WriteVisibleDevices() const {
  if (write_ == nullptr) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::string devices, VisibleDevices());
  return write_(kSlurmDevices, devices);
}

absl::StatusOr<std::map<std::string, int>> SlurmResolver::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  const int gpus = static_cast<int>(step_->gpus_per_task);
  if (task_type.has_value() || task_id.has_value()) {
    const SlurmTaskInfo own = step_->TaskInfo();
    if (!task_type.has_value()) task_type = own.task_type;
    if (!task_id.has_value()) task_id = own.task_id;
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, step_->Spec());
    MILLRACE_RETURN_IF_ERROR(ResolvedTaskAddress(spec, task_type, task_id, behavior()));
  }
  if (gpus == 0) return std::map<std::string, int>();
  return std::map<std::string, int>{{"GPU", gpus}};
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> SlurmResolver::Watch(MembershipCallback callback,
                                                                      const WatchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckWatch(callback, options));
  return TellOnce(cluster_spec(), std::move(callback));
}

SlurmTaskInfo SlurmResolver::GetTaskInfo() const { return step_->TaskInfo(); }

absl::StatusOr<std::string> SlurmResolver::VisibleDevices() const {
  return step_->VisibleDevices(static_cast<size_t>(step_->rank));
}

absl::StatusOr<std::optional<std::string>> SlurmResolver::SourceTaskType() {
  return step_->TaskInfo().task_type;
}

absl::StatusOr<std::optional<int>> SlurmResolver::SourceTaskId() {
  return step_->TaskInfo().task_id;
}

}  // namespace millrace
