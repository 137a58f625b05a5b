// File: resolver/tensorflow/tensorflow_kubernetes_resolver.h
//
// TensorFlow's KubernetesClusterResolver, bug for bug: what KubernetesResolver::Create() makes with
// ResolverBehavior::kTensorFlow. docs/kubernetes.md has a table of what differs from ours.
//
// Defines: MakeTensorFlowKubernetesResolver().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_KUBERNETES_RESOLVER_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_KUBERNETES_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "millrace/kubernetes_resolver.h"

namespace millrace {

// `options.config_loader` and `job_to_label_mapping` are set. Returns its ConfigException where the
// configuration cannot be read.
[[nodiscard]] absl::StatusOr<std::unique_ptr<KubernetesResolver>> MakeTensorFlowKubernetesResolver(
    KubernetesResolverOptions options);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_KUBERNETES_RESOLVER_H_
