// File: millrace/cluster_resolver.h
//
// Where the members of a cluster are: the interface of every membership source (a static list,
// TF_CONFIG, Kubernetes, Slurm, Spark, the union of several), after tf.distribute's
// ClusterResolver.
//
// Defines: ClusterResolver, ResolverBehavior, FormatMasterUrl().
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ClusterResolver> resolver,
//                             KubernetesResolver::Create(options));
//   MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, resolver->cluster_spec());
//   MILLRACE_ASSIGN_OR_RETURN(
//       const std::unique_ptr<MembershipWatch> watch,
//       resolver->Watch([](const MembershipUpdate& update) { ... }));

#ifndef MILLRACE_CLUSTER_RESOLVER_H_
#define MILLRACE_CLUSTER_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/cluster_spec.h"
#include "millrace/membership.h"

namespace millrace {

// How a resolver answers where TensorFlow's does something that its users suffer from.
enum class ResolverBehavior {
  kCorrect,     // what a user expects; the differences stand in each resolver's header
  kTensorFlow,  // bug for bug as TensorFlow 2.21; errors carry a Python class (tensorflow_error.h)
};

// The methods have the names of TensorFlow's, in lower case as there, for those who know them; they
// are no accessors: most of them ask the source, over the network or in files.
//
// Thread safety: all methods may be called from several threads at once. None of them waits without
// a limit: each source has its own timeout, and passing it is DEADLINE_EXCEEDED.
class ClusterResolver {
 public:
  virtual ~ClusterResolver() = default;
  ClusterResolver(const ClusterResolver&) = delete;
  ClusterResolver& operator=(const ClusterResolver&) = delete;

  // The members at the time of the call. Every call asks the source; answers are never kept, and a
  // source that cannot be asked is an error rather than an old answer.
  [[nodiscard]] virtual absl::StatusOr<ClusterSpec> cluster_spec() = 0;

  // "rpc_layer://address" of one task, or the address alone when the layer is empty. What is not
  // given is taken from the properties below; "" if the task is still not known.
  // Returns NOT_FOUND if the spec has no such task, else the errors of cluster_spec().
  [[nodiscard]] virtual absl::StatusOr<std::string> master(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt,
      std::optional<std::string> rpc_layer = std::nullopt) = 0;

  // Device type ("GPU") to how many the task may use. Without arguments, or with those of this
  // task: the devices of this process's host as `millrace-gpu` sees them. Sources that know what
  // other tasks were given answer for them too; the others return UNIMPLEMENTED, naming the task.
  [[nodiscard]] virtual absl::StatusOr<std::map<std::string, int>> num_accelerators(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt) = 0;

  // Where the cluster runs, for programs that ask: "" unless the source says otherwise. Nullopt
  // only with kTensorFlow, where some resolvers answer None.
  [[nodiscard]] virtual absl::StatusOr<std::optional<std::string>> environment() = 0;

  // Which task this process is, if that is known, and the prefix of master(). Setting one replaces
  // what the source says; set before other threads call.
  [[nodiscard]] virtual absl::StatusOr<std::optional<std::string>> task_type() = 0;
  [[nodiscard]] virtual absl::StatusOr<std::optional<int>> task_id() = 0;
  [[nodiscard]] virtual absl::StatusOr<std::optional<std::string>> rpc_layer() = 0;
  virtual absl::Status set_task_type(std::optional<std::string> task_type) = 0;
  virtual absl::Status set_task_id(std::optional<int> task_id) = 0;
  virtual absl::Status set_rpc_layer(std::optional<std::string> rpc_layer) = 0;

  // Calls `callback` with the members and then with every change of them, until the returned object
  // is destroyed; see MembershipUpdate. Sources that push are listened to, the others are asked
  // every `options.poll_interval`. The resolver must outlive the watch. Errors of the source are
  // passed to the callback, and the watch goes on. An error is returned only if there can be no
  // watch at all (wrong options).
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(
      MembershipCallback callback, const WatchOptions& options);
  [[nodiscard]] absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(
      MembershipCallback callback) {
    return Watch(std::move(callback), WatchOptions());
  }

 protected:
  ClusterResolver() = default;
};

// "grpc://host:1", or `address` alone if `rpc_layer` is empty.
[[nodiscard]] std::string FormatMasterUrl(absl::string_view address, absl::string_view rpc_layer);

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_RESOLVER_H_
