#include "resolver/tensorflow/tensorflow_arguments.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/status_macros.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_cluster_spec.h"

namespace millrace {
namespace {

using Members = OrderedJson::object_t;

// The member, or null if it is absent or null.
const OrderedJson* Find(const OrderedJson& description, const std::string& key) {
  const auto found = description.find(key);
  return found == description.end() || found->is_null() ? nullptr : &*found;
}

// The TypeError for an argument that the constructor does not have.
absl::Status CheckNames(const OrderedJson& description, absl::string_view python_class,
                        const std::vector<absl::string_view>& known) {
  for (const auto& [key, value] : description.get_ref<const Members&>()) {
    if (key == "type" || std::find(known.begin(), known.end(), key) != known.end()) continue;
    return PythonError("TypeError",
                       absl::StrCat(python_class, ".__init__() got an unexpected keyword argument ",
                                    PythonRepr(key)));
  }
  return absl::OkStatus();
}

// The TypeError for required arguments that are not there.
absl::Status CheckRequired(const OrderedJson& description, absl::string_view python_class,
                           const std::vector<std::string>& required) {
  std::vector<std::string> missing;
  for (const std::string& name : required) {
    if (!description.contains(name)) missing.push_back(PythonRepr(name));
  }
  if (missing.empty()) return absl::OkStatus();
  std::string names = missing.front();
  for (size_t i = 1; i < missing.size(); ++i) {
    absl::StrAppend(&names, missing.size() > 2 ? "," : "", i + 1 == missing.size() ? " and " : " ",
                    missing[i]);
  }
  return PythonError("TypeError", absl::StrCat(python_class, ".__init__() missing ", missing.size(),
                                               " required positional argument",
                                               missing.size() > 1 ? "s: " : ": ", names));
}

// The exceptions of sum(jobs.values()).
absl::Status CheckSlurmJobs(const OrderedJson& jobs) {
  if (!jobs.is_object()) {
    return PythonError("AttributeError", absl::StrCat("'", PythonTypeName(jobs),
                                                      "' object has no attribute 'values'"));
  }
  for (const auto& [job, count] : jobs.get_ref<const Members&>()) {
    if (count.is_number() || count.is_boolean()) continue;
    return PythonError("TypeError", absl::StrCat("unsupported operand type(s) for +: 'int' and '",
                                                 PythonTypeName(count), "'"));
  }
  return absl::OkStatus();
}

// What Python's `for selector in value` gives.
absl::StatusOr<std::vector<std::string>> Iterate(const OrderedJson& value) {
  std::vector<std::string> selectors;
  if (value.is_string()) {
    absl::string_view text = value.get_ref<const std::string&>();
    while (!text.empty()) {
      const size_t size = std::max<size_t>(1, Utf8SequenceLength(text));
      selectors.emplace_back(text.substr(0, size));
      text.remove_prefix(size);
    }
    return selectors;
  }
  if (value.is_object()) {
    for (const auto& [key, unused] : value.items()) selectors.push_back(key);
    return selectors;
  }
  if (!value.is_array()) {
    return PythonError("TypeError",
                       absl::StrCat("'", PythonTypeName(value), "' object is not iterable"));
  }
  for (const OrderedJson& selector : value) {
    // A client makes text of whatever it is given.
    selectors.push_back(PythonStrOf(selector));
  }
  return selectors;
}

// What a dict's iteration and lookups raise for something else.
absl::Status NoDict(const OrderedJson& mapping) {
  if (mapping.is_array()) {
    return PythonError("TypeError", "list indices must be integers or slices, not str");
  }
  if (mapping.is_string()) {
    return PythonError("TypeError", "string indices must be integers, not 'str'");
  }
  return PythonError("TypeError",
                     absl::StrCat("'", PythonTypeName(mapping), "' object is not iterable"));
}

absl::Status CheckLocation(const OrderedJson& description) {
  const OrderedJson* location = Find(description, "executable_location");
  if (location == nullptr) return absl::OkStatus();
  const std::string word = location->is_string() ? location->get<std::string>() : "";
  if (word == "automatic" || word == "within_cluster" || word == "off_cluster") {
    return absl::OkStatus();
  }
  return PythonError("ValueError", "The executable location provided is invalid.");
}

absl::StatusOr<ClusterSpec> StaticCluster(const OrderedJson& description, absl::string_view) {
  MILLRACE_RETURN_IF_ERROR(CheckNames(description, "SimpleClusterResolver",
                                      {"cluster_spec", "master", "task_type", "task_id",
                                       "environment", "num_accelerators", "rpc_layer"}));
  MILLRACE_RETURN_IF_ERROR(CheckRequired(description, "SimpleClusterResolver", {"cluster_spec"}));
  const OrderedJson* cluster = Find(description, "cluster_spec");
  if (cluster == nullptr || !cluster->is_object()) {
    return PythonError("TypeError", "cluster_spec must be a `tf.train.ClusterSpec`.");
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto read, TensorFlowClusterSpec::FromJson(*cluster));
  MILLRACE_ASSIGN_OR_RETURN(ClusterSpec spec, read.ToClusterSpec());
  if (const auto master = description.find("master");
      master != description.end() && !master->is_string()) {
    return PythonError("TypeError", "master must be a string.");
  }
  return spec;
}

// The description with str(task_type) and int(task_id).
absl::StatusOr<OrderedJson> WithTaskConverted(const OrderedJson& description) {
  OrderedJson converted = description;
  if (const OrderedJson* type = Find(description, "task_type"); type != nullptr) {
    converted["task_type"] = PythonStrOf(*type);
  }
  if (const OrderedJson* id = Find(description, "task_id"); id != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t number, PythonIntOf(*id));
    converted["task_id"] = number;
  }
  return converted;
}

// Moves a port of any type to where its text is looked for.
void MakePortText(OrderedJson* description) {
  const auto port = description->find("port");
  if (port == description->end()) return;
  (*description)["port_text"] = PythonStrOf(*port);
  description->erase("port");
}

absl::StatusOr<OrderedJson> TfConfig(const OrderedJson& description, absl::string_view) {
  MILLRACE_RETURN_IF_ERROR(CheckNames(description, "TFConfigClusterResolver",
                                      {"task_type", "task_id", "rpc_layer", "environment"}));
  return WithTaskConverted(description);
}

absl::StatusOr<OrderedJson> SageMaker(const OrderedJson& description, absl::string_view) {
  MILLRACE_RETURN_IF_ERROR(
      CheckNames(description, "SageMakerClusterResolver",
                 {"port", "task_type", "task_id", "rpc_layer", "environment"}));
  MILLRACE_ASSIGN_OR_RETURN(OrderedJson converted, WithTaskConverted(description));
  MakePortText(&converted);
  return converted;
}

absl::StatusOr<OrderedJson> Gce(const OrderedJson& description, absl::string_view) {
  MILLRACE_RETURN_IF_ERROR(
      CheckNames(description, "GCEClusterResolver",
                 {"project", "zone", "instance_group", "port", "task_type", "task_id", "rpc_layer",
                  "token_file", "api_url", "metadata_url", "ca_file", "timeout_s"}));
  MILLRACE_RETURN_IF_ERROR(CheckRequired(description, "GCEClusterResolver",
                                         {"project", "zone", "instance_group", "port"}));
  OrderedJson converted = description;
  MakePortText(&converted);
  return converted;
}

absl::Status CheckSlurm(const OrderedJson& description, absl::string_view) {
  MILLRACE_RETURN_IF_ERROR(CheckNames(description, "SlurmClusterResolver",
                                      {"jobs", "port_base", "gpus_per_node", "gpus_per_task",
                                       "tasks_per_node", "auto_set_gpu", "rpc_layer"}));
  const OrderedJson* jobs = Find(description, "jobs");
  return jobs == nullptr ? absl::OkStatus() : CheckSlurmJobs(*jobs);
}

// Those that it does not know, as the dict that it prints.
absl::Status CheckUnionKeywords(const OrderedJson& description) {
  OrderedJson unexpected = OrderedJson::object();
  for (const auto& [key, value] : description.get_ref<const Members&>()) {
    if (key != "type" && key != "resolvers" && key != "rpc_layer" && key != "task_type" &&
        key != "task_id") {
      unexpected[key] = value;
    }
  }
  if (unexpected.empty()) return absl::OkStatus();
  return PythonError("ValueError",
                     absl::StrCat("Unexpected kwargs provided ", PythonReprOf(unexpected)));
}

// `known` are the members that our resolver has beyond the task's properties; TensorFlow's would
// refuse most of them.
absl::StatusOr<KubernetesArguments> Kubernetes(const OrderedJson& description,
                                               std::span<const absl::string_view> known,
                                               absl::string_view) {
  std::vector<absl::string_view> names(known.begin(), known.end());
  names.insert(names.end(), {"rpc_layer", "task_type", "task_id"});
  MILLRACE_RETURN_IF_ERROR(CheckNames(description, "KubernetesClusterResolver", names));

  KubernetesArguments arguments;
  const std::string mapping_key = "job_to_label_mapping";
  const std::string port_key = "tf_server_port";
  if (const OrderedJson* mapping = Find(description, mapping_key);
      mapping != nullptr && PythonTruth(*mapping)) {
    if (!mapping->is_object()) return NoDict(*mapping);
    for (const auto& [job, value] : mapping->items()) {
      MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> selectors, Iterate(value));
      arguments.job_to_label_mapping.emplace_back(job, std::move(selectors));
    }
  }
  MILLRACE_RETURN_IF_ERROR(CheckLocation(description));
  arguments.rest = description;
  arguments.rest.erase(mapping_key);
  if (const auto port = description.find(port_key); port != description.end()) {
    arguments.tf_server_port_text = PythonStrOf(*port);
    arguments.rest.erase(port_key);
  }
  if (const OrderedJson* layer = Find(description, "rpc_layer"); layer != nullptr) {
    arguments.rest["rpc_layer"] = PythonTruth(*layer) ? PythonStrOf(*layer) : "";
  }
  return arguments;
}

}  // namespace

ArgumentRules TensorFlowArgumentRules() {
  return {
      .static_cluster = StaticCluster,
      .tf_config = TfConfig,
      .sagemaker = SageMaker,
      .gce = Gce,
      .check_slurm = CheckSlurm,
      .kubernetes = Kubernetes,
      .check_union = [](const OrderedJson&, absl::string_view) { return absl::OkStatus(); },
      .check_made_union = CheckUnionKeywords,
      .parts_may_be_null = true,
  };
}

}  // namespace millrace
