// File: millrace/resolver.h
//
// Where the members of a cluster are: every membership source, and any of them from a description
// in JSON. Each is a ClusterResolver (millrace/cluster_resolver.h):
//
//   StaticResolver          a list that is in hand            millrace/static_resolver.h
//   TfConfigResolver        the variable TF_CONFIG            millrace/tf_config_resolver.h
//   KubernetesResolver      pods, by labels                   millrace/kubernetes_resolver.h
//   GceResolver             the instances of a group          millrace/gce_resolver.h
//   SageMakerResolver       the hosts of a training job       millrace/sagemaker_resolver.h
//   SlurmResolver           the tasks of a step               millrace/slurm_resolver.h
//   SparkResolver           the executors of an application   millrace/spark_resolver.h
//   DnsResolver             SRV records, addresses of names   millrace/dns_resolver.h
//   EtcdResolver            keys of etcd                      millrace/etcd_resolver.h
//   ClusterMembersResolver  the nodes of a Millrace cluster   millrace/cluster_members_resolver.h
//   UnionResolver           several of them as one            millrace/union_resolver.h
//
// Defines: ResolverFromJson(), and includes the above.
//
//   MILLRACE_ASSIGN_OR_RETURN(
//       std::unique_ptr<ClusterResolver> resolver,
//       ResolverFromJson(R"({"type": "union",
//                            "resolvers": [{"type": "static", "cluster_spec": {"ps": ["h0:1"]}},
//                                          {"type": "tf_config", "rpc_layer": "grpc"}]})"));
//   MILLRACE_ASSIGN_OR_RETURN(ClusterSpec spec, resolver->cluster_spec());
//
// Which task is the chief, and how many workers there are: millrace/roles.h. To write a resolver of
// one's own: millrace/resolver_base.h.

#ifndef MILLRACE_RESOLVER_H_
#define MILLRACE_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/cluster_members_resolver.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/dns_resolver.h"
#include "millrace/etcd_resolver.h"
#include "millrace/gce_resolver.h"
#include "millrace/kubernetes_resolver.h"
#include "millrace/membership.h"
#include "millrace/resolver_base.h"
#include "millrace/roles.h"
#include "millrace/sagemaker_resolver.h"
#include "millrace/slurm_resolver.h"
#include "millrace/spark_resolver.h"
#include "millrace/static_resolver.h"
#include "millrace/tensorflow_error.h"
#include "millrace/tf_config_resolver.h"
#include "millrace/union_resolver.h"

namespace millrace {

// Any resolver from an object whose "type" is one of these, with the members of its options:
//
//   static      cluster_spec (required), master, environment, num_accelerators
//   tf_config   environment
//   sagemaker   port, environment
//   gce         instance_group (required), project, zone, port, completeness, expected_tasks,
//               wait_timeout_s, timeout_s, token_file, api_url, metadata_url, ca_file
//   slurm       jobs, port_base, gpus_per_node, gpus_per_task, tasks_per_node, auto_set_gpu
//   kubernetes  job_to_label_mapping, tf_server_port, ports, address, completeness, expected_tasks,
//               wait_timeout_s, timeout_s, max_backoff_s, executable_location, namespace,
//               all_namespaces, cluster_domain, require_ready, kubeconfig, context
//   spark       url (required), application_id, executor_id, jobs, port_base, ports, completeness,
//               wait_timeout_s, timeout_s, ca_file, insecure_skip_verify
//   dns         jobs (required), port, completeness, expected_tasks, wait_timeout_s, timeout_s,
//               servers
//   etcd        endpoints and prefix (required), completeness, expected_tasks, wait_timeout_s,
//               timeout_s, user, password_file, ca_file, certificate_file, key_file
//   cluster     cluster, or address, ca_file, identity_file and token_file; completeness,
//               wait_timeout_s, timeout_s
//   union       resolvers (required), a list of descriptions
//   all         task_type, task_id, rpc_layer
//
// `behavior` holds for the resolver and for those inside it; a description may not choose.
// Returns INVALID_ARGUMENT, naming the member by its path, if the text is no such JSON, or a member
// has a wrong type, is missing or is not known; else the errors of the resolver's Create(). With
// kTensorFlow a wrong type is the error that TensorFlow's constructor raises for it, and "spark",
// "dns", "etcd" and "cluster" are INVALID_ARGUMENT: it has no such resolvers. Blocking: reads files
// that the description names.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> ResolverFromJson(
    absl::string_view text, ResolverBehavior behavior = ResolverBehavior::kCorrect);

}  // namespace millrace

#endif  // MILLRACE_RESOLVER_H_
