#include "resolver/every/every_resolver.h"

#include <memory>

#include "core/base/json.h"
#include "core/base/status.h"
#include "millrace/resolver.h"
#include "resolver/every/basic_resolvers.h"
#include "resolver/every/kubernetes_resolver_from_json.h"
#include "resolver/spark/resolvers_from_json.h"

namespace millrace {

ResolverMakers EveryResolverMaker() {
  ResolverMakers makers = BasicResolverMakers();
  makers.by_type["kubernetes"] = MakeKubernetesResolverFromJson;
  makers.by_type["spark"] = MakeSparkResolverFromJson;
  makers.by_type["cluster"] = MakeClusterMembersResolverFromJson;
  return makers;
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> ResolverFromJson(absl::string_view text,
                                                                  ResolverBehavior behavior) {
  const absl::StatusOr<OrderedJson> description = ParseOrderedJson(text);
  if (!description.ok()) return Annotate(description.status(), "resolver");
  return ResolverFromJson(*description, EveryResolverMaker(), behavior);
}

}  // namespace millrace
