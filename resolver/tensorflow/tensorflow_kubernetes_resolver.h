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
#include "resolver/kubernetes/client/kubernetes_config_loader.h"

namespace millrace {

// `loader` and `options.job_to_label_mapping` are set. Returns its ConfigException where the
// configuration cannot be read.
[[nodiscard]] absl::StatusOr<std::unique_ptr<KubernetesResolver>> MakeTensorFlowKubernetesResolver(
    KubernetesResolverOptions options, std::shared_ptr<KubernetesConfigLoader> loader);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_KUBERNETES_RESOLVER_H_
