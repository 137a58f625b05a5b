// File: resolver/kubernetes/client/pod.h
//
// A pod (millrace/kubernetes_pod.h) from what the API server sends.
//
// Defines: PodFromJson().

#ifndef RESOLVER_KUBERNETES_CLIENT_POD_H_
#define RESOLVER_KUBERNETES_CLIENT_POD_H_

#include "absl/status/statusor.h"
#include "core/base/json.h"
#include "millrace/kubernetes_pod.h"

namespace millrace {

// Reads a v1 Pod object. Members that are absent or null stay empty, what is not known is ignored.
// Returns INVALID_ARGUMENT naming the pod and the member that has a wrong type, or if there is no
// name.
[[nodiscard]] absl::StatusOr<Pod> PodFromJson(const Json& object);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_POD_H_
