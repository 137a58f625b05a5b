// File: resolver/kubernetes/pod_cluster.h
//
// Pods to tasks: puts the pods of each job in order, gives them indices and says whether they make
// a cluster. The rules stand in kubernetes_resolver.h.
//
// Defines: PodCluster, PodJob, MakePodCluster(), PodMemberBefore().

#ifndef RESOLVER_KUBERNETES_POD_CLUSTER_H_
#define RESOLVER_KUBERNETES_POD_CLUSTER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/cluster_spec.h"
#include "millrace/kubernetes_pod.h"
#include "millrace/member_completeness.h"
#include "resolver/kubernetes/pod_member.h"

namespace millrace {

using PodMemberPtr = std::shared_ptr<const PodMember>;

// A job and what its selectors match.
struct PodJob {
  struct Selected {
    std::string selector;  // for messages
    std::vector<PodMemberPtr> pods;
  };
  std::string name;
  std::vector<Selected> selected;
  std::optional<int> expected_tasks;
};

struct PodCluster {
  struct Task {
    std::string job;
    int index = 0;
    PodMemberPtr pod;
  };
  ClusterSpec spec;
  std::vector<Task> tasks;  // in the order of the jobs, indices ascending
};

// The order of the pods that one selector matches: a strict one, as far as UIDs differ.
// Thread safety: pure function.
[[nodiscard]] bool PodMemberBefore(const PodMember& a, const PodMember& b);

// `where` ends messages: "in namespace ml". Returns FAILED_PRECONDITION if the pods are not
// complete (never with kAvailable), naming each job that is not, its pods and why, up to a few of
// them. Thread safety: pure function.
[[nodiscard]] absl::StatusOr<PodCluster> MakePodCluster(const std::vector<PodJob>& jobs,
                                                        MemberCompleteness completeness,
                                                        absl::string_view where);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_POD_CLUSTER_H_
