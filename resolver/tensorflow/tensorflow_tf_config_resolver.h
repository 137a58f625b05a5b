// File: resolver/tensorflow/tensorflow_tf_config_resolver.h
//
// TensorFlow's TFConfigClusterResolver, bug for bug: what TfConfigResolver::Create() makes with
// ResolverBehavior::kTensorFlow; and what those have in common that answer from an object like
// TF_CONFIG's.
//
// Defines: MakeTensorFlowTfConfigResolver(), TensorFlowConfig, IsLocalAsTensorFlow(),
// AsTensorFlowConfig.

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_TF_CONFIG_RESOLVER_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_TF_CONFIG_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/status_macros.h"
#include "millrace/tf_config_resolver.h"
#include "resolver/tensorflow/tensorflow_base.h"

namespace millrace {

// `options.read` is set.
[[nodiscard]] std::unique_ptr<TfConfigResolver> MakeTensorFlowTfConfigResolver(
    const TfConfigResolverOptions& options);

// What such an object says; each may be of any type. Errors are TensorFlowError()s.
struct TensorFlowConfig {
  OrderedJson object;

  [[nodiscard]] absl::StatusOr<ClusterSpec> Spec() const;
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> TaskType() const;
  [[nodiscard]] absl::StatusOr<std::optional<int>> TaskId() const;
  // str() of the member; nullopt if it is absent or null.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> Text(absl::string_view key) const;
};

// Whether TensorFlow takes the cluster for one that needs no master: it has no job, or one with a
// single task. Fails for one without tasks.
[[nodiscard]] absl::StatusOr<bool> IsLocalAsTensorFlow(const ClusterSpec& spec);

// `Options` are those of `Resolver`, and have an environment. Thread safety: as Resolver's.
template <typename Resolver, typename Options>
class AsTensorFlowConfig : public AsTensorFlow<Resolver> {
 public:
  explicit AsTensorFlowConfig(const Options& options)
      : AsTensorFlow<Resolver>(options), environment_(options.environment) {}

  absl::StatusOr<ClusterSpec> cluster_spec() override {
    MILLRACE_ASSIGN_OR_RETURN(const TensorFlowConfig config, Load());
    return config.Spec();
  }

  // A single task has no master even if it is asked for.
  absl::StatusOr<std::string> master(std::optional<std::string> task_type,
                                     std::optional<int> task_id,
                                     std::optional<std::string> rpc_layer) override {
    MILLRACE_ASSIGN_OR_RETURN(const TensorFlowConfig config, Load());
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> session_master,
                              config.Text("session_master"));
    if (session_master.has_value()) return *session_master;
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, config.Spec());
    MILLRACE_ASSIGN_OR_RETURN(const bool local, IsLocalAsTensorFlow(spec));
    if (local) return std::string();
    MILLRACE_RETURN_IF_ERROR(this->CompleteTask(&task_type, &task_id));
    if (!rpc_layer.has_value()) {
      MILLRACE_ASSIGN_OR_RETURN(rpc_layer, this->rpc_layer());
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::string address,
                              TaskAddressAsTensorFlow(spec, task_type, task_id));
    return FormatMasterUrl(address, rpc_layer.value_or(""));
  }

  // Of a task that is known nothing is counted: the devices of a process that has not joined a
  // cluster carry no job.
  absl::StatusOr<std::map<std::string, int>> num_accelerators(std::optional<std::string> task_type,
                                                              std::optional<int> task_id) override {
    MILLRACE_RETURN_IF_ERROR(this->CompleteTask(&task_type, &task_id));
    return AsTensorFlow<Resolver>::num_accelerators(std::move(task_type), task_id);
  }

  absl::StatusOr<std::optional<std::string>> environment() override { return environment_; }

 protected:
  // The object as it is now.
  virtual absl::StatusOr<TensorFlowConfig> Load() const = 0;

  absl::StatusOr<std::optional<std::string>> SourceTaskType() override {
    MILLRACE_ASSIGN_OR_RETURN(const TensorFlowConfig config, Load());
    return config.TaskType();
  }
  absl::StatusOr<std::optional<int>> SourceTaskId() override {
    MILLRACE_ASSIGN_OR_RETURN(const TensorFlowConfig config, Load());
    return config.TaskId();
  }
  absl::StatusOr<std::optional<std::string>> SourceRpcLayer() override {
    MILLRACE_ASSIGN_OR_RETURN(const TensorFlowConfig config, Load());
    return config.Text("rpc_layer");
  }

 private:
  const std::optional<std::string> environment_;
};

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_TF_CONFIG_RESOLVER_H_
