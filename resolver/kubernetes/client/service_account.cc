#include "resolver/kubernetes/client/service_account.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "core/process/process.h"

namespace millrace {
namespace {

constexpr char kHostVariable[] = "KUBERNETES_SERVICE_HOST";
constexpr char kPortVariable[] = "KUBERNETES_SERVICE_PORT";

}  // namespace

absl::StatusOr<ServiceAccount> LoadServiceAccount(const ServiceAccountOptions& options) {
  const std::string host = EnvOr(kHostVariable, "");
  const std::string port_text = EnvOr(kPortVariable, "");
  if (host.empty() || port_text.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this process does not run in a Kubernetes pod: ",
                     host.empty() ? kHostVariable : kPortVariable,
                     " is not set; outside a cluster use a kubeconfig"));
  }
  uint32_t port = 0;
  if (!absl::SimpleAtoi(port_text, &port) || port < 1 || port > 65535) {
    return absl::FailedPreconditionError(absl::StrCat(kPortVariable, " must be a port, found \"",
                                                      EscapeControls(Ellipsize(port_text, 40)),
                                                      "\""));
  }
  ServiceAccount account;
  account.server = absl::StrCat("https://", FormatHostPort(host, static_cast<int>(port)));
  account.tls.ca_file = JoinPath(options.folder, "ca.crt");
  account.credentials.token_file = JoinPath(options.folder, "token");
  for (const std::string& path : {account.tls.ca_file, account.credentials.token_file}) {
    if (access(path.c_str(), R_OK) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("this pod has no service account to speak as: ", path,
                       " cannot be read; give it one (serviceAccountName) and do not set "
                       "automountServiceAccountToken: false"));
    }
  }
  constexpr size_t kMaxNamespaceBytes = 4096;
  const absl::StatusOr<std::string> name =
      ReadFile(JoinPath(options.folder, "namespace"), kMaxNamespaceBytes);
  if (name.ok()) account.namespace_name = std::string(absl::StripAsciiWhitespace(*name));
  if (account.namespace_name.empty()) account.namespace_name = "default";
  return account;
}

bool HasServiceAccount(const ServiceAccountOptions& options) {
  return !EnvOr(kHostVariable, "").empty() && !EnvOr(kPortVariable, "").empty() &&
         access(JoinPath(options.folder, "token").c_str(), R_OK) == 0;
}

}  // namespace millrace
