#include "resolver/tensorflow/tensorflow_slurm_resolver.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/status_macros.h"
#include "resolver/slurm/slurm_step.h"
#include "resolver/slurm/slurm_step_resolver.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_base.h"
#include "resolver/tensorflow/tensorflow_hostlist.h"

namespace millrace {
namespace {

using Reader = SlurmResolverOptions::Reader;
using TasksOfHosts = SlurmResolverOptions::TasksOfHosts;

absl::Status RuntimeError(absl::string_view message) {
  return PythonError("RuntimeError", message);
}

absl::StatusOr<std::string> Variable(const Reader& read, const std::string& name) {
  std::optional<std::string> value = read(name);
  if (value.has_value()) return *std::move(value);
  return RuntimeError(
      absl::StrCat(name, " not found in environment. Not running inside a SLURM step?"));
}

absl::StatusOr<int64_t> IntVariable(const Reader& read, const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string value, Variable(read, name));
  return PythonIntOf(OrderedJson(value));
}

// A dict: in the order of names, and a host that comes again has its later count.
absl::StatusOr<std::map<std::string, int>> ReadHosts(const SlurmResolverOptions& options) {
  std::map<std::string, int> hosts;
  if (options.tasks_per_node.has_value()) {
    if (const auto* given = std::get_if<TasksOfHosts>(&*options.tasks_per_node)) {
      for (const auto& [host, count] : *given) hosts[host] = count;
      return hosts;
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string list, Variable(options.read, kSlurmNodeList));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ExpandHostlistAsTensorFlow(list));
  if (options.tasks_per_node.has_value()) {
    for (const std::string& host : names) hosts[host] = std::get<int>(*options.tasks_per_node);
    return hosts;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, Variable(options.read, kSlurmTasksPerNode));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> counts, ExpandTasksPerNodeAsTensorFlow(text));
  for (size_t i = 0; i < std::min(names.size(), counts.size()); ++i) hosts[names[i]] = counts[i];
  return hosts;
}

// CUDA_VISIBLE_DEVICES set to nothing is one GPU.
absl::StatusOr<int64_t> GpusPerNode(const SlurmResolverOptions& options) {
  if (options.gpus_per_node.has_value()) return *options.gpus_per_node;
  const std::optional<std::string> devices = options.read(kSlurmDevices);
  if (devices.has_value()) return 1 + std::count(devices->begin(), devices->end(), ',');
  const absl::StatusOr<int> gpus = options.count_gpus();
  if (gpus.ok()) return *gpus;
  return RuntimeError(
      absl::StrCat("Could not get number of GPUs from nvidia-smi. Maybe it is missing?\nOutput: ",
                   gpus.status().message()));
}

absl::Status ReadGpus(const SlurmResolverOptions& options, int64_t fullest, SlurmStep* step) {
  MILLRACE_ASSIGN_OR_RETURN(step->gpus_per_node, GpusPerNode(options));
  if (options.gpus_per_task.has_value()) {
    step->gpus_per_task = *options.gpus_per_task;
  } else {
    if (fullest == 0) {
      return PythonError("ZeroDivisionError", "integer division or modulo by zero");
    }
    step->gpus_per_task = step->gpus_per_node / fullest;
  }
  if (fullest * step->gpus_per_task > step->gpus_per_node) {
    return RuntimeError("Requested more GPUs per node than available.");
  }
  return absl::OkStatus();
}

