#include "millrace/roles.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/status_macros.h"
#include "resolver/tensorflow/python_value.h"

namespace millrace {
namespace {

constexpr absl::string_view kAllowedTypes = "('chief', 'worker', 'evaluator', 'ps', None)";

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

absl::Status ValueError(absl::string_view message) { return PythonError("ValueError", message); }

// --- kCorrect ---

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

// --- kTensorFlow ---

absl::Status ValidateAsTensorFlow(const ClusterSpec& spec,
                                  const std::optional<std::string>& task_type,
                                  const std::optional<int>& task_id) {
  static constexpr std::array<absl::string_view, 4> kAllowed = {"chief", "worker", "evaluator",
                                                                "ps"};
  const auto allowed = [](const std::string& job) {
    return std::find(kAllowed.begin(), kAllowed.end(), job) != kAllowed.end();
  };
  const std::vector<std::string> jobs = spec.jobs();
  if (!std::all_of(jobs.begin(), jobs.end(), allowed)) {
    return ValueError(absl::StrCat("Disallowed task type found in cluster spec. Allowed types are ",
                                   kAllowedTypes, " and the cluster spec is ", spec.AsText(), "."));
  }
  if (task_type.has_value() && !allowed(*task_type)) {
    return ValueError(absl::StrCat("Unrecognized task_type: ", *task_type,
                                   ", valid task types are: ", kAllowedTypes));
  }
  if (task_type.has_value() && *task_type != "evaluator" && !spec.HasJob(*task_type)) {
    return ValueError(
        absl::StrCat("`task_type` ", PythonRepr(*task_type), " not found in cluster_spec."));
  }
  if (Count(spec, "chief") > 1) return ValueError("There must be at most one 'chief' job.");
  if (Count(spec, "evaluator") > 1) return ValueError("There must be at most one 'evaluator' job.");
  if (!task_type.has_value() || !spec.HasJob(*task_type)) return absl::OkStatus();
  if (!task_id.has_value()) {
    return PythonError("TypeError", "'>=' not supported between instances of 'NoneType' and 'int'");
  }
  if (*task_id >= Count(spec, *task_type)) {
    return ValueError(
        absl::StrCat("The `task_id` ", *task_id, " exceeds the maximum id of ", *task_type, "."));
  }
  return absl::OkStatus();
}

absl::Status Check(const ClusterSpec& spec, const std::optional<std::string>& task_type,
                   const std::optional<int>& task_id, ResolverBehavior behavior) {
  return behavior == ResolverBehavior::kTensorFlow ? ValidateAsTensorFlow(spec, task_type, task_id)
                                                   : CheckTask(spec, task_type, task_id);
}

std::string Device(absl::string_view job, int task) {
  return absl::StrCat("/job:", job, "/replica:0/task:", task);
}

}  // namespace

absl::StatusOr<bool> IsChief(const ClusterSpec& spec, const std::optional<std::string>& task_type,
                             const std::optional<int>& task_id, ResolverBehavior behavior) {
  MILLRACE_RETURN_IF_ERROR(Check(spec, task_type, task_id, behavior));
  const std::string type = task_type.value_or("");
  if (behavior == ResolverBehavior::kTensorFlow) {
    if (type == "chief" || type == "evaluator") return true;
    return !spec.HasJob("chief") && type == "worker" && task_id == 0;
  }
  if (IsChiefType(type) || type == "evaluator") return true;
  return ChiefJob(spec).empty() && type == "worker" && PlaceOf(spec, type, *task_id) == 0;
}

absl::StatusOr<std::string> CollectiveLeader(const ClusterSpec& spec,
                                             const std::optional<std::string>& task_type,
                                             const std::optional<int>& task_id,
                                             ResolverBehavior behavior) {
  if (spec.empty()) return std::string();
  MILLRACE_RETURN_IF_ERROR(Check(spec, task_type, task_id, behavior));
  if (task_type == "evaluator") return std::string();
  return CoordinationLeader(spec, behavior);
}

absl::StatusOr<std::string> CoordinationLeader(const ClusterSpec& spec, ResolverBehavior behavior) {
  if (spec.empty()) return std::string();
  if (behavior == ResolverBehavior::kTensorFlow) {
    if (spec.HasJob("chief")) return Device("chief", 0);
    if (!spec.HasJob("worker")) return PythonError("AssertionError", "");
    return Device("worker", 0);
  }
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
                                const std::optional<std::string>& task_type,
                                ResolverBehavior behavior) {
  const std::string type = task_type.value_or("");
  if (behavior == ResolverBehavior::kTensorFlow) {
    MILLRACE_RETURN_IF_ERROR(ValidateAsTensorFlow(spec, task_type, 0));
    if (type != "chief" && type != "worker" && type != "evaluator") {
      return ValueError(absl::StrCat("Unexpected `task_type` ",
                                     task_type.has_value() ? PythonRepr(type) : "None"));
    }
    if (type != "evaluator") return Count(spec, "chief") + Count(spec, "worker");
    if (!spec.HasJob(type)) return PythonError("KeyError", PythonRepr(type));
    return Count(spec, type);
  }
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
                                const std::optional<int>& task_id, ResolverBehavior behavior) {
  MILLRACE_RETURN_IF_ERROR(Check(spec, task_type, task_id, behavior));
  const std::string type = task_type.value_or("");
  if (behavior == ResolverBehavior::kTensorFlow) {
    if (type == "chief") return 0;
    if (type == "worker") return *task_id + Count(spec, "chief");
    if (type == "evaluator") return task_id.value_or(0);
    return ValueError(absl::StrCat("There is no id for task_type ",
                                   task_type.has_value() ? PythonRepr(type) : "None"));
  }
  if (IsChiefType(type)) return 0;
  if (type == "evaluator") return *task_id;
  if (type != "worker") {
    return absl::InvalidArgumentError(
        absl::StrCat("chief, workers and an evaluator have ids in the cluster, job ",
                     PythonRepr(type), " has not"));
  }
  return PlaceOf(spec, type, *task_id) + (ChiefJob(spec).empty() ? 0 : 1);
}

}  // namespace millrace
