#include "resolver/kubernetes/pod_identity.h"

#include "core/net/socket_address.h"
#include "core/process/process.h"

namespace millrace {

std::optional<PodIdentity> PodIdentityFromEnvironment(bool in_pod) {
  PodIdentity identity{.name = EnvOr("POD_NAME", ""),
                       .namespace_name = EnvOr("POD_NAMESPACE", ""),
                       .uid = EnvOr("POD_UID", "")};
  if (identity.name.empty() && identity.uid.empty() && in_pod) identity.name = LocalHostname();
  if (identity.name.empty() && identity.uid.empty()) return std::nullopt;
  return identity;
}

}  // namespace millrace
