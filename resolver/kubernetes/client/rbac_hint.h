// File: resolver/kubernetes/client/rbac_hint.h
//
// What an administrator applies so that a user may list and watch pods.
//
// Defines: RbacManifest(), ForbiddenUser().

#ifndef RESOLVER_KUBERNETES_CLIENT_RBAC_HINT_H_
#define RESOLVER_KUBERNETES_CLIENT_RBAC_HINT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// A Role and its RoleBinding as YAML, or a ClusterRole and its binding if `namespace_name` is
// empty. `user` is the API server's name of the user ("system:serviceaccount:NS:NAME" is bound as a
// service account); empty: the namespace's service account "default". Thread safety: pure function.
[[nodiscard]] std::string RbacManifest(absl::string_view user, absl::string_view namespace_name);

// The user in the API server's message of a 403: pods is forbidden: User "..." cannot ...; "" if
// there is none.
[[nodiscard]] std::string ForbiddenUser(absl::string_view message);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_RBAC_HINT_H_
