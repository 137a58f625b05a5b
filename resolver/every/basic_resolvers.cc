#include "resolver/every/basic_resolvers.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/cluster_resolver.h"
#include "millrace/resolver_base.h"
#include "millrace/sagemaker_resolver.h"
#include "millrace/slurm_resolver.h"
#include "millrace/static_resolver.h"
#include "millrace/status_macros.h"
#include "millrace/tf_config_resolver.h"
#include "millrace/union_resolver.h"
#include "resolver/argument_rules.h"
#include "resolver/description_members.h"
#include "resolver/every/argument_rules_of.h"

namespace millrace {
namespace {

using Members = OrderedJson::object_t;

// {"name": number, ...} in order.
absl::StatusOr<std::vector<std::pair<std::string, int>>> NumbersByName(const OrderedJson& value,
                                                                       absl::string_view path) {
  if (!value.is_object()) return WrongMemberType(path, "an object", value);
  std::vector<std::pair<std::string, int>> numbers;
  for (const auto& [name, number] : value.get_ref<const Members&>()) {
    MILLRACE_ASSIGN_OR_RETURN(const int read, IntFrom(number, MemberPath(path, name)));
    numbers.emplace_back(name, read);
  }
  return numbers;
}

using MadeResolver = absl::StatusOr<std::unique_ptr<ClusterResolver>>;

MadeResolver MakeStatic(const OrderedJson& description, ResolverBehavior behavior,
                        absl::string_view where, const ResolverMakers&) {
  StaticResolverOptions options;
  options.behavior = behavior;
  MILLRACE_ASSIGN_OR_RETURN(options.cluster_spec,
                            ArgumentRulesOf(behavior).static_cluster(description, where));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  MILLRACE_ASSIGN_OR_RETURN(const auto master, OptionalTextMember(description, "master", where));
  options.master = master.value_or("");
  MILLRACE_ASSIGN_OR_RETURN(const auto environment,
                            OptionalTextMember(description, "environment", where));
  options.environment = environment.value_or("");
  if (const OrderedJson* counts = FindMember(description, "num_accelerators"); counts != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(const auto read,
                              NumbersByName(*counts, MemberPath(where, "num_accelerators")));
    options.num_accelerators.emplace(read.begin(), read.end());
  }
  return StaticResolver::Create(std::move(options));
}

MadeResolver MakeTfConfig(const OrderedJson& description, ResolverBehavior behavior,
                          absl::string_view where, const ResolverMakers&) {
  TfConfigResolverOptions options;
  options.behavior = behavior;
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson arguments,
                            ArgumentRulesOf(behavior).tf_config(description, where));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(arguments, where));
  MILLRACE_ASSIGN_OR_RETURN(options.environment,
                            OptionalTextMember(description, "environment", where));
  return TfConfigResolver::Create(std::move(options));
}

MadeResolver MakeSageMaker(const OrderedJson& description, ResolverBehavior behavior,
                           absl::string_view where, const ResolverMakers&) {
  SageMakerResolverOptions options;
  options.behavior = behavior;
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson arguments,
                            ArgumentRulesOf(behavior).sagemaker(description, where));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(arguments, where));
  MILLRACE_ASSIGN_OR_RETURN(const auto port, OptionalIntMember(arguments, "port", where));
  options.port = port.value_or(options.port);
  MILLRACE_ASSIGN_OR_RETURN(options.port_text, OptionalTextMember(arguments, "port_text", where));
  MILLRACE_ASSIGN_OR_RETURN(options.environment,
                            OptionalTextMember(arguments, "environment", where));
  return SageMakerResolver::Create(std::move(options));
}

MadeResolver MakeSlurm(const OrderedJson& description, ResolverBehavior behavior,
                       absl::string_view where, const ResolverMakers&) {
  SlurmResolverOptions options;
  options.behavior = behavior;
  MILLRACE_RETURN_IF_ERROR(ArgumentRulesOf(behavior).check_slurm(description, where));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  if (description.contains("rpc_layer") && description["rpc_layer"].is_null()) {
    options.properties.rpc_layer = "";
  }
  if (const OrderedJson* jobs = FindMember(description, "jobs"); jobs != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(options.jobs, NumbersByName(*jobs, MemberPath(where, "jobs")));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto port_base,
                            OptionalIntMember(description, "port_base", where));
  options.port_base = port_base.value_or(options.port_base);
  MILLRACE_ASSIGN_OR_RETURN(options.gpus_per_node,
                            OptionalIntMember(description, "gpus_per_node", where));
  MILLRACE_ASSIGN_OR_RETURN(options.gpus_per_task,
                            OptionalIntMember(description, "gpus_per_task", where));
  if (const OrderedJson* tasks = FindMember(description, "tasks_per_node"); tasks != nullptr) {
    const std::string path = MemberPath(where, "tasks_per_node");
    if (tasks->is_object()) {
      MILLRACE_ASSIGN_OR_RETURN(options.tasks_per_node, NumbersByName(*tasks, path));
    } else if (tasks->is_number_integer()) {
      MILLRACE_ASSIGN_OR_RETURN(options.tasks_per_node, IntFrom(*tasks, path));
    } else {
      return WrongMemberType(path, "an integer or an object", *tasks);
    }
  }
  if (const OrderedJson* set = FindMember(description, "auto_set_gpu"); set != nullptr) {
    if (!set->is_boolean())
      return WrongMemberType(MemberPath(where, "auto_set_gpu"), "a boolean", *set);
    options.auto_set_gpu = set->get<bool>();
  }
  return SlurmResolver::Create(std::move(options));
}

MadeResolver MakeUnion(const OrderedJson& description, ResolverBehavior behavior,
                       absl::string_view where, const ResolverMakers& makers) {
  const ArgumentRules rules = ArgumentRulesOf(behavior);
  MILLRACE_RETURN_IF_ERROR(rules.check_union(description, where));
  UnionResolverOptions options;
  options.behavior = behavior;
  const std::string path = MemberPath(where, "resolvers");
  const OrderedJson* parts = FindMember(description, "resolvers");
  if (parts != nullptr && !parts->is_array()) return WrongMemberType(path, "an array", *parts);
  for (size_t i = 0; parts != nullptr && i < parts->size(); ++i) {
    const OrderedJson& part = (*parts)[i];
    std::unique_ptr<ClusterResolver> resolver;
    // What is no object stays null, for which the union has an error of its own.
    if (part.is_object() || !rules.parts_may_be_null) {
      MILLRACE_ASSIGN_OR_RETURN(
          resolver, ResolverFromJson(part, makers, behavior, absl::StrCat(path, "[", i, "]")));
    }
    options.resolvers.push_back(std::move(resolver));
  }
  MILLRACE_RETURN_IF_ERROR(rules.check_made_union(description));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  return UnionResolver::Create(std::move(options));
}

}  // namespace

ResolverMakers BasicResolverMakers() {
  return {.by_type = {{"static", MakeStatic},
                      {"tf_config", MakeTfConfig},
                      {"sagemaker", MakeSageMaker},
                      {"slurm", MakeSlurm},
                      {"union", MakeUnion}}};
}

}  // namespace millrace
