// File: resolver/kubernetes/client/pod.h
//
// What Millrace reads of a Kubernetes pod.
//
// Defines: Pod, PodFromJson().

#ifndef RESOLVER_KUBERNETES_CLIENT_POD_H_
#define RESOLVER_KUBERNETES_CLIENT_POD_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/json.h"

namespace millrace {

// A value. Empty strings stand for what the API server did not send.
struct Pod {
  struct Port {
    std::string name;
    int port = 0;
    friend bool operator==(const Port&, const Port&) = default;
  };

  std::string name;
  std::string namespace_name;
  std::string uid;
  std::string resource_version;
  std::string phase;     // "Pending", "Running", "Succeeded", "Failed", "Unknown"
  std::string host_ip;   // of the node
  std::string pod_ip;    // the first of podIPs; IPv6 without brackets
  std::string hostname;  // spec.hostname and .subdomain: the pod's name in DNS
  std::string subdomain;
  bool terminating = false;  // deletionTimestamp is set; the phase may still be Running
  bool ready = false;        // condition Ready is True
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::vector<Port> ports;                  // of all its containers
  std::map<std::string, int> accelerators;  // "GPU" -> limit over its containers

  friend bool operator==(const Pod&, const Pod&) = default;
};

// Reads a v1 Pod object. Members that are absent or null stay empty, what is not known is ignored.
// Returns INVALID_ARGUMENT naming the pod and the member that has a wrong type, or if there is no
// name.
[[nodiscard]] absl::StatusOr<Pod> PodFromJson(const Json& object);

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_POD_H_
