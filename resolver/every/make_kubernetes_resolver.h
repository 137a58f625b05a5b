// File: resolver/every/make_kubernetes_resolver.h
//
// KubernetesResolver::Create() for tests: what is set of the hooks stands in place of the real
// loader of configurations and the real clock.
//
// Defines: internal::MakeKubernetesResolver().

#ifndef RESOLVER_EVERY_MAKE_KUBERNETES_RESOLVER_H_
#define RESOLVER_EVERY_MAKE_KUBERNETES_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "millrace/kubernetes_resolver.h"
#include "resolver/kubernetes/pod_resolver.h"

namespace millrace::internal {

[[nodiscard]] absl::StatusOr<std::unique_ptr<KubernetesResolver>> MakeKubernetesResolver(
    KubernetesResolverOptions options, KubernetesHooks hooks);

}  // namespace millrace::internal

#endif  // RESOLVER_EVERY_MAKE_KUBERNETES_RESOLVER_H_
