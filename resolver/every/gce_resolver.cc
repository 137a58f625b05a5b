#include "millrace/gce_resolver.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "resolver/gce/gce_group_resolver.h"
#include "resolver/tensorflow/tensorflow_cloud_resolvers.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<GceResolver>> GceResolver::Create(GceResolverOptions options) {
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowGceResolver(std::move(options));
  }
  return MakeGceGroupResolver(std::move(options));
}

}  // namespace millrace