// Jobs and hosts are both taken in the order of their names, so that ranks and hosts do not match
// from ten unpadded hosts on.
absl::StatusOr<SlurmStep> ReadStep(const SlurmResolverOptions& options) {
  SlurmStep step;
  MILLRACE_ASSIGN_OR_RETURN(step.rank, IntVariable(options.read, kSlurmRank));
  if (options.jobs.has_value()) {
    step.jobs = *options.jobs;
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t count, IntVariable(options.read, kSlurmNumTasks));
    if (count > SlurmResolver::kMaxTasks) return TooManySlurmTasks();
    step.jobs = {{"worker", static_cast<int>(count)}};
  }
  int64_t wanted = 0;
  for (const auto& [job, count] : step.jobs) wanted += count;
  std::sort(step.jobs.begin(), step.jobs.end());

  MILLRACE_ASSIGN_OR_RETURN(const auto hosts, ReadHosts(options));
  if (hosts.empty()) return PythonError("ValueError", "max() arg is an empty sequence");
  int64_t fullest = std::numeric_limits<int64_t>::min();
  int64_t total = 0;
  for (const auto& [host, count] : hosts) {
    fullest = std::max<int64_t>(fullest, count);
    total += count;
    if (total > SlurmResolver::kMaxTasks) return TooManySlurmTasks();
  }
  MILLRACE_RETURN_IF_ERROR(ReadGpus(options, fullest, &step));
  if (wanted != total) {
    return RuntimeError(
        absl::StrCat("Requested ", wanted, " tasks but only ", total, " were assigned."));
  }
  for (const auto& [host, count] : hosts) {
    for (int place = 0; place < count; ++place) {
      step.tasks.push_back(
          {.address = absl::StrCat(host, ":", options.port_base + place), .place = place});
    }
  }
  return step;
}

class TensorFlowSlurmResolver final : public AsTensorFlow<SlurmStepResolver> {
 public:
  TensorFlowSlurmResolver(const SlurmResolverOptions& options, SlurmStep step)
      : AsTensorFlow(options, std::move(step)) {}

  // Fails without GPUs; sets the task, which is only known from then on, and the variable.
  absl::StatusOr<ClusterSpec> cluster_spec() override {
    if (step().gpus_per_task == 0) {
      return PythonError("ValueError", "range() arg 3 must not be zero");
    }
    MILLRACE_ASSIGN_OR_RETURN(ClusterSpec spec, step().Spec());
    if (const SlurmTaskInfo info = step().TaskInfo(); info.task_type.has_value()) {
      MILLRACE_RETURN_IF_ERROR(set_task_type(info.task_type));
      MILLRACE_RETURN_IF_ERROR(set_task_id(info.task_id));
    }
    MILLRACE_RETURN_IF_ERROR(WriteVisibleDevices());
    return spec;
  }

  // Of any task, there or not.
  absl::StatusOr<std::map<std::string, int>> num_accelerators(std::optional<std::string>,
                                                              std::optional<int>) override {
    return std::map<std::string, int>{{"GPU", static_cast<int>(step().gpus_per_task)}};
  }

  SlurmTaskInfo GetTaskInfo() const override {
    const TaskProperties set = overrides();
    return {.task_type = set.task_type, .task_id = set.task_id};
  }

  // The rank is an index of a Python list, where -1 is the last.
  absl::StatusOr<std::string> VisibleDevices() const override {
    const int64_t size = static_cast<int64_t>(step().tasks.size());
    const int64_t index = step().rank < 0 ? step().rank + size : step().rank;
    if (index < 0 || index >= size) return PythonError("IndexError", "list index out of range");
    return step().VisibleDevices(static_cast<size_t>(index));
  }

 protected:
  absl::StatusOr<std::optional<std::string>> SourceTaskType() override { return std::nullopt; }
  absl::StatusOr<std::optional<int>> SourceTaskId() override { return std::nullopt; }
};

}  // namespace

absl::StatusOr<std::unique_ptr<SlurmResolver>> MakeTensorFlowSlurmResolver(
    SlurmResolverOptions options) {
  if (!options.auto_set_gpu.has_value()) options.auto_set_gpu = true;
  MILLRACE_ASSIGN_OR_RETURN(SlurmStep step, ReadStep(options));
  return std::make_unique<TensorFlowSlurmResolver>(options, std::move(step));
}

}  // namespace millrace
