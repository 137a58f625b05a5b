#include "resolver/resolver_from_json.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/cluster_spec.h"
#include "millrace/slurm_resolver.h"
#include "millrace/static_resolver.h"
#include "millrace/status_macros.h"
#include "millrace/tf_config_resolver.h"
#include "millrace/union_resolver.h"
#include "resolver/tensorflow/tensorflow_arguments.h"

namespace millrace {
namespace {

using Members = OrderedJson::object_t;

std::string PathOf(absl::string_view where, absl::string_view key) {
  return where.empty() ? std::string(key) : absl::StrCat(where, ".", key);
}

absl::Status WrongType(absl::string_view path, absl::string_view wanted, const OrderedJson& found) {
  return absl::InvalidArgumentError(
      absl::StrCat("field \"", path, "\" must be ", wanted, ", found ", JsonTypeName(found)));
}

// The member, or null if it is absent or null.
const OrderedJson* Find(const OrderedJson& description, const std::string& key) {
  const auto found = description.find(key);
  return found == description.end() || found->is_null() ? nullptr : &*found;
}

bool Has(const OrderedJson& description, const std::string& key) {
  return description.contains(key);
}

absl::StatusOr<std::optional<std::string>> OptionalText(const OrderedJson& description,
                                                        const std::string& key,
                                                        absl::string_view where) {
  const OrderedJson* value = Find(description, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return WrongType(PathOf(where, key), "a string", *value);
  return value->get<std::string>();
}

absl::StatusOr<int> ToInt(const OrderedJson& value, absl::string_view path) {
  if (!value.is_number_integer()) return WrongType(path, "an integer", value);
  constexpr int64_t kMin = std::numeric_limits<int>::min();
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{kMax}
                                               : value.get<int64_t>() >= kMin;
  if (fits) return static_cast<int>(value.get<int64_t>());
  return absl::InvalidArgumentError(absl::StrCat("field \"", path, "\" must be in ", kMin, "..",
                                                 kMax, ", found ", DumpJson(value)));
}

absl::StatusOr<std::optional<int>> OptionalInt(const OrderedJson& description,
                                               const std::string& key, absl::string_view where) {
  const OrderedJson* value = Find(description, key);
  if (value == nullptr) return std::nullopt;
  return ToInt(*value, PathOf(where, key));
}

// {"name": number, ...} in order.
absl::StatusOr<std::vector<std::pair<std::string, int>>> NumbersByName(const OrderedJson& value,
                                                                       absl::string_view path) {
  if (!value.is_object()) return WrongType(path, "an object", value);
  std::vector<std::pair<std::string, int>> numbers;
  for (const auto& [name, number] : value.get_ref<const Members&>()) {
    MILLRACE_ASSIGN_OR_RETURN(const int read, ToInt(number, PathOf(path, name)));
    numbers.emplace_back(name, read);
  }
  return numbers;
}

absl::StatusOr<ClusterSpec> RequiredClusterSpec(const OrderedJson& description,
                                                const std::string& key, absl::string_view where) {
  const std::string path = PathOf(where, key);
  const OrderedJson* value = Find(description, key);
  if (value == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", path, "\" is missing"));
  }
  absl::StatusOr<ClusterSpec> spec = ClusterSpecFromJson(*value);
  if (!spec.ok()) return Annotate(spec.status(), absl::StrCat("field \"", path, "\""));
  return spec;
}

using MadeResolver = absl::StatusOr<std::unique_ptr<ClusterResolver>>;

MadeResolver MakeStatic(const OrderedJson& description, ResolverBehavior behavior,
                        absl::string_view where, const ResolverMakers&) {
  StaticResolverOptions options;
  options.behavior = behavior;
  if (behavior == ResolverBehavior::kTensorFlow) {
    MILLRACE_ASSIGN_OR_RETURN(options.cluster_spec, ReadTensorFlowStaticCluster(description));
  } else {
    MILLRACE_RETURN_IF_ERROR(CheckMembers(
        description, {"cluster_spec", "master", "environment", "num_accelerators"}, where));
    MILLRACE_ASSIGN_OR_RETURN(options.cluster_spec,
                              RequiredClusterSpec(description, "cluster_spec", where));
  }
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  MILLRACE_ASSIGN_OR_RETURN(const auto master, OptionalText(description, "master", where));
  options.master = master.value_or("");
  MILLRACE_ASSIGN_OR_RETURN(const auto environment,
                            OptionalText(description, "environment", where));
  options.environment = environment.value_or("");
  if (const OrderedJson* counts = Find(description, "num_accelerators"); counts != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(const auto read,
                              NumbersByName(*counts, PathOf(where, "num_accelerators")));
    options.num_accelerators.emplace(read.begin(), read.end());
  }
  return StaticResolver::Create(std::move(options));
}

MadeResolver MakeTfConfig(const OrderedJson& description, ResolverBehavior behavior,
                          absl::string_view where, const ResolverMakers&) {
  TfConfigResolverOptions options;
  options.behavior = behavior;
  if (behavior == ResolverBehavior::kTensorFlow) {
    MILLRACE_ASSIGN_OR_RETURN(const OrderedJson converted,
                              ConvertTensorFlowTfConfigArguments(description));
    MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(converted, where));
  } else {
    MILLRACE_RETURN_IF_ERROR(CheckMembers(description, {"environment"}, where));
    MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  }
  MILLRACE_ASSIGN_OR_RETURN(options.environment, OptionalText(description, "environment", where));
  return TfConfigResolver::Create(std::move(options));
}

