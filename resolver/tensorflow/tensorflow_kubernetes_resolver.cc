#include "resolver/tensorflow/tensorflow_kubernetes_resolver.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "millrace/kubernetes_client.h"
#include "millrace/status_macros.h"
#include "millrace/tensorflow_error.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"
#include "resolver/tensorflow/tensorflow_base.h"

namespace millrace {
namespace {

// As str(value) of what the Python client gives where the server gave nothing.
std::string OrNone(const std::string& text) { return text.empty() ? "None" : text; }

// An error that Python's client, not TensorFlow, raises: which class is known, the text is ours.
absl::Status ClientError(const absl::Status& status, absl::string_view python_class) {
  return TensorFlowError(status.code(), python_class, status.message());
}

class TensorFlowKubernetesResolver final : public AsTensorFlow<KubernetesResolver> {
 public:
  TensorFlowKubernetesResolver(KubernetesResolverOptions options,
                               std::shared_ptr<KubernetesConfigLoader> loader)
      : AsTensorFlow(options), options_(std::move(options)), loader_(std::move(loader)) {}

  // Pods of all namespaces, by name within a selector, each as often as it is selected, at the
  // addresses of their hosts. One that does not run is an error.
  absl::StatusOr<ClusterSpec> cluster_spec() override {
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<KubernetesClient> client, Client());
    ClusterSpec spec;
    for (const auto& [job, selectors] : options_.job_to_label_mapping) {
      ClusterSpec::TaskList addresses;
      for (const std::string& selector : selectors) {
        MILLRACE_RETURN_IF_ERROR(AppendAddresses(client.get(), selector, &addresses));
      }
      MILLRACE_RETURN_IF_ERROR(spec.AddJob(job, std::move(addresses)));
    }
    return spec;
  }

 private:
  // Always by the kubeconfig: the configuration that the constructor has loaded is forgotten.
  absl::StatusOr<std::shared_ptr<KubernetesClient>> Client() const {
    if (options_.override_client != nullptr) return options_.override_client;
    absl::StatusOr<KubernetesAccess> access = loader_->KubeConfig(options_.context);
    if (!access.ok()) return ClientError(access.status(), "ConfigException");
    return std::shared_ptr<KubernetesClient>(std::move(access->client));
  }

  absl::Status AppendAddresses(KubernetesClient* client, const std::string& selector,
                               ClusterSpec::TaskList* addresses) const {
    absl::StatusOr<PodList> list =
        client->ListPods({.namespace_name = "", .label_selector = selector}, options_.timeout, {});
    if (!list.ok()) return ClientError(list.status(), "ApiException");
    std::stable_sort(list->pods.begin(), list->pods.end(),
                     [](const Pod& a, const Pod& b) { return a.name < b.name; });
    const std::string port =
        options_.tf_server_port_text.value_or(absl::StrCat(options_.tf_server_port));
    for (const Pod& pod : list->pods) {
      if (pod.phase != "Running") {
        return TensorFlowError(absl::StatusCode::kFailedPrecondition, "RuntimeError",
                               absl::StrCat("Pod \"", pod.name, "\" is not running; phase: \"",
                                            OrNone(pod.phase), "\""));
      }
      addresses->push_back(absl::StrCat(OrNone(pod.host_ip), ":", port));
    }
    return absl::OkStatus();
  }

  const KubernetesResolverOptions options_;
  const std::shared_ptr<KubernetesConfigLoader> loader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KubernetesResolver>> MakeTensorFlowKubernetesResolver(
    KubernetesResolverOptions options, std::shared_ptr<KubernetesConfigLoader> loader) {
  if (options.override_client == nullptr) {
    const bool off_cluster = options.executable_location == ExecutableLocation::kOffCluster;
    const absl::Status loaded =
        (off_cluster ? loader->KubeConfig(options.context) : loader->InCluster()).status();
    if (!loaded.ok()) return ClientError(loaded, "ConfigException");
  }
  return std::make_unique<TensorFlowKubernetesResolver>(std::move(options), std::move(loader));
}

}  // namespace millrace
