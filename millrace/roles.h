// File: millrace/roles.h
//
// Which task of a cluster is the chief, how many workers there are, who leads collectives:
// TensorFlow's multi_worker_util.
//
// Defines: IsChief(), CollectiveLeader(), CoordinationLeader(), WorkerCount(), IdInCluster().
//
//   MILLRACE_ASSIGN_OR_RETURN(const bool saves, IsChief(spec, "worker", 0));

#ifndef MILLRACE_ROLES_H_
#define MILLRACE_ROLES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// A cluster has at most one task of chief (or master, its older name) and at most one evaluator,
// beside workers, ps, and jobs of other names, which have no role. Workers are counted by the tasks
// that are there, and a worker's id is its place among them, so that a sparse job has ids without
// gaps. An evaluator need not be in the spec.
//
// All that take a task return NOT_FOUND if it is not in the spec, INVALID_ARGUMENT if the spec has
// two chiefs or two evaluators. With kTensorFlow the errors are its ValueErrors: jobs of other
// names, master among them, are refused; ids are not checked against the gaps of a sparse job,
// whose tasks are numbered by index.
//
// Thread safety: pure functions.

// Whether the task does what only one may do: it is the chief, or an evaluator (its own cluster),
// or the first worker where there is no chief.
[[nodiscard]] absl::StatusOr<bool> IsChief(const ClusterSpec& spec,
                                           const std::optional<std::string>& task_type,
                                           const std::optional<int>& task_id,
                                           ResolverBehavior behavior = ResolverBehavior::kCorrect);

// The task that leads collectives, "/job:chief/replica:0/task:0" or the first worker; "" for an
// evaluator and for a spec without jobs.
// Also FAILED_PRECONDITION if there is neither chief nor worker.
[[nodiscard]] absl::StatusOr<std::string> CollectiveLeader(
    const ClusterSpec& spec, const std::optional<std::string>& task_type,
    const std::optional<int>& task_id, ResolverBehavior behavior = ResolverBehavior::kCorrect);

// The task that serves coordination to all others, the same for every caller: as
// CollectiveLeader().
[[nodiscard]] absl::StatusOr<std::string> CoordinationLeader(
    const ClusterSpec& spec, ResolverBehavior behavior = ResolverBehavior::kCorrect);

// Chief and workers together; for an evaluator, the evaluators.
// Also INVALID_ARGUMENT for any other job.
[[nodiscard]] absl::StatusOr<int> WorkerCount(
    const ClusterSpec& spec, const std::optional<std::string>& task_type,
    ResolverBehavior behavior = ResolverBehavior::kCorrect);

// 0 for the chief, then the workers; an evaluator's own index.
// Also INVALID_ARGUMENT for any other job.
[[nodiscard]] absl::StatusOr<int> IdInCluster(
    const ClusterSpec& spec, const std::optional<std::string>& task_type,
    const std::optional<int>& task_id, ResolverBehavior behavior = ResolverBehavior::kCorrect);

}  // namespace millrace

#endif  // MILLRACE_ROLES_H_
