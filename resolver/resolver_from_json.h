// File: resolver/resolver_from_json.h
//
// Any resolver from its description in JSON: what `millrace resolve` and the vectors of testdata/
// build theirs from.
//
// Defines: ResolverMakers, ResolverMaker, ResolverFromJson(), and for makers ReadTaskProperties(),
// CheckMembers().
//
//   {"type": "union",
//    "resolvers": [{"type": "static", "cluster_spec": {"ps": ["h0:1"]}},
//                  {"type": "tf_config", "rpc_layer": "grpc"}]}
//
//   ResolverMakers makers = BasicResolverMakers();
//   makers.by_type["kubernetes"] = MakeKubernetesResolverFromJson;
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ClusterResolver> resolver,
//                             ResolverFromJson(description, makers));

#ifndef RESOLVER_RESOLVER_FROM_JSON_H_
#define RESOLVER_RESOLVER_FROM_JSON_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/cluster_resolver.h"
#include "millrace/resolver_base.h"

namespace millrace {

struct ResolverMakers;

// Makes one resolver of its type. `where` is the path of `description` for messages
// ("resolvers[1]", empty for the document). `makers` is for those that hold other resolvers.
using ResolverMaker = std::function<absl::StatusOr<std::unique_ptr<ClusterResolver>>(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers& makers)>;

// By the value of "type". A description that another library understands is added by the caller, so
// that a program links only what it names.
struct ResolverMakers {
  std::map<std::string, ResolverMaker> by_type;
};

// `behavior` holds for the resolver and for those inside it; a description may not choose.
// Returns INVALID_ARGUMENT, naming the member by its path, if it has a wrong type, is missing or is
// not known, or the type is not among `makers`; else the errors of the resolver's Create(). With
// kTensorFlow a wrong type is the error that TensorFlow's constructor raises for it.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> ResolverFromJson(
    const OrderedJson& description, const ResolverMakers& makers,
    ResolverBehavior behavior = ResolverBehavior::kCorrect, absl::string_view where = "");

// --- For those who write a maker ---

// The members task_type, task_id and rpc_layer; absent and null are not set.
// Returns INVALID_ARGUMENT naming the member.
[[nodiscard]] absl::StatusOr<TaskProperties> ReadTaskProperties(const OrderedJson& description,
                                                                absl::string_view where);

// Returns INVALID_ARGUMENT for a member that is not in `known`; "type" and those of
// ReadTaskProperties() always are.
[[nodiscard]] absl::Status CheckMembers(const OrderedJson& description,
                                        const std::vector<absl::string_view>& known,
                                        absl::string_view where);

}  // namespace millrace

#endif  // RESOLVER_RESOLVER_FROM_JSON_H_