MadeResolver MakeSlurm(const OrderedJson& description, ResolverBehavior behavior,
                       absl::string_view where, const ResolverMakers&) {
  SlurmResolverOptions options;
  options.behavior = behavior;
  if (behavior == ResolverBehavior::kTensorFlow) {
    MILLRACE_RETURN_IF_ERROR(CheckTensorFlowSlurmArguments(description));
  } else {
    MILLRACE_RETURN_IF_ERROR(CheckMembers(
        description,
        {"jobs", "port_base", "gpus_per_node", "gpus_per_task", "tasks_per_node", "auto_set_gpu"},
        where));
  }
  MILLRACE_ASSIGN_OR_RETURN(const TaskProperties properties,
                            ReadTaskProperties(description, where));
  options.task_type = properties.task_type;
  options.task_id = properties.task_id;
  if (Has(description, "rpc_layer")) options.rpc_layer = properties.rpc_layer;
  if (const OrderedJson* jobs = Find(description, "jobs"); jobs != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(options.jobs, NumbersByName(*jobs, PathOf(where, "jobs")));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto port_base, OptionalInt(description, "port_base", where));
  options.port_base = port_base.value_or(options.port_base);
  MILLRACE_ASSIGN_OR_RETURN(options.gpus_per_node,
                            OptionalInt(description, "gpus_per_node", where));
  MILLRACE_ASSIGN_OR_RETURN(options.gpus_per_task,
                            OptionalInt(description, "gpus_per_task", where));
  if (const OrderedJson* tasks = Find(description, "tasks_per_node"); tasks != nullptr) {
    const std::string path = PathOf(where, "tasks_per_node");
    if (tasks->is_object()) {
      MILLRACE_ASSIGN_OR_RETURN(options.tasks_per_node, NumbersByName(*tasks, path));
    } else if (tasks->is_number_integer()) {
      MILLRACE_ASSIGN_OR_RETURN(options.tasks_per_node, ToInt(*tasks, path));
    } else {
      return WrongType(path, "an integer or an object", *tasks);
    }
  }
  if (const OrderedJson* set = Find(description, "auto_set_gpu"); set != nullptr) {
    if (!set->is_boolean()) return WrongType(PathOf(where, "auto_set_gpu"), "a boolean", *set);
    options.auto_set_gpu = set->get<bool>();
  }
  return SlurmResolver::Create(std::move(options));
}

