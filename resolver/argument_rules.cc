#include "resolver/argument_rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "millrace/status_macros.h"
#include "resolver/description_members.h"
#include "resolver/resolver_from_json.h"

namespace millrace {
namespace {

absl::StatusOr<const OrderedJson*> Required(const OrderedJson& description, const std::string& key,
                                            absl::string_view where) {
  const OrderedJson* value = FindMember(description, key);
  if (value != nullptr) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("field \"", MemberPath(where, key), "\" is missing"));
}

absl::StatusOr<ClusterSpec> StaticCluster(const OrderedJson& description, absl::string_view where) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(
      description, {"cluster_spec", "master", "environment", "num_accelerators"}, where));
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* value, Required(description, "cluster_spec", where));
  absl::StatusOr<ClusterSpec> spec = ClusterSpecFromJson(*value);
  if (spec.ok()) return spec;
  return Annotate(spec.status(), absl::StrCat("field \"", MemberPath(where, "cluster_spec"), "\""));
}

absl::StatusOr<OrderedJson> TfConfig(const OrderedJson& description, absl::string_view where) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(description, {"environment"}, where));
  return description;
}

absl::Status CheckSlurm(const OrderedJson& description, absl::string_view where) {
  return CheckMembers(
      description,
      {"jobs", "port_base", "gpus_per_node", "gpus_per_task", "tasks_per_node", "auto_set_gpu"},
      where);
}

absl::Status CheckUnion(const OrderedJson& description, absl::string_view where) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(description, {"resolvers"}, where));
  return Required(description, "resolvers", where).status();
}

}  // namespace

ArgumentRules OurArgumentRules() {
  return {.static_cluster = StaticCluster,
          .tf_config = TfConfig,
          .check_slurm = CheckSlurm,
          .check_union = CheckUnion,
          .check_made_union = [](const OrderedJson&) { return absl::OkStatus(); }};
}

}  // namespace millrace
