// File: resolver/spark/resolvers_from_json.h
//
// A SparkResolver and a ClusterMembersResolver from their descriptions in JSON: the makers of the
// types "spark" and "cluster" for ResolverFromJson().
//
//   ResolverMakers makers = BasicResolverMakers();
//   makers.by_type["spark"] = MakeSparkResolverFromJson;
//   makers.by_type["cluster"] = MakeClusterMembersResolverFromJson;

#ifndef RESOLVER_SPARK_RESOLVERS_FROM_JSON_H_
#define RESOLVER_SPARK_RESOLVERS_FROM_JSON_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/cluster_resolver.h"
#include "resolver/resolver_from_json.h"

namespace millrace {

// Members as in SparkResolverOptions:
//
//   url                        required
//   application_id, executor_id
//   jobs                       {"ps": 1, "worker": null}; null: all executors that others leave
//   port_base, ports           a port, and {"job": port}
//   completeness               "require_all", "wait" or "available"
//   wait_timeout_s, timeout_s  seconds, above 0
//   ca_file, insecure_skip_verify
//   task_type, task_id, rpc_layer
//
// There is one behaviour, whichever is asked for. Returns INVALID_ARGUMENT, naming the member; the
// errors of Create().
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeSparkResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers& makers);

// Members as in ClusterMembersResolverOptions, all optional:
//
//   cluster                    an id, the beginning of one, or a cluster file
//   address, ca_file,
//   identity_file, token_file  in its place, all four: host:port, and files that are read now
//   completeness, wait_timeout_s, timeout_s, task_type, task_id, rpc_layer   as above
//
// Errors as above.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeClusterMembersResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers& makers);

}  // namespace millrace

#endif  // RESOLVER_SPARK_RESOLVERS_FROM_JSON_H_
