// File: resolver/tensorflow/tensorflow_union_resolver.h
//
// TensorFlow's UnionResolver, bug for bug: what UnionResolver::Create() makes with
// ResolverBehavior::kTensorFlow.
//
// Defines: MakeTensorFlowUnionResolver().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_UNION_RESOLVER_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_UNION_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "millrace/union_resolver.h"

namespace millrace {

// Returns its ValueError without a resolver, its TypeError if one is null.
[[nodiscard]] absl::StatusOr<std::unique_ptr<UnionResolver>> MakeTensorFlowUnionResolver(
    UnionResolverOptions options);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_UNION_RESOLVER_H_
