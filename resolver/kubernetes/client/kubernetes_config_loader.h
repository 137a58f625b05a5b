// File: resolver/kubernetes/client/kubernetes_config_loader.h
//
// Where a client for the API server comes from when the program does not bring one, as an
// interface, so that a test can see which way was taken.
//
// Defines: KubernetesAccess, KubernetesConfigLoader, RealKubernetesConfigLoader.

#ifndef RESOLVER_KUBERNETES_CLIENT_KUBERNETES_CONFIG_LOADER_H_
#define RESOLVER_KUBERNETES_CLIENT_KUBERNETES_CONFIG_LOADER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/kubernetes_client.h"
#include "resolver/kubernetes/client/kube_config.h"
#include "resolver/kubernetes/client/service_account.h"

namespace millrace {

struct KubernetesAccess {
  std::unique_ptr<KubernetesClient> client;
  std::string
      namespace_name;  // of this pod or of the context; where to look if nothing else is said
};

// Thread safety: thread-safe. Blocking: disk I/O.
class KubernetesConfigLoader {
 public:
  virtual ~KubernetesConfigLoader() = default;

  // Errors of LoadServiceAccount().
  [[nodiscard]] virtual absl::StatusOr<KubernetesAccess> InCluster() = 0;
  // Errors of LoadKubeConfig(). `context`: "" for the current one.
  [[nodiscard]] virtual absl::StatusOr<KubernetesAccess> KubeConfig(const std::string& context) = 0;
  // Whether this process seems to run in a pod, so that InCluster() is the way.
  [[nodiscard]] virtual bool RunsInCluster() = 0;
};

// Makes an HttpKubernetesClient. A kubeconfig's proxy-url or the environment's proxies are used
// outside a cluster; inside, never.
class RealKubernetesConfigLoader : public KubernetesConfigLoader {
 public:
  struct Options {
    std::string kubeconfig;  // see KubeConfigOptions::path
    ServiceAccountOptions service_account;
  };

  explicit RealKubernetesConfigLoader(Options options);
  RealKubernetesConfigLoader();

  [[nodiscard]] absl::StatusOr<KubernetesAccess> InCluster() override;
  [[nodiscard]] absl::StatusOr<KubernetesAccess> KubeConfig(const std::string& context) override;
  [[nodiscard]] bool RunsInCluster() override;

 private:
  const Options options_;
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_KUBERNETES_CONFIG_LOADER_H_
