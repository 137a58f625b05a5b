// File: resolver/kubernetes/pod_resolver.h
//
// The KubernetesResolver (millrace/kubernetes_resolver.h) that tells which pod is which task, and
// what it stands on besides its options, so that a test can put its own in place.
//
// Defines: internal::KubernetesHooks, internal::MakePodResolver().

#ifndef RESOLVER_KUBERNETES_POD_RESOLVER_H_
#define RESOLVER_KUBERNETES_POD_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "millrace/kubernetes_resolver.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"

namespace millrace::internal {

struct KubernetesHooks {
  std::shared_ptr<KubernetesConfigLoader> config_loader;
  Clock* clock = nullptr;  // not owned
};

// What KubernetesResolver::Create() makes with kCorrect. `job_to_label_mapping` and the hooks are
// set.
[[nodiscard]] absl::StatusOr<std::unique_ptr<KubernetesResolver>> MakePodResolver(
    KubernetesResolverOptions options, const KubernetesHooks& hooks);

}  // namespace millrace::internal

#endif  // RESOLVER_KUBERNETES_POD_RESOLVER_H_
