#include "millrace/static_resolver.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "resolver/tensorflow/tensorflow_static_resolver.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<StaticResolver>> StaticResolver::Create(
    StaticResolverOptions options) {
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowStaticResolver(std::move(options));
  }
  return CreateCorrect(std::move(options));
}

}  // namespace millrace
