// File: resolver/tensorflow/tensorflow_static_resolver.h
//
// TensorFlow's SimpleClusterResolver, bug for bug: what StaticResolver::Create() makes with
// ResolverBehavior::kTensorFlow.
//
// Defines: MakeTensorFlowStaticResolver().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_STATIC_RESOLVER_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_STATIC_RESOLVER_H_

#include <memory>

#include "millrace/static_resolver.h"

namespace millrace {

[[nodiscard]] std::unique_ptr<StaticResolver> MakeTensorFlowStaticResolver(
    StaticResolverOptions options);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_STATIC_RESOLVER_H_
