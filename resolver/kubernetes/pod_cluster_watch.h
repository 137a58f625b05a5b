// File: resolver/kubernetes/pod_cluster_watch.h
//
// Several PodWatches, one for each selector of each job, as one changing PodCluster.
//
// Defines: PodClusterWatch, PodSource, PodClusterRules.

#ifndef RESOLVER_KUBERNETES_POD_CLUSTER_WATCH_H_
#define RESOLVER_KUBERNETES_POD_CLUSTER_WATCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/kubernetes_client.h"
#include "millrace/member_completeness.h"
#include "resolver/kubernetes/pod_cluster.h"
#include "resolver/kubernetes/pod_member.h"
#include "resolver/kubernetes/pod_watch.h"

namespace millrace {

// A job as its selectors make it.
struct PodSource {
  std::string job;
  std::vector<std::string> selectors;
  PodMemberRules rules;
  std::optional<int> expected_tasks;
};

struct PodClusterRules {
  std::string namespace_name;  // empty: all
  std::vector<PodSource> jobs;
  MemberCompleteness completeness = MemberCompleteness::kRequireAll;
};

// "in namespace ml", "in all namespaces".
[[nodiscard]] std::string PodPlace(const std::string& namespace_name);

// Memory: what PodMember has of each pod; never whole pods, beyond the moment of a list.
// Thread: "k8s-tell", which calls the callback; and those of PodWatch.
class PodClusterWatch {
 public:
  struct Options {
    PodWatchOptions pods;
    // A stream that ends is begun again; if that takes longer, the server is lost.
    absl::Duration resume_grace = absl::Seconds(3);
  };

  // Given what the pods are at `now`: a cluster; FAILED_PRECONDITION if they make none; any other
  // error, naming the job, if a selector cannot be followed, so that what was told before may be
  // old. Called when there is something new; not before every selector was listed or failed.
  using Callback = std::function<void(const absl::StatusOr<PodCluster>& cluster, absl::Time now)>;

  PodClusterWatch(std::shared_ptr<KubernetesClient> client, PodClusterRules rules, Options options,
                  Callback callback);
  // Returns when the callback is not running and never will again. Not from the callback.
  ~PodClusterWatch();
  PodClusterWatch(const PodClusterWatch&) = delete;
  PodClusterWatch& operator=(const PodClusterWatch&) = delete;

 private:
  class Table;

  const std::shared_ptr<KubernetesClient> client_;
  const std::unique_ptr<Table> table_;
  std::vector<std::unique_ptr<PodWatch>> watches_;
  Thread teller_;
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_POD_CLUSTER_WATCH_H_
