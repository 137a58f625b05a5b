#include "resolver/kubernetes/kubernetes_resolver_from_json.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/pod_port.h"
#include "millrace/resolver_base.h"
#include "millrace/status_macros.h"
#include "resolver/kubernetes/pod_cluster.h"
#include "resolver/kubernetes/pod_member.h"
#include "resolver/tensorflow/python_value.h"

namespace millrace {
namespace {

constexpr absl::string_view kMembers[] = {
    "job_to_label_mapping", "tf_server_port",      "ports",          "address",
    "cluster_domain",       "namespace",           "all_namespaces", "completeness",
    "expected_tasks",       "wait_timeout_s",      "require_ready",  "timeout_s",
    "max_backoff_s",        "executable_location", "kubeconfig",     "context"};

std::string Path(absl::string_view where, absl::string_view key) {
  return where.empty() ? std::string(key) : absl::StrCat(where, ".", key);
}

absl::Status WrongType(absl::string_view path, absl::string_view must, const OrderedJson& found) {
  return absl::InvalidArgumentError(absl::StrCat("field \"", EscapeControls(path), "\" must be ",
                                                 must, ", found ", JsonTypeName(found)));
}

// The member, or null if it is absent or null.
const OrderedJson* Find(const OrderedJson& object, absl::string_view key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// One of several words, each for a value.
template <typename Value>
absl::Status ReadWord(const Json& object, absl::string_view key, absl::string_view where,
                      const std::vector<std::pair<absl::string_view, Value>>& words, Value* value) {
  if (object.find(key) == object.end() || object.find(key)->is_null()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::string word, GetString(object, key, where));
  for (const auto& [name, meaning] : words) {
    if (word == name) {
      *value = meaning;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "field \"", Path(where, key), "\" must be one of ",
      absl::StrJoin(words, ", ",
                    [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); }),
      "; found \"", EscapeControls(Ellipsize(word, 100)), "\""));
}

absl::Status ReadSeconds(const Json& object, absl::string_view key, absl::string_view where,
                         absl::Duration* duration) {
  MILLRACE_ASSIGN_OR_RETURN(const double seconds,
                            GetDoubleOr(object, key, absl::ToDoubleSeconds(*duration), where));
  if (!(seconds > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", Path(where, key), "\" must be above 0 seconds, found ", seconds));
  }
  *duration = absl::Seconds(seconds);
  return absl::OkStatus();
}

// What Python's `for selector in value` gives.
absl::StatusOr<std::vector<std::string>> IterateAsPython(const OrderedJson& value) {
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
  const absl::string_view type = PythonTypeName(mapping);
  if (mapping.is_array()) {
    return PythonError("TypeError", "list indices must be integers or slices, not str");
  }
  if (mapping.is_string()) {
    return PythonError("TypeError", "string indices must be integers, not 'str'");
  }
  return PythonError("TypeError", absl::StrCat("'", type, "' object is not iterable"));
}

absl::Status ReadMapping(const OrderedJson& description, absl::string_view where, bool tensorflow,
                         KubernetesResolver::Options* options) {
  constexpr absl::string_view kKey = "job_to_label_mapping";
  const OrderedJson* mapping = Find(description, kKey);
  if (mapping == nullptr || (tensorflow && !PythonTruth(*mapping))) return absl::OkStatus();
  const std::string path = Path(where, kKey);
  if (!mapping->is_object()) {
    return tensorflow ? NoDict(*mapping)
                      : WrongType(path, "an object of lists of label selectors", *mapping);
  }
  for (const auto& [job, value] : mapping->items()) {
    std::vector<std::string> selectors;
    if (tensorflow) {
      MILLRACE_ASSIGN_OR_RETURN(selectors, IterateAsPython(value));
    } else if (value.is_string()) {
      selectors.push_back(value.get<std::string>());
    } else if (!value.is_array()) {
      return WrongType(Path(path, job), "a list of label selectors", value);
    } else {
      for (const OrderedJson& selector : value) {
        if (!selector.is_string()) {
          return WrongType(absl::StrCat(Path(path, job), "[", selectors.size(), "]"),
                           "a label selector", selector);
        }
        selectors.push_back(selector.get<std::string>());
      }
    }
    options->job_to_label_mapping.emplace_back(job, std::move(selectors));
  }
  return absl::OkStatus();
}

absl::StatusOr<PodPort> ReadPort(const Json& value, const std::string& path) {
  if (value.is_number_integer() || value.is_string()) {
    const absl::StatusOr<PodPort> port =
        PodPort::Parse(value.is_string() ? value.get<std::string>() : DumpJson(value));
    if (!port.ok()) return Annotate(port.status(), absl::StrCat("field \"", path, "\""));
    return port;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("field \"", path,
                   "\" must be a port: a number, the name of a container port, or "
                   "annotation:KEY; found ",
                   JsonTypeName(value)));
}

absl::Status ReadJobs(const Json& object, absl::string_view where,
                      KubernetesResolver::Options* options) {
  if (const auto ports = object.find("ports"); ports != object.end() && !ports->is_null()) {
    MILLRACE_RETURN_IF_ERROR(GetObject(object, "ports", where));
    for (const auto& [job, value] : ports->items()) {
      MILLRACE_ASSIGN_OR_RETURN(PodPort port, ReadPort(value, Path(Path(where, "ports"), job)));
      options->ports.emplace(job, std::move(port));
    }
  }
  if (const auto tasks = object.find("expected_tasks");
      tasks != object.end() && !tasks->is_null()) {
    MILLRACE_RETURN_IF_ERROR(GetObject(object, "expected_tasks", where));
    for (const auto& [job, value] : tasks->items()) {
      MILLRACE_ASSIGN_OR_RETURN(const int64_t count,
                                GetIntInRange(*tasks, job, 0, std::numeric_limits<int>::max(),
                                              Path(where, "expected_tasks")));
      options->expected_tasks.emplace(job, static_cast<int>(count));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadLocation(const Json& object, absl::string_view where, bool tensorflow,
                          ExecutableLocation* location) {
  const absl::Status status =
      ReadWord<ExecutableLocation>(object, "executable_location", where,
                                   {{"automatic", ExecutableLocation::kAutomatic},
                                    {"within_cluster", ExecutableLocation::kWithinCluster},
                                    {"off_cluster", ExecutableLocation::kOffCluster}},
                                   location);
  if (status.ok() || !tensorflow) return status;
  return PythonError("ValueError", "The executable location provided is invalid.");
}

absl::Status ReadRest(const Json& object, absl::string_view where, bool tensorflow,
                      KubernetesResolver::Options* options) {
  MILLRACE_RETURN_IF_ERROR(ReadJobs(object, where, options));
  if (object.contains("tf_server_port") && !object["tf_server_port"].is_null()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t port,
                              GetIntInRange(object, "tf_server_port", 1, 65535, where));
    options->tf_server_port = static_cast<int>(port);
  }
  MILLRACE_RETURN_IF_ERROR(ReadLocation(object, where, tensorflow, &options->executable_location));
  MILLRACE_RETURN_IF_ERROR(ReadWord<PodAddress>(
      object, "address", where,
      {{"pod_ip", PodAddress::kPodIp}, {"host_ip", PodAddress::kHostIp}, {"dns", PodAddress::kDns}},
      &options->address));
  MILLRACE_RETURN_IF_ERROR(ReadWord<PodCompleteness>(object, "completeness", where,
                                                     {{"require_all", PodCompleteness::kRequireAll},
                                                      {"wait", PodCompleteness::kWait},
                                                      {"available", PodCompleteness::kAvailable}},
                                                     &options->completeness));
  MILLRACE_ASSIGN_OR_RETURN(options->cluster_domain,
                            GetStringOr(object, "cluster_domain", options->cluster_domain, where));
  MILLRACE_ASSIGN_OR_RETURN(options->namespace_name, GetStringOr(object, "namespace", "", where));
  MILLRACE_ASSIGN_OR_RETURN(options->kubeconfig, GetStringOr(object, "kubeconfig", "", where));
  MILLRACE_ASSIGN_OR_RETURN(options->context, GetStringOr(object, "context", "", where));
  MILLRACE_ASSIGN_OR_RETURN(options->all_namespaces,
                            GetBoolOr(object, "all_namespaces", false, where));
  MILLRACE_ASSIGN_OR_RETURN(options->require_ready,
                            GetBoolOr(object, "require_ready", false, where));
  MILLRACE_RETURN_IF_ERROR(ReadSeconds(object, "wait_timeout_s", where, &options->wait_timeout));
  MILLRACE_RETURN_IF_ERROR(ReadSeconds(object, "timeout_s", where, &options->timeout));
  return ReadSeconds(object, "max_backoff_s", where, &options->max_backoff);
}

// With kTensorFlow: the TypeError of the constructor for an argument that it does not have, beyond
// those that only we have.
absl::Status CheckArguments(const OrderedJson& description) {
  for (const auto& [key, value] : description.items()) {
    if (key == "type" || key == "rpc_layer" || key == "task_type" || key == "task_id" ||
        std::find(std::begin(kMembers), std::end(kMembers), key) != std::end(kMembers)) {
      continue;
    }
    return PythonError(
        "TypeError", absl::StrCat("KubernetesClusterResolver.__init__() got an unexpected keyword "
                                  "argument ",
                                  PythonRepr(key)));
  }
  return absl::OkStatus();
}

// With kTensorFlow: arguments that are only ever made text of may be of any type.
void TakeAnyType(Json* object, KubernetesResolver::Options* options) {
  if (const auto port = object->find("tf_server_port"); port != object->end()) {
    options->tf_server_port_text = PythonStrOf(OrderedJson(*port));
    object->erase(port);
  }
  if (const auto layer = object->find("rpc_layer"); layer != object->end() && !layer->is_null()) {
    const OrderedJson value(*layer);
    *layer = PythonTruth(value) ? PythonStrOf(value) : "";
  }
}

}  // namespace

absl::StatusOr<KubernetesResolver::Options> KubernetesOptionsFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where) {
  if (!description.is_object()) {
    return WrongType(where.empty() ? "description" : where, "an object", description);
  }
  const bool tensorflow = behavior == ResolverBehavior::kTensorFlow;
  if (tensorflow) {
    MILLRACE_RETURN_IF_ERROR(CheckArguments(description));
  } else {
    MILLRACE_RETURN_IF_ERROR(CheckMembers(
        description, std::vector<absl::string_view>(std::begin(kMembers), std::end(kMembers)),
        where));
  }
  KubernetesResolver::Options options;
  options.behavior = behavior;
  MILLRACE_RETURN_IF_ERROR(ReadMapping(description, where, tensorflow, &options));
  Json object = description;
  if (tensorflow) TakeAnyType(&object, &options);
  MILLRACE_ASSIGN_OR_RETURN(TaskProperties properties,
                            ReadTaskProperties(OrderedJson(object), where));
  options.task_type = std::move(properties.task_type);
  options.task_id = properties.task_id;
  if (object.contains("rpc_layer")) options.rpc_layer = std::move(properties.rpc_layer);
  MILLRACE_RETURN_IF_ERROR(ReadRest(object, where, tensorflow, &options));
  return options;
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeKubernetesResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers&) {
  MILLRACE_ASSIGN_OR_RETURN(KubernetesResolver::Options options,
                            KubernetesOptionsFromJson(description, behavior, where));
  absl::StatusOr<std::unique_ptr<KubernetesResolver>> resolver =
      KubernetesResolver::Create(std::move(options));
  if (!resolver.ok()) return Annotate(resolver.status(), where);
  return std::unique_ptr<ClusterResolver>(*std::move(resolver));
}

}  // namespace millrace
