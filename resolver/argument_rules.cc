#include "resolver/argument_rules.h"

#include <string>
#include <utility>
#include <vector>

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

absl::StatusOr<OrderedJson> SageMaker(const OrderedJson& description, absl::string_view where) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(description, {"port", "environment"}, where));
  return description;
}

absl::StatusOr<OrderedJson> Gce(const OrderedJson& description, absl::string_view where) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(
      description,
      {"instance_group", "project", "zone", "port", "completeness", "expected_tasks",
       "wait_timeout_s", "timeout_s", "token_file", "api_url", "metadata_url", "ca_file"},
      where));
  MILLRACE_RETURN_IF_ERROR(Required(description, "instance_group", where).status());
  return description;
}

absl::Status CheckSlurm(const OrderedJson& description, absl::string_view where) {
  return CheckMembers(
      description,
      {"jobs", "port_base", "gpus_per_node", "gpus_per_task", "tasks_per_node", "auto_set_gpu"},
      where);
}

absl::StatusOr<std::vector<std::string>> Selectors(const OrderedJson& value,
                                                   const std::string& path) {
  if (value.is_string()) return std::vector<std::string>{value.get<std::string>()};
  if (!value.is_array()) return WrongMemberType(path, "a list of label selectors", value);
  std::vector<std::string> selectors;
  for (const OrderedJson& selector : value) {
    if (!selector.is_string()) {
      return WrongMemberType(absl::StrCat(path, "[", selectors.size(), "]"), "a label selector",
                             selector);
    }
    selectors.push_back(selector.get<std::string>());
  }
  return selectors;
}

absl::StatusOr<KubernetesArguments> Kubernetes(const OrderedJson& description,
                                               std::span<const absl::string_view> known,
                                               absl::string_view where) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(description, {known.begin(), known.end()}, where));
  KubernetesArguments arguments;
  arguments.rest = description;
  const OrderedJson* mapping = FindMember(description, "job_to_label_mapping");
  if (mapping == nullptr) return arguments;
  const std::string path = MemberPath(where, "job_to_label_mapping");
  if (!mapping->is_object()) {
    return WrongMemberType(path, "an object of lists of label selectors", *mapping);
  }
  for (const auto& [job, value] : mapping->items()) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> selectors,
                              Selectors(value, MemberPath(path, job)));
    arguments.job_to_label_mapping.emplace_back(job, std::move(selectors));
  }
  return arguments;
}

absl::Status CheckUnion(const OrderedJson& description, absl::string_view where) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(description, {"resolvers"}, where));
  return Required(description, "resolvers", where).status();
}

}  // namespace

ArgumentRules OurArgumentRules() {
  return {.static_cluster = StaticCluster,
          .tf_config = TfConfig,
          .sagemaker = SageMaker,
          .gce = Gce,
          .check_slurm = CheckSlurm,
          .kubernetes = Kubernetes,
          .check_union = CheckUnion,
          .check_made_union = [](const OrderedJson&) { return absl::OkStatus(); }};
}

}  // namespace millrace
