#include "resolver/role_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Number of tasks; 0 without the job.
int Count(const ClusterSpec& spec, const std::string& job) {
  return spec.NumTasks(job).value_or(0);
}

// The job that the chief is in: "chief", or by its older name; "" if there is none.
std::string ChiefJob(const ClusterSpec& spec) {
  for (const char* job : {"chief", "master"}) {
    if (Count(spec, job) > 0) return job;
  }
  return "";
}

bool IsChiefType(const std::string& type) { return type == "chief" || type == "master"; }

absl::Status CheckSpec(const ClusterSpec& spec) {
  const int chiefs = Count(spec, "chief") + Count(spec, "master");
  if (chiefs > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a cluster has at most one task of the jobs chief and master together, this one has ",
        chiefs));
  }
  if (const int evaluators = Count(spec, "evaluator"); evaluators > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a cluster has at most one evaluator, this one has ", evaluators));
  }
  return absl::OkStatus();
}

absl::Status CheckTask(const ClusterSpec& spec, const std::optional<std::string>& task_type,
                       const std::optional<int>& task_id) {
  MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
  if (!task_type.has_value() || !task_id.has_value()) {
    return absl::NotFoundError(
        "which task is meant is not known: set task_type and task_id of the resolver");
  }
  if (task_type == "evaluator" && !spec.HasJob("evaluator")) return absl::OkStatus();
  return spec.TaskAddress(*task_type, *task_id).status();
}

// Place of the task among the tasks of its job that are there.
int PlaceOf(const ClusterSpec& spec, const std::string& job, int task_id) {
  const auto tasks = spec.TaskMapOf(job);
  if (!tasks.ok()) return 0;
  return static_cast<int>(std::distance((*tasks)->begin(), (*tasks)->lower_bound(task_id)));
}

std::string Device(absl::string_view job, int task) {
  return absl::StrCat("/job:", job, "/replica:0/task:", task);
}

absl::StatusOr<bool> IsChief(const ClusterSpec& spec, const std::optional<std::string>& task_type,
                             const std::optional<int>& task_id) {
  MILLRACE_RETURN_IF_ERROR(CheckTask(spec, task_type, task_id));
  const std::string type = task_type.value_or("");
  if (IsChiefType(type) || type == "evaluator") return true;
  return ChiefJob(spec).empty() && type == "worker" && PlaceOf(spec, type, *task_id) == 0;
}

absl::StatusOr<std::string> CoordinationLeader(const ClusterSpec& spec) {
  if (spec.empty()) return std::string();
  MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
  for (const std::string& job : {ChiefJob(spec), std::string("worker")}) {
    if (Count(spec, job) == 0) continue;
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec::TaskMap* tasks, spec.TaskMapOf(job));
    return Device(job, tasks->begin()->first);
  }
  return absl::FailedPreconditionError(
      "the cluster has neither a chief nor a worker, so that nobody can lead it");
}

absl::StatusOr<int> WorkerCount(const ClusterSpec& spec,
                                const std::optional<std::string>& task_type) {
  const std::string type = task_type.value_or("");
  MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
  if (type == "evaluator") return std::max(Count(spec, type), 1);
  if (!IsChiefType(type) && type != "worker") {
    return absl::InvalidArgumentError(
        absl::StrCat("workers are counted for chief, worker or evaluator, not for ",
                     task_type.has_value() ? PythonRepr(type) : "an unknown job"));
  }
  if (Count(spec, type) == 0) {
    return absl::NotFoundError(absl::StrCat("the cluster has no task of job ", PythonRepr(type)));
  }
  return Count(spec, "chief") + Count(spec, "master") + Count(spec, "worker");
}

absl::StatusOr<int> IdInCluster(const ClusterSpec& spec,
                                const std::optional<std::string>& task_type,
                                const std::optional<int>& task_id) {
  MILLRACE_RETURN_IF_ERROR(CheckTask(spec, task_type, task_id));
  const std::string type = task_type.value_or("");
  if (IsChiefType(type)) return 0;
  if (type == "evaluator") return *task_id;
  if (type != "worker") {
    return absl::InvalidArgumentError(
        absl::StrCat("chief, workers and an evaluator have ids in the cluster, job ",
                     PythonRepr(type), " has not"));
  }
  return PlaceOf(spec, type, *task_id) + (ChiefJob(spec).empty() ? 0 : 1);
}

}  // namespace

RoleRules OurRoleRules() {
  return {.is_chief = IsChief,
          .check_task = CheckTask,
          .coordination_leader = CoordinationLeader,
          .worker_count = WorkerCount,
          .id_in_cluster = IdInCluster};
}

}  // namespace millrace
