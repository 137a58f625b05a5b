// File: millrace/kubernetes_resolver.h
//
// The pods of a Kubernetes cluster as a ClusterSpec: each job is what some label selectors match.
// docs/kubernetes.md tells what to set up, and how this differs from TensorFlow's
// KubernetesClusterResolver.
//
// Defines: KubernetesResolverOptions, KubernetesResolver, ExecutableLocation.
//
//   MILLRACE_ASSIGN_OR_RETURN(
//       std::unique_ptr<KubernetesResolver> resolver,
//       KubernetesResolver::Create({
//           .job_to_label_mapping = {{"ps", {"app=ps"}}, {"worker", {"app=worker"}}},
//           .completeness = MemberCompleteness::kWait,
//           .expected_tasks = {{"worker", 4}}}));

#ifndef MILLRACE_KUBERNETES_RESOLVER_H_
#define MILLRACE_KUBERNETES_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/kubernetes_client.h"
#include "millrace/kubernetes_pod.h"
#include "millrace/member_completeness.h"
#include "millrace/option_defaults.h"
#include "millrace/pod_port.h"
#include "millrace/resolver_base.h"

namespace millrace {

// How the API server is found, unless a client is given.
enum class ExecutableLocation {
  kAutomatic,      // within the cluster if this process runs in a pod, otherwise off it
  kWithinCluster,  // by the service account of this pod
  kOffCluster,     // by a kubeconfig
};

// "(TensorFlow)": also looked at with kTensorFlow.
struct KubernetesResolverOptions {
  ResolverBehavior behavior = ResolverBehavior::kCorrect;

  // Job to its label selectors, as kubectl's -l writes them. Empty:
  // {"worker": {"job-name=tensorflow"}}. (TensorFlow)
  std::vector<std::pair<std::string, std::vector<std::string>>> job_to_label_mapping;
  // The port of each task of the jobs that `ports` does not name. (TensorFlow)
  int tf_server_port = 8470;
  // Written in place of the number: with kTensorFlow any value is a port. (TensorFlow, alone)
  std::optional<std::string> tf_server_port_text;
  std::map<std::string, PodPort> ports;
  PodAddress address = PodAddress::kPodIp;
  // For PodAddress::kDns; empty to leave the pod's search domains to complete the name.
  std::string cluster_domain = "cluster.local";
  // The task of this process, if it is not that of its pod, and the prefix of master(): "grpc" if
  // no rpc_layer is set, none if it is "". (TensorFlow)
  TaskProperties properties;

  // Empty: POD_NAMESPACE, the service account's, or the kubeconfig context's; else "default".
  std::string namespace_name;
  // Looks in all namespaces, which takes a ClusterRole; namespace_name is then empty.
  bool all_namespaces = false;

  // A pod is there if it is Running, not being deleted, has its address and port, and is Ready if
  // that is required. All are there if that is so of every pod that has not ended (Succeeded,
  // Failed) and is not being deleted, and each job has as many as are expected, or else at least
  // one.
  MemberCompleteness completeness = MemberCompleteness::kRequireAll;
  // Job to its number of tasks, exactly; kAvailable does not look at it. Jobs that are not named
  // have any number.
  std::map<std::string, int> expected_tasks;
  absl::Duration wait_timeout = kDefaultWaitTimeout;
  // Only pods whose condition Ready is True are there. Beware: a pod that asks for the cluster
  // before it reports itself ready waits for itself.
  bool require_ready = false;

  // For one answer, over all selectors and pages; not counting wait_timeout.
  absl::Duration timeout = absl::Seconds(30);
  // The longest pause, jittered, between attempts of a watch to reach the server again.
  absl::Duration max_backoff = absl::Seconds(30);

  // Asked instead of a server that the configuration names. (TensorFlow)
  std::shared_ptr<KubernetesClient> override_client;
  // kAutomatic is kWithinCluster with kTensorFlow. (TensorFlow)
  ExecutableLocation executable_location = ExecutableLocation::kAutomatic;
  std::string kubeconfig;  // empty: KUBECONFIG, else ~/.kube/config (TensorFlow)
  std::string context;     // empty: the current one (TensorFlow)
  // Nullopt: from POD_NAME, POD_NAMESPACE and POD_UID; where a pod does not set POD_NAME, its
  // name is the host's.
  std::optional<PodIdentity> identity;
  AcceleratorCounter count_accelerators;  // see ResolverBase (TensorFlow)
};

// Which task a pod is. Its pods are put in order by selector (in the order given), then by
// completion index of an indexed Job, pod index of a StatefulSet, number at the end of the name
// ("-7"), and name ("w10" after "w9"). Within a job a pod counts once, at the first selector that
// matches it; pods are told apart by their UID. Then
//   - if every pod has a completion index or a pod index, and these ascend, that is the index of
//     the task, as the pod itself has it in JOB_COMPLETION_INDEX;
//   - otherwise it is the place in the order. If all the pods have ascending numbers of any kind,
//     a pod that has ended or is being deleted keeps its place between the others until a pod with
//     its number has come; with kAvailable the number itself is the index.
// So a pod that is missing does not move the others to other tasks: the spec then has a gap (is
// sparse). Only pods without numbers, as a Deployment's, close up.
//
// cluster_spec() lists the pods; its errors are those of MemberCompleteness and, naming the job, of
// KubernetesClient. The task of this process is the one that its pod is, for which the pods are
// listed; it has none outside a pod and in a pod that is no task. num_accelerators() of another
// task are the GPUs in its pod's limits, of this one or of no one those of this host.
//
// The callback of a watch runs as soon as the server has told a change (changes that come together
// may come as one update), and when the server is lost: status is then not OK until it has been
// heard again.
//
// With kTensorFlow: TensorFlow's resolver, bug for bug. Only the options that say so are looked at;
// the task of this process is not known, and Watch() asks again and again.
//
// Thread safety: see ClusterResolver. Watch() is pushed by the API server and starts threads:
// docs/threads.md.
class KubernetesResolver : public ResolverBase {
 public:
  // Connects to nothing. Returns INVALID_ARGUMENT for options that contradict themselves, and the
  // errors of reading the service account or the kubeconfig.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<KubernetesResolver>> Create(
      KubernetesResolverOptions options);
  ~KubernetesResolver() override;

 protected:
  explicit KubernetesResolver(const KubernetesResolverOptions& options);
};

}  // namespace millrace

#endif  // MILLRACE_KUBERNETES_RESOLVER_H_
