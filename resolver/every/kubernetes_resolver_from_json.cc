#include "resolver/every/kubernetes_resolver_from_json.h"

#include <cstdint>
#include <limits>
#include <span>
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
#include "resolver/argument_rules.h"
#include "resolver/description_members.h"
#include "resolver/every/argument_rules_of.h"
#include "resolver/kubernetes/pod_cluster.h"
#include "resolver/kubernetes/pod_member.h"

namespace millrace {
namespace {

constexpr absl::string_view kMembers[] = {
    "job_to_label_mapping", "tf_server_port",      "ports",          "address",
    "cluster_domain",       "namespace",           "all_namespaces", "completeness",
    "expected_tasks",       "wait_timeout_s",      "require_ready",  "timeout_s",
    "max_backoff_s",        "executable_location", "kubeconfig",     "context"};

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
      "field \"", MemberPath(where, key), "\" must be one of ",
      absl::StrJoin(words, ", ",
                    [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); }),
      "; found \"", EscapeControls(Ellipsize(word, 100)), "\""));
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
      MILLRACE_ASSIGN_OR_RETURN(PodPort port,
                                ReadPort(value, MemberPath(MemberPath(where, "ports"), job)));
      options->ports.emplace(job, std::move(port));
    }
  }
  if (const auto tasks = object.find("expected_tasks");
      tasks != object.end() && !tasks->is_null()) {
    MILLRACE_RETURN_IF_ERROR(GetObject(object, "expected_tasks", where));
    for (const auto& [job, value] : tasks->items()) {
      MILLRACE_ASSIGN_OR_RETURN(const int64_t count,
                                GetIntInRange(*tasks, job, 0, std::numeric_limits<int>::max(),
                                              MemberPath(where, "expected_tasks")));
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
  MILLRACE_RETURN_IF_ERROR(
      ReadWord<MemberCompleteness>(object, "completeness", where,
                                   {{"require_all", MemberCompleteness::kRequireAll},
                                    {"wait", MemberCompleteness::kWait},
                                    {"available", MemberCompleteness::kAvailable}},
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
  MILLRACE_RETURN_IF_ERROR(
      ReadSecondsMember(object, "wait_timeout_s", where, &options->wait_timeout));
  MILLRACE_RETURN_IF_ERROR(ReadSecondsMember(object, "timeout_s", where, &options->timeout));
  return ReadSecondsMember(object, "max_backoff_s", where, &options->max_backoff);
}

}  // namespace

absl::StatusOr<KubernetesResolverOptions> KubernetesOptionsFromJson(const OrderedJson& description,
                                                                    ResolverBehavior behavior,
                                                                    absl::string_view where) {
  if (!description.is_object()) {
    return WrongMemberType(where.empty() ? "description" : where, "an object", description);
  }
  KubernetesResolverOptions options;
  options.behavior = behavior;
  MILLRACE_ASSIGN_OR_RETURN(
      KubernetesArguments arguments,
      ArgumentRulesOf(behavior).kubernetes(description, std::span(kMembers), where));
  options.job_to_label_mapping = std::move(arguments.job_to_label_mapping);
  options.tf_server_port_text = std::move(arguments.tf_server_port_text);
  const OrderedJson& rest = arguments.rest;
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(rest, where));
  if (rest.contains("rpc_layer") && rest["rpc_layer"].is_null()) options.properties.rpc_layer = "";
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
