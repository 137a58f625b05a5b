// File: resolver/every/kubernetes_resolver_from_json.h
//
// A KubernetesResolver from its description in JSON: the maker of the type "kubernetes" for
// ResolverFromJson().
//
//   ResolverMakers makers = BasicResolverMakers();
//   makers.by_type["kubernetes"] = MakeKubernetesResolverFromJson;

#ifndef RESOLVER_EVERY_KUBERNETES_RESOLVER_FROM_JSON_H_
#define RESOLVER_EVERY_KUBERNETES_RESOLVER_FROM_JSON_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/cluster_resolver.h"
#include "millrace/kubernetes_resolver.h"
#include "resolver/resolver_from_json.h"

namespace millrace {

// Members, all optional, as in KubernetesResolverOptions:
//
//   job_to_label_mapping   {"job": ["selector", ...]}; a string is one selector
//   tf_server_port         a number
//   ports                  {"job": 8470, "job": "container port" or "annotation:key"}
//   address                "pod_ip", "host_ip" or "dns"
//   completeness           "require_all", "wait" or "available"
//   expected_tasks         {"job": count}
//   wait_timeout_s, timeout_s, max_backoff_s   seconds, above 0
//   executable_location    "automatic", "within_cluster" or "off_cluster"
//   namespace, all_namespaces, cluster_domain, require_ready, kubeconfig, context, rpc_layer,
//   task_type, task_id
//
// Returns INVALID_ARGUMENT, naming the member. With kTensorFlow as TensorFlow does: a string among
// the values of job_to_label_mapping is a selector for each of its characters, another
// executable_location is a ValueError.
[[nodiscard]] absl::StatusOr<KubernetesResolverOptions> KubernetesOptionsFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where = "");

// A ResolverMaker.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeKubernetesResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers& makers);

}  // namespace millrace

#endif  // RESOLVER_EVERY_KUBERNETES_RESOLVER_FROM_JSON_H_
