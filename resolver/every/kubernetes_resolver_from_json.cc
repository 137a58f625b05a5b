#include "resolver/every/kubernetes_resolver_from_json.h"

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
#include "millrace/pod_port.h"
#include "millrace/resolver_base.h"
#include "millrace/status_macros.h"
#include "resolver/kubernetes/pod_cluster.h"
#include "resolver/kubernetes/pod_member.h"
#include "resolver/tensorflow/tensorflow_arguments.h"

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

absl::Status ReadMapping(const OrderedJson& description, absl::string_view where,
                         KubernetesResolverOptions* options) {
  constexpr absl::string_view kKey = "job_to_label_mapping";
  const OrderedJson* mapping = Find(description, kKey);
  if (mapping == nullptr) return absl::OkStatus();
  const std::string path = Path(where, kKey);
  if (!mapping->is_object()) {
    return WrongType(path, "an object of lists of label selectors", *mapping);
  }
  for (const auto& [job, value] : mapping->items()) {
    std::vector<std::string> selectors;
    if (value.is_string()) {
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
                      KubernetesResolverOptions* options) {
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

absl::Status ReadRest(const Json& object, absl::string_view where,
                      KubernetesResolverOptions* options) {
  MILLRACE_RETURN_IF_ERROR(ReadJobs(object, where, options));
  if (object.contains("tf_server_port") && !object["tf_server_port"].is_null()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t port,
                              GetIntInRange(object, "tf_server_port", 1, 65535, where));
    options->tf_server_port = static_cast<int>(port);
  }
  MILLRACE_RETURN_IF_ERROR(
      ReadWord<ExecutableLocation>(object, "executable_location", where,
                                   {{"automatic", ExecutableLocation::kAutomatic},
                                    {"within_cluster", ExecutableLocation::kWithinCluster},
                                    {"off_cluster", ExecutableLocation::kOffCluster}},
                                   &options->executable_location));
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

}  // namespace

absl::StatusOr<KubernetesResolverOptions> KubernetesOptionsFromJson(const OrderedJson& description,
                                                                    ResolverBehavior behavior,
                                                                    absl::string_view where) {
  if (!description.is_object()) {
    return WrongType(where.empty() ? "description" : where, "an object", description);
  }
  KubernetesResolverOptions options;
  options.behavior = behavior;
  OrderedJson rest = description;
  if (behavior == ResolverBehavior::kTensorFlow) {
    MILLRACE_ASSIGN_OR_RETURN(TensorFlowKubernetesArguments arguments,
                              ReadTensorFlowKubernetesArguments(description, kMembers));
    options.job_to_label_mapping = std::move(arguments.job_to_label_mapping);
    options.tf_server_port_text = std::move(arguments.tf_server_port);
    rest = std::move(arguments.rest);
  } else {
    MILLRACE_RETURN_IF_ERROR(CheckMembers(
        description, std::vector<absl::string_view>(std::begin(kMembers), std::end(kMembers)),
        where));
    MILLRACE_RETURN_IF_ERROR(ReadMapping(description, where, &options));
  }
  MILLRACE_ASSIGN_OR_RETURN(TaskProperties properties, ReadTaskProperties(rest, where));
  options.task_type = std::move(properties.task_type);
  options.task_id = properties.task_id;
  if (rest.contains("rpc_layer")) options.rpc_layer = std::move(properties.rpc_layer);
  MILLRACE_RETURN_IF_ERROR(ReadRest(Json(rest), where, &options));
  return options;
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeKubernetesResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers&) {
  MILLRACE_ASSIGN_OR_RETURN(KubernetesResolverOptions options,
                            KubernetesOptionsFromJson(description, behavior, where));
  absl::StatusOr<std::unique_ptr<KubernetesResolver>> resolver =
      KubernetesResolver::Create(std::move(options));
  if (!resolver.ok()) return Annotate(resolver.status(), where);
  return std::unique_ptr<ClusterResolver>(*std::move(resolver));
}

}  // namespace millrace
