#include "resolver/kubernetes/pod_member.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"

namespace millrace {
namespace {

// Sets the host, or the reason why there is none.
void FindHost(const Pod& pod, const PodMemberRules& rules, std::string* host,
              std::string* absence) {
  if (pod.pod_ip.empty()) {
    *absence = "has no IP yet";
  } else if (rules.address == PodAddress::kPodIp) {
    *host = pod.pod_ip;
  } else if (rules.address == PodAddress::kHostIp) {
    *host = pod.host_ip;
    if (host->empty()) *absence = "has no host IP yet";
  } else if (pod.hostname.empty() || pod.subdomain.empty()) {
    *absence = "has no name in DNS: its spec sets no hostname or no subdomain";
  } else {
    *host = absl::StrCat(pod.hostname, ".", pod.subdomain, ".", pod.namespace_name, ".svc",
                         rules.cluster_domain.empty() ? "" : ".", rules.cluster_domain);
  }
}

}  // namespace

PodMember MakePodMember(const Pod& pod, const PodMemberRules& rules) {
  PodMember member{.name = pod.name,
                   .namespace_name = pod.namespace_name,
                   .uid = pod.uid,
                   .gone = pod.terminating || pod.phase == "Succeeded" || pod.phase == "Failed",
                   .ordinal = PodOrdinalOf(pod),
                   .accelerators = pod.accelerators};
  if (member.uid.empty()) member.uid = absl::StrCat(pod.namespace_name, "/", pod.name);
  if (pod.phase != "Running") {
    member.absence = pod.phase.empty()
                         ? std::string("has no phase yet")
                         : absl::StrCat("is ", EscapeControls(Ellipsize(pod.phase, 40)));
    return member;
  }
  if (pod.terminating) {
    member.absence = "is being deleted";
    return member;
  }
  std::string host;
  FindHost(pod, rules, &host, &member.absence);
  if (member.absence.empty() && rules.require_ready && !pod.ready) member.absence = "is not Ready";
  if (!member.absence.empty()) return member;
  const absl::StatusOr<int> port = rules.port.Of(pod);
  if (port.ok()) {
    member.address = FormatHostPort(host, *port);
  } else {
    member.absence = absl::StrCat("has no port: ", port.status().message());
  }
  return member;
}

}  // namespace millrace
