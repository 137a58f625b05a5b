// File: resolver/kubernetes/pod_member.h
//
// What a cluster's spec needs of a pod: small enough to keep ten thousand of them.
//
// Defines: PodMember, PodMemberRules, MakePodMember().

#ifndef RESOLVER_KUBERNETES_POD_MEMBER_H_
#define RESOLVER_KUBERNETES_POD_MEMBER_H_

#include <map>
#include <optional>
#include <string>

#include "millrace/kubernetes_pod.h"
#include "millrace/pod_port.h"
#include "resolver/kubernetes/pod_order.h"

namespace millrace {

struct PodMemberRules {
  PodPort port = PodPort::Number(8470);
  PodAddress address = PodAddress::kPodIp;
  std::string cluster_domain = "cluster.local";
  bool require_ready = false;
};

struct PodMember {
  std::string name;
  std::string namespace_name;
  std::string uid;      // of fakes without UIDs: "namespace/name"
  std::string address;  // "10.1.2.3:8470", "[fd00::1]:8470"; empty if the pod is not there
  std::string absence;  // why it is not there: "Pending", "has no IP yet"; empty if it is
  bool gone = false;    // has ended or is being deleted: does not count
  std::optional<PodOrdinal> ordinal;
  std::map<std::string, int> accelerators;

  friend bool operator==(const PodMember&, const PodMember&) = default;
};

// Thread safety: pure function.
[[nodiscard]] PodMember MakePodMember(const Pod& pod, const PodMemberRules& rules);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_POD_MEMBER_H_
