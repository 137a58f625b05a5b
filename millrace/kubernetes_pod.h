// File: millrace/kubernetes_pod.h
//
// What Millrace reads of a Kubernetes pod.
//
// Defines: Pod, PodIdentity, PodAddress.

#ifndef MILLRACE_KUBERNETES_POD_H_
#define MILLRACE_KUBERNETES_POD_H_

#include <map>
#include <string>
#include <vector>

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

// Which pod this process runs in. Empty strings are not known. A pod is this one if it has the uid,
// or where that is not known, the name and the namespace.
struct PodIdentity {
  std::string name;
  std::string namespace_name;
  std::string uid;
  friend bool operator==(const PodIdentity&, const PodIdentity&) = default;
};

// The kind of address at which the others reach a pod.
enum class PodAddress {
  kPodIp,   // 10.1.2.3
  kHostIp,  // the node's, for pods with hostNetwork
  kDns,     // hostname.subdomain.namespace.svc.cluster.local, for pods behind a headless Service
};

}  // namespace millrace

#endif  // MILLRACE_KUBERNETES_POD_H_
