// File: millrace/static_resolver.h
//
// A ClusterSpec that is already in hand, as a ClusterResolver; TensorFlow's SimpleClusterResolver.
//
// Defines: StaticResolverOptions, StaticResolver.
//
//   MILLRACE_ASSIGN_OR_RETURN(
//       std::unique_ptr<StaticResolver> resolver,
//       StaticResolver::Create({.cluster_spec = spec, .properties = {.task_type = "worker"}}));

#ifndef MILLRACE_STATIC_RESOLVER_H_
#define MILLRACE_STATIC_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/resolver_base.h"

namespace millrace {

struct StaticResolverOptions {
  ResolverBehavior behavior = ResolverBehavior::kCorrect;
  ClusterSpec cluster_spec;
  std::string master;  // where no task is known
  TaskProperties properties;
  std::string environment;
  // Of every task; nullopt: those of this host for this task (kTensorFlow: none).
  std::optional<std::map<std::string, int>> num_accelerators;
  AcceleratorCounter count_accelerators;  // see ResolverBase
};

// master() of a given or own task is its address; where the task is not known,
// `StaticResolverOptions::master`.
//
// With kTensorFlow: the resolver's own task is not used (only arguments are), an empty rpc_layer
// argument does not remove the prefix, and there is a prefix even before an empty master.
class StaticResolver : public ResolverBase {
 public:
  // Returns INVALID_ARGUMENT for a negative task_id.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StaticResolver>> Create(
      StaticResolverOptions options);

  absl::StatusOr<ClusterSpec> cluster_spec() override;
  absl::StatusOr<std::string> master(std::optional<std::string> task_type = std::nullopt,
                                     std::optional<int> task_id = std::nullopt,
                                     std::optional<std::string> rpc_layer = std::nullopt) override;
  absl::StatusOr<std::map<std::string, int>> num_accelerators(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt) override;
  absl::StatusOr<std::optional<std::string>> environment() override;

  // Tells the spec once; nothing runs afterwards.
  absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(MembershipCallback callback,
                                                         const WatchOptions& options) override;
  using ClusterResolver::Watch;

 protected:
  explicit StaticResolver(StaticResolverOptions options);

 private:
  // What Create() does with kCorrect.
  static absl::StatusOr<std::unique_ptr<StaticResolver>> CreateCorrect(
      StaticResolverOptions options);

  const ClusterSpec cluster_spec_;
  const std::string master_;
  const std::string environment_;
  const std::optional<std::map<std::string, int>> num_accelerators_;
};

}  // namespace millrace

#endif  // MILLRACE_STATIC_RESOLVER_H_
