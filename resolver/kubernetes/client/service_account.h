// File: resolver/kubernetes/client/service_account.h
//
// The API server as a pod sees it: the address in its environment, and the files that the kubelet
// mounts and rotates.
//
// Defines: ServiceAccount, ServiceAccountOptions, LoadServiceAccount(), HasServiceAccount().

#ifndef RESOLVER_KUBERNETES_CLIENT_SERVICE_ACCOUNT_H_
#define RESOLVER_KUBERNETES_CLIENT_SERVICE_ACCOUNT_H_

#include <string>

#include "absl/status/statusor.h"
#include "resolver/http/http_client.h"
#include "resolver/kubernetes/client/credentials.h"

namespace millrace {

struct ServiceAccountOptions {
  // Holds token, ca.crt and namespace.
  std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount";
};

struct ServiceAccount {
  std::string server;          // "https://10.96.0.1:443"; IPv6 in brackets
  std::string namespace_name;  // of this pod
  TlsOptions tls;
  CredentialOptions credentials;
};

// Returns FAILED_PRECONDITION, saying what is missing, outside a pod: KUBERNETES_SERVICE_HOST and
// KUBERNETES_SERVICE_PORT unset, or no token or CA mounted (automountServiceAccountToken: false).
// Thread safety: thread-safe. Blocking: disk I/O.
[[nodiscard]] absl::StatusOr<ServiceAccount> LoadServiceAccount(
    const ServiceAccountOptions& options = {});

// Whether this process seems to run in a pod that may ask the API server.
[[nodiscard]] bool HasServiceAccount(const ServiceAccountOptions& options = {});

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_SERVICE_ACCOUNT_H_
