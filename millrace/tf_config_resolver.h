// File: millrace/tf_config_resolver.h
//
// The environment variable TF_CONFIG as a ClusterResolver; TensorFlow's TFConfigClusterResolver.
//
// Defines: TfConfigResolverOptions, TfConfigResolver.
//
//   TF_CONFIG='{"cluster": {"worker": ["h0:1", "h1:1"]}, "task": {"type": "worker", "index": 1}}'
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<TfConfigResolver> resolver,
//                             TfConfigResolver::Create({}));
//   resolver->master();   // "h1:1"

#ifndef MILLRACE_TF_CONFIG_RESOLVER_H_
#define MILLRACE_TF_CONFIG_RESOLVER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/resolver_base.h"

namespace millrace {

struct TfConfigResolverOptions {
  // The value of the variable, nullopt if it is not set.
  using Reader = std::function<std::optional<std::string>()>;

  ResolverBehavior behavior = ResolverBehavior::kCorrect;
  TaskProperties properties;
  std::optional<std::string> environment;
  Reader read;                            // empty: the environment of this process
  AcceleratorCounter count_accelerators;  // see ResolverBase
};

// The variable is read afresh by every call; its members are `cluster` (or `sparseCluster`, which
// Kubeflow has written), `task.type`, `task.index`, `rpc_layer`, `session_master` and
// `environment`. If it is not set, the cluster has no jobs and the task is not known. If it is set
// to anything but such an object, every call returns INVALID_ARGUMENT saying what it should be.
//
// master() is `session_master` if there is one, verbatim; "" if the cluster has one task or none;
// else the address of the task given (even if it is the only one), or of this task. A given
// rpc_layer of "" removes the prefix.
//
// With kTensorFlow: `sparseCluster` and `environment` are not read, environment() is None unless
// the options have one, errors are those of Python's json and int(), a job without tasks makes
// master() fail, and num_accelerators() of a known task counts nothing, since the devices of a
// process that has not joined a cluster carry no job. Indices below 0 are refused as everywhere in
// Millrace.
class TfConfigResolver : public ResolverBase {
 public:
  // Returns INVALID_ARGUMENT for a negative task_id (kTensorFlow: takes it). The variable is not
  // read yet.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TfConfigResolver>> Create(
      TfConfigResolverOptions options);

  absl::StatusOr<ClusterSpec> cluster_spec() override;
  absl::StatusOr<std::string> master(std::optional<std::string> task_type = std::nullopt,
                                     std::optional<int> task_id = std::nullopt,
                                     std::optional<std::string> rpc_layer = std::nullopt) override;
  absl::StatusOr<std::optional<std::string>> environment() override;

 protected:
  explicit TfConfigResolver(TfConfigResolverOptions options);

  absl::StatusOr<std::optional<std::string>> SourceTaskType() override;
  absl::StatusOr<std::optional<int>> SourceTaskId() override;
  absl::StatusOr<std::optional<std::string>> SourceRpcLayer() override;

 private:
  // What Create() does with kCorrect.
  static absl::StatusOr<std::unique_ptr<TfConfigResolver>> CreateCorrect(
      TfConfigResolverOptions options);

  const std::optional<std::string> environment_;
  const TfConfigResolverOptions::Reader read_;
};

}  // namespace millrace

#endif  // MILLRACE_TF_CONFIG_RESOLVER_H_
