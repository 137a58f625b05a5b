// File: resolver/kubernetes/client/kube_config.h
//
// kubectl's configuration: which API server, whom to believe, as whom to speak.
//
// Defines: KubeConfig, KubeConfigOptions, LoadKubeConfig().
//
//   MILLRACE_ASSIGN_OR_RETURN(KubeConfig config, LoadKubeConfig({.context = "prod"}));
//   // config.server == "https://10.0.0.1:6443"

#ifndef RESOLVER_KUBERNETES_CLIENT_KUBE_CONFIG_H_
#define RESOLVER_KUBERNETES_CLIENT_KUBE_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "resolver/http/http_client.h"
#include "resolver/kubernetes/client/credentials.h"

namespace millrace {

struct KubeConfigOptions {
  // One file, which must exist. Empty: the files of $KUBECONFIG (separated by ":", merged, those
  // that do not exist left out), or ~/.kube/config if that is unset.
  std::string path;
  // Empty: the current-context of the file.
  std::string context;
};

// One context, with everything that it refers to.
struct KubeConfig {
  std::string context;
  std::string server;          // "https://10.0.0.1:6443", perhaps with a path
  std::string namespace_name;  // "default" if the context names none
  TlsOptions tls;
  std::string proxy_url;  // empty: as the environment says
  CredentialOptions credentials;
};

// Files are merged as kubectl does: of contexts, clusters and users with the same name the first
// counts, and so does the first current-context. Relative paths are relative to the file that they
// stand in.
//
// What a plugin is told of its cluster (provideClusterInfo) is without the cluster's extensions.
//
// Returns NOT_FOUND if there is no file or no such context, cluster or user (names those there
// are); INVALID_ARGUMENT, naming the file and the line or the field, for what is no YAML or makes
// no sense; FAILED_PRECONDITION if no context is chosen, or if the user has a form of credentials
// that Kubernetes itself has removed (basic auth, auth-provider), saying what to use. Thread
// safety: thread-safe. Blocking: disk I/O.
[[nodiscard]] absl::StatusOr<KubeConfig> LoadKubeConfig(const KubeConfigOptions& options);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_KUBE_CONFIG_H_
