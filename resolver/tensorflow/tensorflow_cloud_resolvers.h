// File: resolver/tensorflow/tensorflow_cloud_resolvers.h
//
// TensorFlow's resolvers for clouds, bug for bug: what Create() makes with
// ResolverBehavior::kTensorFlow.
//
// Defines: MakeTensorFlowSageMakerResolver().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_CLOUD_RESOLVERS_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_CLOUD_RESOLVERS_H_

#include <memory>

#include "millrace/sagemaker_resolver.h"

namespace millrace {

// SageMakerClusterResolver. `options.read` is set.
[[nodiscard]] std::unique_ptr<SageMakerResolver> MakeTensorFlowSageMakerResolver(
    const SageMakerResolverOptions& options);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_CLOUD_RESOLVERS_H_
