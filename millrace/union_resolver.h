// File: millrace/union_resolver.h
//
// The members of several resolvers as one cluster; TensorFlow's UnionResolver.
//
// Defines: UnionResolverOptions, UnionResolver, MergeClusterSpecs().
//
//   UnionResolverOptions options;
//   options.resolvers.push_back(std::move(static_ps));
//   options.resolvers.push_back(std::move(kubernetes_workers));
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UnionResolver> resolver,
//                             UnionResolver::Create(std::move(options)));

#ifndef MILLRACE_UNION_RESOLVER_H_
#define MILLRACE_UNION_RESOLVER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/resolver_base.h"

namespace millrace {

// Merges two or more specs by TensorFlow's rules: a job that is dense wherever it has tasks is the
// concatenation of its lists in the order of the specs (equal addresses stay); if it is sparse
// somewhere, every spec's indices are kept. A job without tasks stays and decides nothing
// (kTensorFlow: makes the job sparse).
// Returns ALREADY_EXISTS, naming job and indices, if a sparse job has an index twice (kTensorFlow:
// its KeyError).
[[nodiscard]] absl::StatusOr<ClusterSpec> MergeClusterSpecs(const std::vector<ClusterSpec>& specs,
                                                            ResolverBehavior behavior);

struct UnionResolverOptions {
  ResolverBehavior behavior = ResolverBehavior::kCorrect;
  std::vector<std::unique_ptr<ClusterResolver>> resolvers;
  TaskProperties properties;
};

// cluster_spec() asks each resolver once, in order; the first error is returned, with the number of
// the resolver ("resolver 2 of 3: ..."). Task, rpc layer, environment and accelerators are the
// first resolver's where nothing is set here; the accelerators of another task are what the
// resolver says that it comes from.
//
// Watch() watches every resolver in its own way. The first update comes when each of them has
// answered; a resolver that cannot be heard makes the status of the whole, whose spec is as old as
// its oldest part.
//
// With kTensorFlow: each resolver is asked twice, a task_id or rpc_layer of 0 or "" set here is
// lost, master() does not know the first resolver's rpc layer, nor the task set here.
class UnionResolver : public ResolverBase {
 public:
  // Returns INVALID_ARGUMENT if there is no resolver or one of them is null.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<UnionResolver>> Create(
      UnionResolverOptions options);

  ~UnionResolver() override;

 protected:
  explicit UnionResolver(TaskProperties properties);
};

}  // namespace millrace

#endif  // MILLRACE_UNION_RESOLVER_H_
