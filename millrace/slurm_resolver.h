// File: millrace/slurm_resolver.h
//
// The tasks of a Slurm step as a ClusterResolver; TensorFlow's SlurmClusterResolver.
//
// Defines: SlurmResolverOptions, SlurmResolver, SlurmTaskInfo.
//
//   // srun -n 5 program, which does:
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<SlurmResolver> resolver,
//                             SlurmResolver::Create({.jobs = {{{"ps", 1}, {"worker", 4}}}}));
//   resolver->cluster_spec();   // {"ps": ["n1:8888"], "worker": ["n1:8889", "n2:8888", ...]}
//   resolver->GetTaskInfo();    // this process: "worker", 2

#ifndef MILLRACE_SLURM_RESOLVER_H_
#define MILLRACE_SLURM_RESOLVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/cluster_resolver.h"
#include "millrace/resolver_base.h"

namespace millrace {

// Which task this process is; nullopt where that is not known.
struct SlurmTaskInfo {
  std::optional<std::string> task_type;
  std::optional<int> task_id;
  friend bool operator==(const SlurmTaskInfo&, const SlurmTaskInfo&) = default;
};

struct SlurmResolverOptions {
  using Jobs = std::vector<std::pair<std::string, int>>;  // name and number of tasks, in order
  using TasksOfHosts = std::vector<std::pair<std::string, int>>;
  // The value of a variable, nullopt if it is not set.
  using Reader = std::function<std::optional<std::string>(const std::string& name)>;
  // Sets a variable of this process.
  using Writer = std::function<absl::Status(const std::string& name, const std::string& value)>;
  // How many GPUs this host has, where CUDA_VISIBLE_DEVICES is not set.
  using GpuCounter = std::function<absl::StatusOr<int>()>;

  ResolverBehavior behavior = ResolverBehavior::kCorrect;
  // Nullopt: {"worker": SLURM_STEP_NUM_TASKS}.
  std::optional<Jobs> jobs;
  int port_base = 8888;
  // Nullopt: those of this host, taken to be the same on all.
  std::optional<int> gpus_per_node;
  // Nullopt: gpus_per_node divided by the tasks of the fullest host.
  std::optional<int> gpus_per_task;
  // Nullopt: SLURM_STEP_TASKS_PER_NODE. One number for every host of the node list, or hosts by
  // name in place of it.
  std::optional<std::variant<int, TasksOfHosts>> tasks_per_node;
  // Whether cluster_spec() sets CUDA_VISIBLE_DEVICES of this process to its slice. Nullopt: only
  // with kTensorFlow. Not safe while other threads read the environment.
  std::optional<bool> auto_set_gpu;
  // The task of this process, if it is not that of its rank, and the prefix of master(): "grpc" if
  // no rpc_layer is set, none if it is "".
  TaskProperties properties;
  Reader read;            // empty: the environment of this process
  Writer write;           // empty: the environment of this process
  GpuCounter count_gpus;  // empty: what `millrace-gpu` sees
};

// Reads the variables that srun sets for a step: SLURM_PROCID, SLURM_STEP_NUM_TASKS,
// SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE, and where they are set SLURM_DISTRIBUTION,
// SLURM_DIST_PLANESIZE, SLURM_NODEID, SLURM_LOCALID, SLURM_GPUS_PER_TASK and CUDA_VISIBLE_DEVICES.
// Those of the job (SLURM_NTASKS, ...) are not used: a step may be smaller than its job. They
// cannot change, so a watch tells one spec.
//
// Ranks are dealt over the hosts in the order of the node list as SLURM_DISTRIBUTION says: block
// (the default), cyclic, plane or plane=N. Jobs take ranks in the order in which they are given.
// The k-th task of a host listens on port_base + k.
//
// The k-th task of a host may use the k-th slice of gpus_per_task of the GPUs of its host: of the
// ids in CUDA_VISIBLE_DEVICES if that is set, otherwise of 0..gpus_per_node-1. Where srun has given
// each task GPUs of its own (--gpus-per-task, or gpus_per_task ids in CUDA_VISIBLE_DEVICES), the
// task uses those. Hosts without GPUs are fine. num_accelerators() is {"GPU": gpus_per_task} for
// every task ({} if that is 0), NOT_FOUND if the step has no such task (kTensorFlow: does not
// look).
//
// With kTensorFlow: hosts are taken in the order of their names, jobs too, so that ranks and hosts
// do not match from ten unpadded hosts on; a host that is in the list twice counts once; ids are
// always 0-based; CUDA_VISIBLE_DEVICES set to nothing is one GPU; without GPUs cluster_spec()
// fails; cluster_spec() sets the variable and the properties, and the task is only known after it.
class SlurmResolver : public ResolverBase {
 public:
  static constexpr int kMaxTasks = 1 << 20;

  // Reads the variables. Returns FAILED_PRECONDITION if one is missing (not inside a step) or the
  // distribution is another, INVALID_ARGUMENT if one is malformed, two contradict each other (both
  // are named) or the options ask for something that the step does not have; RESOURCE_EXHAUSTED for
  // more than kMaxTasks. With kTensorFlow its errors.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SlurmResolver>> Create(
      SlurmResolverOptions options);

  ~SlurmResolver() override;

  // This process's task by its rank, whatever was set (kTensorFlow: the properties).
  [[nodiscard]] virtual SlurmTaskInfo GetTaskInfo() const = 0;

  // The ids that this process may use, as CUDA_VISIBLE_DEVICES has them: "2,3"; "" without GPUs.
  // Errors as cluster_spec().
  [[nodiscard]] virtual absl::StatusOr<std::string> VisibleDevices() const = 0;

 protected:
  explicit SlurmResolver(const SlurmResolverOptions& options);
};

}  // namespace millrace

#endif  // MILLRACE_SLURM_RESOLVER_H_
