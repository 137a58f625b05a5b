// File: resolver/slurm/slurm_step.h
//
// The tasks and GPUs of a Slurm step, read from the variables that srun sets. millrace/
// slurm_resolver.h tells by which rules.
//
// Defines: SlurmStep, ReadSlurmStep(), TooManySlurmTasks(), the names of the variables.

#ifndef RESOLVER_SLURM_SLURM_STEP_H_
#define RESOLVER_SLURM_SLURM_STEP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/cluster_spec.h"
#include "millrace/slurm_resolver.h"

namespace millrace {

inline constexpr char kSlurmRank[] = "SLURM_PROCID";
inline constexpr char kSlurmNumTasks[] = "SLURM_STEP_NUM_TASKS";
inline constexpr char kSlurmNodeList[] = "SLURM_STEP_NODELIST";
inline constexpr char kSlurmTasksPerNode[] = "SLURM_STEP_TASKS_PER_NODE";
inline constexpr char kSlurmDevices[] = "CUDA_VISIBLE_DEVICES";

// What is known of a step; does not change.
struct SlurmStep {
  // One task in the order of ranks.
  struct Task {
    std::string address;
    int place = 0;  // among the tasks of its host
  };

  int64_t rank = 0;  // this process's
  SlurmResolverOptions::Jobs jobs;
  std::vector<Task> tasks;
  int64_t gpus_per_node = 0;
  int64_t gpus_per_task = 0;
  std::optional<std::vector<std::string>> inherited;  // ids in CUDA_VISIBLE_DEVICES
  bool own_gpus = false;                              // srun has given each task its own

  // Of this process; no task if its rank is in no job.
  [[nodiscard]] SlurmTaskInfo TaskInfo() const;
  [[nodiscard]] absl::StatusOr<ClusterSpec> Spec() const;
  // Ids of the GPUs of tasks[task], with commas.
  [[nodiscard]] std::string VisibleDevices(size_t task) const;
};

// `options.read` and `count_gpus` are set. Errors as SlurmResolver::Create(); `rank` is the index
// of a task.
[[nodiscard]] absl::StatusOr<SlurmStep> ReadSlurmStep(const SlurmResolverOptions& options);

// RESOURCE_EXHAUSTED: more than SlurmResolver::kMaxTasks.
[[nodiscard]] absl::Status TooManySlurmTasks();

}  // namespace millrace

#endif  // RESOLVER_SLURM_SLURM_STEP_H_