MadeResolver MakeUnion(const OrderedJson& description, ResolverBehavior behavior,
                       absl::string_view where, const ResolverMakers& makers) {
  const bool tensorflow = behavior == ResolverBehavior::kTensorFlow;
  if (!tensorflow) MILLRACE_RETURN_IF_ERROR(CheckMembers(description, {"resolvers"}, where));
  UnionResolverOptions options;
  options.behavior = behavior;
  const std::string path = PathOf(where, "resolvers");
  const OrderedJson* parts = Find(description, "resolvers");
  if (parts == nullptr && !tensorflow) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", path, "\" is missing"));
  }
  if (parts != nullptr && !parts->is_array()) return WrongType(path, "an array", *parts);
  for (size_t i = 0; parts != nullptr && i < parts->size(); ++i) {
    const OrderedJson& part = (*parts)[i];
    std::unique_ptr<ClusterResolver> resolver;
    // What is no object stays null, for which the union has an error of its own.
    if (part.is_object() || !tensorflow) {
      MILLRACE_ASSIGN_OR_RETURN(
          resolver, ResolverFromJson(part, makers, behavior, absl::StrCat(path, "[", i, "]")));
    }
    options.resolvers.push_back(std::move(resolver));
  }
  if (tensorflow) MILLRACE_RETURN_IF_ERROR(CheckTensorFlowUnionKeywords(description));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  return UnionResolver::Create(std::move(options));
}

}  // namespace

ResolverMakers BasicResolverMakers() {
  return {.by_type = {{"static", MakeStatic},
                      {"tf_config", MakeTfConfig},
                      {"slurm", MakeSlurm},
                      {"union", MakeUnion}}};
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> ResolverFromJson(const OrderedJson& description,
                                                                  const ResolverMakers& makers,
                                                                  ResolverBehavior behavior,
                                                                  absl::string_view where) {
  if (!description.is_object()) {
    return where.empty() ? absl::InvalidArgumentError(
                               absl::StrCat("a resolver's description must be an object, found ",
                                            JsonTypeName(description)))
                         : WrongType(where, "an object", description);
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> type,
                            OptionalText(description, "type", where));
  const auto maker = makers.by_type.find(type.value_or(""));
  if (maker != makers.by_type.end()) return maker->second(description, behavior, where, makers);
  const auto append_name = [](std::string* out, const auto& known) { out->append(known.first); };
  return absl::InvalidArgumentError(
      absl::StrCat("field \"", PathOf(where, "type"), "\" must be one of ",
                   absl::StrJoin(makers.by_type, ", ", append_name), ", found ",
                   type.has_value() ? PythonRepr(*type) : "nothing"));
}

absl::StatusOr<TaskProperties> ReadTaskProperties(const OrderedJson& description,
                                                  absl::string_view where) {
  TaskProperties properties;
  MILLRACE_ASSIGN_OR_RETURN(properties.task_type, OptionalText(description, "task_type", where));
  MILLRACE_ASSIGN_OR_RETURN(properties.task_id, OptionalInt(description, "task_id", where));
  MILLRACE_ASSIGN_OR_RETURN(properties.rpc_layer, OptionalText(description, "rpc_layer", where));
  return properties;
}

absl::Status CheckMembers(const OrderedJson& description,
                          const std::vector<absl::string_view>& known, absl::string_view where) {
  for (const auto& [key, value] : description.get_ref<const Members&>()) {
    if (key == "type" || key == "task_type" || key == "task_id" || key == "rpc_layer") continue;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "field \"", PathOf(where, key), "\" is not known; there are ", absl::StrJoin(known, ", "),
        known.empty() ? "" : ", ", "task_type, task_id, rpc_layer"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
