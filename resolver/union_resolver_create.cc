#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "millrace/union_resolver.h"
#include "resolver/tensorflow/tensorflow_union_resolver.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<UnionResolver>> UnionResolver::Create(UnionResolverOptions options) {
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowUnionResolver(std::move(options));
  }
  return CreateCorrect(std::move(options));
}

}  // namespace millrace
