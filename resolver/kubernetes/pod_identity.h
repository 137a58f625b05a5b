// File: resolver/kubernetes/pod_identity.h
//
// Which pod this process runs in, as the downward API tells it.
//
// Defines: PodIdentityFromEnvironment().
//
//   env:
//   - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
//   - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
//   - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}

#ifndef RESOLVER_KUBERNETES_POD_IDENTITY_H_
#define RESOLVER_KUBERNETES_POD_IDENTITY_H_

#include <optional>

#include "millrace/kubernetes_pod.h"

namespace millrace {

// From POD_NAME, POD_NAMESPACE and POD_UID. Where a pod does not set POD_NAME (`in_pod`), its name
// is taken from the host's, which is the pod's unless it uses the host's network or sets hostname.
// Nullopt if neither name nor uid is known. Thread safety: reads the environment.
[[nodiscard]] std::optional<PodIdentity> PodIdentityFromEnvironment(bool in_pod);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_POD_IDENTITY_H_
