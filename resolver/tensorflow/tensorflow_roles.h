// File: resolver/tensorflow/tensorflow_roles.h
//
// The functions of tf.distribute's multi_worker_util, bug for bug: what those of millrace/roles.h
// answer with ResolverBehavior::kTensorFlow. Unlike them they refuse jobs of other names, count
// only `chief` as a chief, and take a task's index for its place among the tasks that are there.
//
// Defines: TensorFlowIsChief(), TensorFlowCollectiveLeader(), TensorFlowCoordinationLeader(),
// TensorFlowWorkerCount(), TensorFlowIdInCluster().
//
// Thread safety: pure functions. Errors are TensorFlowError()s.

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_ROLES_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_ROLES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/cluster_spec.h"

namespace millrace {

[[nodiscard]] absl::StatusOr<bool> TensorFlowIsChief(const ClusterSpec& spec,
                                                     const std::optional<std::string>& task_type,
                                                     const std::optional<int>& task_id);

[[nodiscard]] absl::StatusOr<std::string> TensorFlowCollectiveLeader(
    const ClusterSpec& spec, const std::optional<std::string>& task_type,
    const std::optional<int>& task_id);

[[nodiscard]] absl::StatusOr<std::string> TensorFlowCoordinationLeader(const ClusterSpec& spec);

[[nodiscard]] absl::StatusOr<int> TensorFlowWorkerCount(
    const ClusterSpec& spec, const std::optional<std::string>& task_type);

[[nodiscard]] absl::StatusOr<int> TensorFlowIdInCluster(const ClusterSpec& spec,
                                                        const std::optional<std::string>& task_type,
                                                        const std::optional<int>& task_id);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_ROLES_H_
