#include "resolver/kubernetes/client/kubernetes_config_loader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "millrace/status_macros.h"
#include "resolver/kubernetes/client/http_kubernetes_client.h"

namespace millrace {

RealKubernetesConfigLoader::RealKubernetesConfigLoader(Options options)
    : options_(std::move(options)) {}
RealKubernetesConfigLoader::RealKubernetesConfigLoader() : RealKubernetesConfigLoader(Options()) {}

absl::StatusOr<KubernetesAccess> RealKubernetesConfigLoader::InCluster() {
  MILLRACE_ASSIGN_OR_RETURN(ServiceAccount account, LoadServiceAccount(options_.service_account));
  HttpKubernetesClient::Options options;
  options.server = account.server;
  options.description = "as the service account of this pod";
  options.tls = std::move(account.tls);
  options.credentials = std::move(account.credentials);
  KubernetesAccess access;
  MILLRACE_ASSIGN_OR_RETURN(access.client, HttpKubernetesClient::Create(std::move(options)));
  access.namespace_name = std::move(account.namespace_name);
  return access;
}

absl::StatusOr<KubernetesAccess> RealKubernetesConfigLoader::KubeConfig(
    const std::string& context) {
  MILLRACE_ASSIGN_OR_RETURN(millrace::KubeConfig config,
                            LoadKubeConfig({.path = options_.kubeconfig, .context = context}));
  if (config.tls.insecure_skip_verify) {
    MILLRACE_LOG(WARNING) << "context " << config.context << ": whoever answers at "
                          << config.server
                          << " is believed to be the API server (insecure-skip-tls-verify)";
  }
  HttpKubernetesClient::Options options;
  options.server = config.server;
  options.description = absl::StrCat("context ", config.context);
  options.tls = std::move(config.tls);
  options.proxy = HttpClient::Proxy::kEnvironment;
  options.proxy_url = std::move(config.proxy_url);
  options.credentials = std::move(config.credentials);
  KubernetesAccess access;
  MILLRACE_ASSIGN_OR_RETURN(access.client, HttpKubernetesClient::Create(std::move(options)));
  access.namespace_name = std::move(config.namespace_name);
  return access;
}

bool RealKubernetesConfigLoader::RunsInCluster() {
  return HasServiceAccount(options_.service_account);
}

}  // namespace millrace
