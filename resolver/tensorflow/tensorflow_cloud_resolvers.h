// File: resolver/tensorflow/tensorflow_cloud_resolvers.h
//
// TensorFlow's resolvers for clouds, bug for bug: what Create() makes with
// ResolverBehavior::kTensorFlow.
//
// Defines: MakeTensorFlowSageMakerResolver(), MakeTensorFlowGceResolver().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_CLOUD_RESOLVERS_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_CLOUD_RESOLVERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "millrace/gce_resolver.h"
#include "millrace/sagemaker_resolver.h"

namespace millrace {

// SageMakerClusterResolver. `options.read` is set.
[[nodiscard]] std::unique_ptr<SageMakerResolver> MakeTensorFlowSageMakerResolver(
    const SageMakerResolverOptions& options);

// GCEClusterResolver, over the API itself: what the API refuses is an HttpError. Returns the errors
// of GceClient::Create().
[[nodiscard]] absl::StatusOr<std::unique_ptr<GceResolver>> MakeTensorFlowGceResolver(
    GceResolverOptions options);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_CLOUD_RESOLVERS_H_
