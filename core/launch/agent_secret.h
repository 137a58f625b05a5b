// File: core/launch/agent_secret.h
//
// What a driver and the agents that it adopts have in common: a token, and a certificate with its
// key by which both prove to each other who they are. Made once for a set of hosts or pods; it
// outlives clusters.
//
// Defines: AgentSecret, MakeAgentSecret(), ReadAgentSecret(), RenewalNotice(),
// WriteAgentSecretFile(), WriteAgentSecretDir(), AgentSecretManifest().
//
//   MILLRACE_ASSIGN_OR_RETURN(AgentSecret secret, MakeAgentSecret());
//   MILLRACE_RETURN_IF_ERROR(WriteAgentSecretDir("/etc/millrace/agent", secret));
//   ...
//   MILLRACE_ASSIGN_OR_RETURN(secret, ReadAgentSecret({.dir = "/etc/millrace/agent"}));
//
// Thread safety: thread-safe. Blocking: disk I/O, and some 0.1 ms of CPU to make one.

#ifndef CORE_LAUNCH_AGENT_SECRET_H_
#define CORE_LAUNCH_AGENT_SECRET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/secret_place.h"

namespace millrace {

// The name in every agent's certificate.
inline constexpr char kAgentCertificateName[] = "agent.millrace";

// A secret that was copied or forgotten ends at some time.
inline constexpr absl::Duration kAgentSecretValidity = absl::Hours(24 * 365);

// Secrets: never in argv, environments, logs or error texts.
struct AgentSecret {
  std::string token;            // 64 hex digits: proves the driver to the agent
  std::string certificate_pem;  // of every agent and driver of this secret; the other side pins it
  std::string key_pem;          // of the certificate

  friend bool operator==(const AgentSecret&, const AgentSecret&) = default;
};

// A fresh token, and a fresh P-256 key with a certificate of its own for kAgentCertificateName,
// valid from 25 hours ago (clocks of hosts differ) for `validity`. Returns INTERNAL if OpenSSL
// fails.
[[nodiscard]] absl::StatusOr<AgentSecret> MakeAgentSecret(
    absl::Duration validity = kAgentSecretValidity);

// Reads it afresh. Returns NOT_FOUND, PERMISSION_DENIED if it belongs to another user than this one
// or root, or others than owner and group may read it, or others than the owner may write it,
// INVALID_ARGUMENT if it is no secret, its key is not that of its certificate or not exactly one
// place is set, FAILED_PRECONDITION if its certificate has expired or, by this host's clock, is of
// the future. Errors name the path, say what to do, and never quote the secret.
[[nodiscard]] absl::StatusOr<AgentSecret> ReadAgentSecret(const SecretPlace& place);

// One line for people if `secret` expires within 30 days: when, and what to do; otherwise empty.
[[nodiscard]] std::string RenewalNotice(const AgentSecret& secret, const SecretPlace& place,
                                        absl::Time now);

// Replaces the file (mode 0600).
[[nodiscard]] absl::Status WriteAgentSecretFile(const std::string& path, const AgentSecret& secret);
// Makes the folder (mode 0700) if it is not there and replaces the three files in it (mode 0600).
[[nodiscard]] absl::Status WriteAgentSecretDir(const std::string& dir, const AgentSecret& secret);
// A Kubernetes Secret as YAML, for `kubectl apply -f -`. Returns INVALID_ARGUMENT if `name` or
// `name_space` (may be empty) is no name of an object.
[[nodiscard]] absl::StatusOr<std::string> AgentSecretManifest(const AgentSecret& secret,
                                                              absl::string_view name,
                                                              absl::string_view name_space);

}  // namespace millrace

#endif  // CORE_LAUNCH_AGENT_SECRET_H_
