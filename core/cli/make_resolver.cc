#include "core/cli/make_resolver.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "resolver/every/every_resolver.h"
#include "resolver/resolver_from_json.h"

namespace millrace::cli {

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeResolver(const OrderedJson& description,
                                                              bool tensorflow) {
  absl::StatusOr<std::unique_ptr<ClusterResolver>> resolver =
      ResolverFromJson(description, EveryResolverMaker(),
                       tensorflow ? ResolverBehavior::kTensorFlow : ResolverBehavior::kCorrect);
  // If no cluster runs, the name of the cluster is not what is wrong.
  if (absl::IsNotFound(resolver.status()) && description.value("type", "") == "cluster" &&
      !description.contains("cluster")) {
    return absl::UnavailableError(
        absl::StrCat(resolver.status().message(), " with --cluster FILE"));
  }
  return resolver;
}

}  // namespace millrace::cli
