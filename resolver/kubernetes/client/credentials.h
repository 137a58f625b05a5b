// File: resolver/kubernetes/client/credentials.h
//
// As whom a Kubernetes API server is asked: a token, a token file, a client certificate, or what an
// exec plugin answers.
//
// Defines: CredentialOptions, ExecPlugin, Credentials, CredentialSource.
//
//   auto source = CredentialSource::Create({.token_file = path});
//   MILLRACE_ASSIGN_OR_RETURN(Credentials credentials, (*source)->Get(timeout, stop));
//   ... 401 ...
//   (*source)->Refuse(credentials);   // the next Get() asks the plugin again

#ifndef RESOLVER_KUBERNETES_CLIENT_CREDENTIALS_H_
#define RESOLVER_KUBERNETES_CLIENT_CREDENTIALS_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "resolver/kubernetes/client/exec_credential.h"

namespace millrace {

// Of a pair (file, text) at most one is set; what a plugin answers counts where neither is. All
// unset: anonymous.
struct CredentialOptions {
  std::string token;
  std::string token_file;
  std::string client_certificate_file;
  std::string client_certificate_pem;
  std::string client_key_file;
  std::string client_key_pem;
  std::optional<ExecPlugin> exec;
  // "Impersonate-User" and its like.
  std::vector<std::pair<std::string, std::string>> headers;
  Clock* clock = RealClock();  // not owned
};

// What one request carries. A secret: never part of a text.
struct Credentials {
  std::string token;
  std::string client_certificate_pem;
  std::string client_key_pem;
  std::vector<std::pair<std::string, std::string>> headers;

  [[nodiscard]] bool empty() const { return token.empty() && client_certificate_pem.empty(); }
  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// Files are read at every Get(), so that what the kubelet rotates is followed at once. What a
// plugin answered is kept until shortly before its expirationTimestamp, or until it is refused.
// Thread safety: thread-safe; a plugin runs once for all who wait for it. Blocking: disk I/O, and
// the plugin.
class CredentialSource {
 public:
  // Returns INVALID_ARGUMENT for options that contradict each other.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CredentialSource>> Create(
      CredentialOptions options);
  CredentialSource(const CredentialSource&) = delete;
  CredentialSource& operator=(const CredentialSource&) = delete;

  // Returns UNAUTHENTICATED, naming the file or the plugin, if it has none to give: missing or
  // empty file, plugin that fails (with its stderr); DEADLINE_EXCEEDED, CANCELLED.
  [[nodiscard]] absl::StatusOr<Credentials> Get(absl::Duration timeout, std::stop_token stop);

  // The server answered 401 to `refused`.
  void Refuse(const Credentials& refused);

  // For error texts, without secrets: "token file /var/run/...", "exec plugin aws", "anonymous".
  [[nodiscard]] std::string Describe() const;

 private:
  explicit CredentialSource(CredentialOptions options);

  absl::StatusOr<Credentials> FromPlugin(absl::Duration timeout, std::stop_token stop);

  const CredentialOptions options_;
  Mutex mu_;
  CondVar plugin_done_;
  bool plugin_runs_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<ExecCredential> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_CREDENTIALS_H_
