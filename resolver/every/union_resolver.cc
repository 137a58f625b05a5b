#include "millrace/union_resolver.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "resolver/merging_resolver.h"
#include "resolver/tensorflow/tensorflow_merge.h"
#include "resolver/tensorflow/tensorflow_union_resolver.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<UnionResolver>> UnionResolver::Create(UnionResolverOptions options) {
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowUnionResolver(std::move(options));
  }
  return MakeMergingResolver(std::move(options));
}

absl::StatusOr<ClusterSpec> MergeClusterSpecs(const std::vector<ClusterSpec>& specs,
                                              ResolverBehavior behavior) {
  return Merge(
      specs, behavior == ResolverBehavior::kTensorFlow ? TensorFlowMergeRules() : OurMergeRules());
}

}  // namespace millrace
