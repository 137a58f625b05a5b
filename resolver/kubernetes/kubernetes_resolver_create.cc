#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "millrace/kubernetes_resolver.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"
#include "resolver/tensorflow/tensorflow_kubernetes_resolver.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<KubernetesResolver>> KubernetesResolver::Create(
    KubernetesResolverOptions options) {
  if (options.job_to_label_mapping.empty()) {
    options.job_to_label_mapping = {{"worker", {"job-name=tensorflow"}}};
  }
  if (options.config_loader == nullptr) {
    options.config_loader = std::make_shared<RealKubernetesConfigLoader>(
        RealKubernetesConfigLoader::Options{.kubeconfig = options.kubeconfig});
  }
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowKubernetesResolver(std::move(options));
  }
  return CreateCorrect(std::move(options));
}

}  // namespace millrace
