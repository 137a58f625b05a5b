// File: resolver/argument_rules.h
//
// The rules by which a resolver's description in JSON (resolver_from_json.h) is taken as the
// arguments of the resolver. There are ours, and TensorFlow's beside them.
//
// Defines: KubernetesArguments, ArgumentRules, OurArgumentRules().

#ifndef RESOLVER_ARGUMENT_RULES_H_
#define RESOLVER_ARGUMENT_RULES_H_

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// What a kubernetes resolver is told, as far as it is read in different ways.
struct KubernetesArguments {
  std::vector<std::pair<std::string, std::vector<std::string>>> job_to_label_mapping;
  // As KubernetesResolverOptions::tf_server_port_text; nullopt: the port is in `rest`.
  std::optional<std::string> tf_server_port_text;
  OrderedJson rest;  // to be read in one way
};

// Each refuses a description that has other members than it may have, among other things. `where`
// is the path of the description for messages. Thread safety: pure functions.
struct ArgumentRules {
  // The cluster of a static resolver.
  absl::StatusOr<ClusterSpec> (*static_cluster)(const OrderedJson& description,
                                                absl::string_view where);
  // Of a tf_config resolver: the description with its task as it is to be read.
  absl::StatusOr<OrderedJson> (*tf_config)(const OrderedJson& description, absl::string_view where);
  // Of sagemaker and gce resolvers: the same; with TensorFlow's rules the port is the text
  // "port_text".
  absl::StatusOr<OrderedJson> (*sagemaker)(const OrderedJson& description, absl::string_view where);
  absl::StatusOr<OrderedJson> (*gce)(const OrderedJson& description, absl::string_view where);
  absl::Status (*check_slurm)(const OrderedJson& description, absl::string_view where);
  // `known`: the members that our resolver has beyond the task's properties.
  absl::StatusOr<KubernetesArguments> (*kubernetes)(const OrderedJson& description,
                                                    std::span<const absl::string_view> known,
                                                    absl::string_view where);
  // Before the resolvers of a union are made, and after that.
  absl::Status (*check_union)(const OrderedJson& description, absl::string_view where);
  absl::Status (*check_made_union)(const OrderedJson& description);
  // Whether a resolver of a union that is no object is null there, which the union refuses itself.
  bool parts_may_be_null = false;
};

// INVALID_ARGUMENT, naming the member.
[[nodiscard]] ArgumentRules OurArgumentRules();

}  // namespace millrace

#endif  // RESOLVER_ARGUMENT_RULES_H_
