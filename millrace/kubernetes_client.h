// File: millrace/kubernetes_client.h
//
// The part of the Kubernetes API that resolving needs, as an interface. A resolver makes one that
// asks the API server; programs and tests may bring their own
// (KubernetesResolverOptions::override_client).
//
// Defines: KubernetesClient, PodSelection, PodList, PodEvent.

#ifndef MILLRACE_KUBERNETES_CLIENT_H_
#define MILLRACE_KUBERNETES_CLIENT_H_

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/kubernetes_pod.h"

namespace millrace {

// Which pods.
struct PodSelection {
  std::string namespace_name;  // empty: of all namespaces, which needs a ClusterRole
  std::string label_selector;  // as kubectl's -l: "job-name=a,tier!=b"; empty: all pods
};

struct PodList {
  std::vector<Pod> pods;         // as the server ordered them
  std::string resource_version;  // from where a watch continues this list
};

struct PodEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type = Type::kAdded;
  Pod pod;                       // of a kBookmark: empty
  std::string resource_version;  // after this event
};

// Errors of both calls: UNAUTHENTICATED (401), PERMISSION_DENIED (403; names the verb, the
// resource, the namespace and who was refused, and prints the Role to apply), INVALID_ARGUMENT
// (400: a bad selector), UNAVAILABLE (not reached, TLS refused, 429 and 5xx after retries, stream
// cut), DEADLINE_EXCEEDED, CANCELLED (by `stop`), DATA_LOSS (what came is no pod list). Thread
// safety: all methods may be called from several threads at once.
class KubernetesClient {
 public:
  virtual ~KubernetesClient() = default;

  // All pods that match, page by page; when the list expires on the way (410) it is begun again.
  // Ends within `timeout`.
  [[nodiscard]] virtual absl::StatusOr<PodList> ListPods(const PodSelection& selection,
                                                         absl::Duration timeout,
                                                         std::stop_token stop) = 0;

  // Calls `on_event` in the caller's thread for every change after `resource_version`, until the
  // server ends the stream (OK: watch again from the last version seen), the stream fails, `stop`
  // is requested, or `on_event` returns an error, which is then returned. As soon as the server has
  // accepted the watch (before any change) `on_event` gets a kBookmark of `resource_version`
  // itself: from then on silence means that nothing has changed. Returns OUT_OF_RANGE in all the
  // forms of 410: the version is too old, list again.
  [[nodiscard]] virtual absl::Status WatchPods(
      const PodSelection& selection, const std::string& resource_version,
      const std::function<absl::Status(PodEvent)>& on_event, std::stop_token stop) = 0;

  // What it talks to, for error texts: "https://10.0.0.1:443 (context prod)".
  [[nodiscard]] virtual std::string Describe() const = 0;
};

}  // namespace millrace

#endif  // MILLRACE_KUBERNETES_CLIENT_H_
