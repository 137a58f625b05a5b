#include "resolver/every/every_resolver.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/status.h"
#include "millrace/resolver.h"
#include "resolver/every/basic_resolvers.h"
#include "resolver/every/cloud_resolvers_from_json.h"
#include "resolver/every/kubernetes_resolver_from_json.h"
#include "resolver/spark/resolvers_from_json.h"

namespace millrace {
namespace {

// Refuses to be wrong as TensorFlow is: it has no such resolver.
ResolverMaker Correct(ResolverMaker make) {
  return [make = std::move(make)](
             const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
             const ResolverMakers& makers) -> absl::StatusOr<std::unique_ptr<ClusterResolver>> {
    if (behavior == ResolverBehavior::kTensorFlow) {
      return Annotate(
          absl::InvalidArgumentError(absl::StrCat(
              "TensorFlow has no resolver like \"", description["type"].get<std::string>(),
              "\", so there is no way to be wrong as it is: leave out its behaviour")),
          where);
    }
    return make(description, behavior, where, makers);
  };
}

}  // namespace

ResolverMakers EveryResolverMaker() {
  ResolverMakers makers = BasicResolverMakers();
  makers.by_type["dns"] = Correct(MakeDnsResolverFromJson);
  makers.by_type["etcd"] = Correct(MakeEtcdResolverFromJson);
  makers.by_type["gce"] = MakeGceResolverFromJson;
  makers.by_type["kubernetes"] = MakeKubernetesResolverFromJson;
  makers.by_type["spark"] = Correct(MakeSparkResolverFromJson);
  makers.by_type["cluster"] = Correct(MakeClusterMembersResolverFromJson);
  return makers;
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> ResolverFromJson(absl::string_view text,
                                                                  ResolverBehavior behavior) {
  const absl::StatusOr<OrderedJson> description = ParseOrderedJson(text);
  if (!description.ok()) return Annotate(description.status(), "resolver");
  return ResolverFromJson(*description, EveryResolverMaker(), behavior);
}

}  // namespace millrace
