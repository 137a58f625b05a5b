// File: resolver/kubernetes/pod_order.h
//
// The order of the pods of a job: by what Kubernetes or the name says of their place.
//
// Defines: PodOrdinal, PodOrdinalOf().

#ifndef RESOLVER_KUBERNETES_POD_ORDER_H_
#define RESOLVER_KUBERNETES_POD_ORDER_H_

#include <optional>

#include "resolver/kubernetes/client/pod.h"

namespace millrace {

struct PodOrdinal {
  // In the order in which they are looked for.
  enum class Source {
    kCompletionIndex,  // label or annotation batch.kubernetes.io/job-completion-index
    kPodIndex,         // label apps.kubernetes.io/pod-index of StatefulSets
    kName,             // "-7" at the end of the name
  };
  Source source = Source::kName;
  int value = 0;
  friend bool operator==(const PodOrdinal&, const PodOrdinal&) = default;
};

// Nullopt if there is none in 0..2^31-1. A number at the end of the name does not count if its last
// part was drawn at random (pods of a ReplicaSet or Job: they have the label pod-template-hash or
// controller-uid), nor with a leading zero.
[[nodiscard]] std::optional<PodOrdinal> PodOrdinalOf(const Pod& pod);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_POD_ORDER_H_
