// File: resolver/kubernetes/client/exec_credential.h
//
// Credential plugins of kubectl: a program that prints an ExecCredential (API group
// client.authentication.k8s.io, v1 and v1beta1).
//
// Defines: ExecPlugin, ExecCredential, RunExecPlugin().

#ifndef RESOLVER_KUBERNETES_CLIENT_EXEC_CREDENTIAL_H_
#define RESOLVER_KUBERNETES_CLIENT_EXEC_CREDENTIAL_H_

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace millrace {

struct ExecPlugin {
  std::string api_version;  // "client.authentication.k8s.io/v1" or ".../v1beta1"
  std::string command;      // a path with a slash, or a name that PATH finds
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // added to this process's
  std::string install_hint;                              // said if the command does not exist
  std::string cluster_info;  // JSON of spec.cluster, if the plugin wants it (provideClusterInfo)
};

// A secret.
struct ExecCredential {
  std::string token;
  std::string client_certificate_pem;
  std::string client_key_pem;
  absl::Time expires = absl::InfiniteFuture();
};

// Runs the plugin with stdin closed (never interactive), KUBERNETES_EXEC_INFO set, and reads what
// it prints. It has its own process group, which is killed when the time is over.
//
// Returns UNAUTHENTICATED if it does not exist (with the install hint), fails (with its exit code
// and the end of its stderr) or prints something else; DEADLINE_EXCEEDED after `timeout`,
// CANCELLED. Thread safety: thread-safe. Blocking: until the plugin ends.
[[nodiscard]] absl::StatusOr<ExecCredential> RunExecPlugin(const ExecPlugin& plugin,
                                                           absl::Duration timeout,
                                                           std::stop_token stop);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_EXEC_CREDENTIAL_H_
