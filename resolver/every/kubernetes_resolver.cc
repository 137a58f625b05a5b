#include "millrace/kubernetes_resolver.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "resolver/every/make_kubernetes_resolver.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"
#include "resolver/kubernetes/pod_resolver.h"
#include "resolver/tensorflow/tensorflow_kubernetes_resolver.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<KubernetesResolver>> internal::MakeKubernetesResolver(
    KubernetesResolverOptions options, KubernetesHooks hooks) {
  if (options.job_to_label_mapping.empty()) {
    options.job_to_label_mapping = {{"worker", {"job-name=tensorflow"}}};
  }
  if (hooks.config_loader == nullptr) {
    hooks.config_loader = std::make_shared<RealKubernetesConfigLoader>(
        RealKubernetesConfigLoader::Options{.kubeconfig = options.kubeconfig});
  }
  if (hooks.clock == nullptr) hooks.clock = RealClock();
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowKubernetesResolver(std::move(options), std::move(hooks.config_loader));
  }
  return MakePodResolver(std::move(options), hooks);
}

absl::StatusOr<std::unique_ptr<KubernetesResolver>> KubernetesResolver::Create(
    KubernetesResolverOptions options) {
  return internal::MakeKubernetesResolver(std::move(options), {});
}

}  // namespace millrace
