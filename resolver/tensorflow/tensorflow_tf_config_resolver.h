// File: resolver/tensorflow/tensorflow_tf_config_resolver.h
//
// TensorFlow's TFConfigClusterResolver, bug for bug: what TfConfigResolver::Create() makes with
// ResolverBehavior::kTensorFlow.
//
// Defines: MakeTensorFlowTfConfigResolver().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_TF_CONFIG_RESOLVER_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_TF_CONFIG_RESOLVER_H_

#include <memory>

#include "millrace/tf_config_resolver.h"

namespace millrace {

// `options.read` is set.
[[nodiscard]] std::unique_ptr<TfConfigResolver> MakeTensorFlowTfConfigResolver(
    TfConfigResolverOptions options);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_TF_CONFIG_RESOLVER_H_
