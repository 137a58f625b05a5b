// File: millrace/sagemaker_resolver.h
//
// The hosts of an Amazon SageMaker training job as a ClusterResolver; TensorFlow's
// SageMakerClusterResolver.
//
// Defines: SageMakerResolverOptions, SageMakerResolver.
//
//   SM_HOSTS='["algo-1", "algo-2"]' SM_CURRENT_HOST=algo-2
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<SageMakerResolver> resolver,
//                             SageMakerResolver::Create({}));
//   resolver->cluster_spec();   // {"worker": ["algo-1:2223", "algo-2:2223"]}
//   resolver->task_id();        // this process: 1

#ifndef MILLRACE_SAGEMAKER_RESOLVER_H_
#define MILLRACE_SAGEMAKER_RESOLVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/resolver_base.h"

namespace millrace {

struct SageMakerResolverOptions {
  // The value of a variable, nullopt if it is not set.
  using Reader = std::function<std::optional<std::string>(const std::string& name)>;

  ResolverBehavior behavior = ResolverBehavior::kCorrect;
  int port = 2223;  // of every host
  // With kTensorFlow in place of `port`: it takes any text.
  std::optional<std::string> port_text;
  TaskProperties properties;
  std::optional<std::string> environment;
  Reader read;                            // empty: the environment of this process
  AcceleratorCounter count_accelerators;  // see ResolverBase
};

// Every host of SM_HOSTS is a worker, in the order of their names (algo-2 before algo-10), and
// SM_CURRENT_HOST is this one. The variables are read afresh by every call; they cannot change, so
// a watch tells one spec.
//
// master() is "" if there is one host and no task is given; else the address of the task given, or
// of this one, with the rpc_layer that was set in front.
//
// With kTensorFlow: hosts are in the order of texts (algo-10 before algo-2), a current host that is
// not among them gives an empty cluster, environment() is None unless the options have one, errors
// are those of Python, and num_accelerators() of a known task counts nothing.
class SageMakerResolver : public ResolverBase {
 public:
  // Returns INVALID_ARGUMENT for a port out of 1..65535 or a negative task_id (kTensorFlow: takes
  // them). The variables are not read yet.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SageMakerResolver>> Create(
      SageMakerResolverOptions options);

  // FAILED_PRECONDITION if a variable is not set (not inside a training job), INVALID_ARGUMENT if
  // SM_HOSTS is no list of different names or SM_CURRENT_HOST is not one of them.
  absl::StatusOr<ClusterSpec> cluster_spec() override;
  absl::StatusOr<std::string> master(std::optional<std::string> task_type = std::nullopt,
                                     std::optional<int> task_id = std::nullopt,
                                     std::optional<std::string> rpc_layer = std::nullopt) override;
  absl::StatusOr<std::optional<std::string>> environment() override;
  absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(MembershipCallback callback,
                                                         const WatchOptions& options) override;
  using ClusterResolver::Watch;

 protected:
  explicit SageMakerResolver(SageMakerResolverOptions options);

  absl::StatusOr<std::optional<std::string>> SourceTaskType() override;
  absl::StatusOr<std::optional<int>> SourceTaskId() override;

 private:
  // What Create() does with kCorrect.
  static absl::StatusOr<std::unique_ptr<SageMakerResolver>> CreateCorrect(
      SageMakerResolverOptions options);

  const int port_;
  const std::optional<std::string> environment_;
  const SageMakerResolverOptions::Reader read_;
};

}  // namespace millrace

#endif  // MILLRACE_SAGEMAKER_RESOLVER_H_
