// File: resolver/tensorflow/tensorflow_base.h
//
// What TensorFlow's ClusterResolver has in common with all of its resolvers.
//
// Defines: AsTensorFlow, CountDevicesAsTensorFlow(), TaskAddressAsTensorFlow().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_BASE_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_BASE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/status_macros.h"

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

// A `Resolver`, which is a ResolverBase (millrace/resolver_base.h), with what TensorFlow's base
// class does in its place. Thread safety: as Resolver's.
template <typename Resolver>
class AsTensorFlow : public Resolver {
 public:
  template <typename... Args>
  explicit AsTensorFlow(Args&&... args) : Resolver(std::forward<Args>(args)...) {}

  // An rpc_layer of "" is as if it were not given.
  absl::StatusOr<std::string> master(std::optional<std::string> task_type = std::nullopt,
                                     std::optional<int> task_id = std::nullopt,
                                     std::optional<std::string> rpc_layer = std::nullopt) override {
    MILLRACE_RETURN_IF_ERROR(this->CompleteTask(&task_type, &task_id));
    if (!task_type.has_value() || !task_id.has_value()) return std::string();
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, this->cluster_spec());
    MILLRACE_ASSIGN_OR_RETURN(const std::string address,
                              TaskAddressAsTensorFlow(spec, task_type, task_id));
    if (!rpc_layer.has_value() || rpc_layer->empty()) {
      MILLRACE_ASSIGN_OR_RETURN(rpc_layer, this->rpc_layer());
    }
    return FormatMasterUrl(address, rpc_layer.value_or(""));
  }

  absl::StatusOr<std::map<std::string, int>> num_accelerators(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt) override {
    MILLRACE_RETURN_IF_ERROR(this->master(task_type, task_id));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> devices, DeviceNames());
    return CountDevicesAsTensorFlow(devices, task_type, task_id);
  }

  // A negative one too.
  absl::Status set_task_id(std::optional<int> task_id) override {
    this->OverrideTaskId(task_id);
    return absl::OkStatus();
  }

 protected:
  // What num_accelerators() counts: names of devices, "/job:w/.../device:GPU:0". By default those
  // of this host, which are "/device:GPU:0", ...: it has not joined the cluster.
  virtual absl::StatusOr<std::vector<std::string>> DeviceNames() {
    MILLRACE_ASSIGN_OR_RETURN(const auto accelerators, this->CountLocalAccelerators());
    std::vector<std::string> names;
    for (const auto& [type, count] : accelerators) {
      for (int i = 0; i < count; ++i) names.push_back(absl::StrCat("/device:", type, ":", i));
    }
    return names;
  }
};

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_BASE_H_
