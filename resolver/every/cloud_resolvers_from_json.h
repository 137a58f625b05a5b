// File: resolver/every/cloud_resolvers_from_json.h
//
// The makers (resolver/resolver_from_json.h) of the resolvers that ask a cloud, a name server or a
// store.
//
// Defines: MakeDnsResolverFromJson(), MakeEtcdResolverFromJson(), MakeGceResolverFromJson().

#ifndef RESOLVER_EVERY_CLOUD_RESOLVERS_FROM_JSON_H_
#define RESOLVER_EVERY_CLOUD_RESOLVERS_FROM_JSON_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/cluster_resolver.h"
#include "resolver/resolver_from_json.h"

namespace millrace {

// "dns", "etcd" and "gce": the members that millrace/resolver.h lists.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeDnsResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers& makers);
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeEtcdResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers& makers);
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeGceResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers& makers);

}  // namespace millrace

#endif  // RESOLVER_EVERY_CLOUD_RESOLVERS_FROM_JSON_H_
