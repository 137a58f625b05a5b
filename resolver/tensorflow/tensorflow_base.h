// File: resolver/tensorflow/tensorflow_base.h
//
// What ResolverBase (millrace/resolver_base.h) asks with ResolverBehavior::kTensorFlow.
//
// Defines: CountDevicesAsTensorFlow(), TaskAddressAsTensorFlow().
//
// Thread safety: pure functions.

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_BASE_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_BASE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// Devices by their type, without CPUs. TensorFlow looks for the task in a device's name by
// substrings, so that task 1 has the devices of task 10 too, and only if both parts of the task are
// given.
[[nodiscard]] std::map<std::string, int> CountDevicesAsTensorFlow(
    const std::vector<std::string>& devices, const std::optional<std::string>& task_type,
    const std::optional<int>& task_id);

// task_address() of tf.train.ClusterSpec, where job and index may be None. Returns its ValueErrors.
[[nodiscard]] absl::StatusOr<std::string> TaskAddressAsTensorFlow(
    const ClusterSpec& spec, const std::optional<std::string>& task_type,
    const std::optional<int>& task_id);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_BASE_H_
