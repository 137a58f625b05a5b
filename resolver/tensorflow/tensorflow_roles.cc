#include "resolver/tensorflow/tensorflow_roles.h"

#include <algorithm>
#include <array>
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

absl::Status ValueError(absl::string_view message) { return PythonError("ValueError", message); }

// Number of tasks; 0 without the job.
int Count(const ClusterSpec& spec, const std::string& job) {
  return spec.NumTasks(job).value_or(0);
}

std::string ReprOrNone(const std::optional<std::string>& task_type) {
  return task_type.has_value() ? PythonRepr(*task_type) : "None";
}

std::string FirstTaskOf(absl::string_view job) {
  return absl::StrCat("/job:", job, "/replica:0/task:0");
}

absl::Status Validate(const ClusterSpec& spec, const std::optional<std::string>& task_type,
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

absl::StatusOr<bool> IsChief(const ClusterSpec& spec, const std::optional<std::string>& task_type,
                             const std::optional<int>& task_id) {
  MILLRACE_RETURN_IF_ERROR(Validate(spec, task_type, task_id));
  if (task_type == "chief" || task_type == "evaluator") return true;
  return !spec.HasJob("chief") && task_type == "worker" && task_id == 0;
}

absl::StatusOr<std::string> CoordinationLeader(const ClusterSpec& spec) {
  if (spec.empty()) return std::string();
  if (spec.HasJob("chief")) return FirstTaskOf("chief");
  if (!spec.HasJob("worker")) return PythonError("AssertionError", "");
  return FirstTaskOf("worker");
}

absl::StatusOr<int> WorkerCount(const ClusterSpec& spec,
                                const std::optional<std::string>& task_type) {
  MILLRACE_RETURN_IF_ERROR(Validate(spec, task_type, 0));
  if (task_type == "chief" || task_type == "worker") {
    return Count(spec, "chief") + Count(spec, "worker");
  }
  if (task_type != "evaluator") {
    return ValueError(absl::StrCat("Unexpected `task_type` ", ReprOrNone(task_type)));
  }
  if (!spec.HasJob("evaluator")) return PythonError("KeyError", PythonRepr("evaluator"));
  return Count(spec, "evaluator");
}

absl::StatusOr<int> IdInCluster(const ClusterSpec& spec,
                                const std::optional<std::string>& task_type,
                                const std::optional<int>& task_id) {
  MILLRACE_RETURN_IF_ERROR(Validate(spec, task_type, task_id));
  if (task_type == "chief") return 0;
  if (task_type == "worker") return *task_id + Count(spec, "chief");
  if (task_type == "evaluator") return task_id.value_or(0);
  return ValueError(absl::StrCat("There is no id for task_type ", ReprOrNone(task_type)));
}

}  // namespace

RoleRules TensorFlowRoleRules() {
  return {.is_chief = IsChief,
          .check_task = Validate,
          .coordination_leader = CoordinationLeader,
          .worker_count = WorkerCount,
          .id_in_cluster = IdInCluster};
}

}  // namespace millrace
