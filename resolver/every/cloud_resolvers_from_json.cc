#include "resolver/every/cloud_resolvers_from_json.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "millrace/dns_resolver.h"
#include "millrace/etcd_resolver.h"
#include "millrace/gce_resolver.h"
#include "millrace/member_completeness.h"
#include "millrace/status_macros.h"
#include "resolver/argument_rules.h"
#include "resolver/description_members.h"
#include "resolver/every/argument_rules_of.h"
#include "resolver/member_completeness.h"

namespace millrace {
namespace {

absl::Status ReadText(const OrderedJson& description, const std::string& key,
                      absl::string_view where, std::string* text) {
  MILLRACE_ASSIGN_OR_RETURN(std::optional<std::string> read,
                            OptionalTextMember(description, key, where));
  if (read.has_value()) *text = *std::move(read);
  return absl::OkStatus();
}

// completeness and wait_timeout_s.
absl::Status ReadWaiting(const OrderedJson& description, absl::string_view where,
                         MemberCompleteness* completeness, absl::Duration* wait_timeout) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> word,
                            OptionalTextMember(description, "completeness", where));
  if (word.has_value()) {
    const absl::StatusOr<MemberCompleteness> read = MemberCompletenessFromText(*word);
    if (!read.ok()) return Annotate(read.status(), where);
    *completeness = *read;
  }
  return ReadSecondsMember(description, "wait_timeout_s", where, wait_timeout);
}

template <typename Resolver>
absl::StatusOr<std::unique_ptr<ClusterResolver>> Made(
    absl::StatusOr<std::unique_ptr<Resolver>> resolver, absl::string_view where) {
  if (!resolver.ok()) return Annotate(resolver.status(), where);
  return std::unique_ptr<ClusterResolver>(*std::move(resolver));
}

absl::StatusOr<const OrderedJson*> Required(const OrderedJson& description, const std::string& key,
                                            absl::string_view where) {
  const OrderedJson* value = FindMember(description, key);
  if (value != nullptr) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("field \"", MemberPath(where, key), "\" is missing"));
}

absl::Status ReadTexts(const OrderedJson& description, const std::string& key,
                       absl::string_view where, std::vector<std::string>* texts) {
  const OrderedJson* list = FindMember(description, key);
  if (list == nullptr) return absl::OkStatus();
  const std::string path = MemberPath(where, key);
  if (!list->is_array()) return WrongMemberType(path, "a list of texts", *list);
  for (const OrderedJson& text : *list) {
    if (!text.is_string()) {
      return WrongMemberType(absl::StrCat(path, "[", texts->size(), "]"), "a text", text);
    }
    texts->push_back(text.get<std::string>());
  }
  return absl::OkStatus();
}

// Job to a number.
absl::Status ReadExpectedTasks(const OrderedJson& description, absl::string_view where,
                               std::map<std::string, int>* expected) {
  const OrderedJson* value = FindMember(description, "expected_tasks");
  if (value == nullptr) return absl::OkStatus();
  const std::string path = MemberPath(where, "expected_tasks");
  if (!value->is_object()) return WrongMemberType(path, "an object", *value);
  for (const auto& [job, number] : value->items()) {
    MILLRACE_ASSIGN_OR_RETURN((*expected)[job], IntFrom(number, MemberPath(path, job)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeDnsResolverFromJson(
    const OrderedJson& description, ResolverBehavior /*behavior*/, absl::string_view where,
    const ResolverMakers& /*makers*/) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(
      description,
      {"jobs", "port", "completeness", "expected_tasks", "wait_timeout_s", "timeout_s", "servers"},
      where));
  DnsResolverOptions options;
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* jobs, Required(description, "jobs", where));
  const std::string path = MemberPath(where, "jobs");
  if (!jobs->is_object()) return WrongMemberType(path, "an object of names", *jobs);
  for (const auto& [job, name] : jobs->items()) {
    if (!name.is_string()) return WrongMemberType(MemberPath(path, job), "a name", name);
    options.jobs.emplace_back(job, name.get<std::string>());
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto port, OptionalIntMember(description, "port", where));
  options.port = port.value_or(options.port);
  MILLRACE_RETURN_IF_ERROR(ReadTexts(description, "servers", where, &options.servers));
  MILLRACE_RETURN_IF_ERROR(ReadExpectedTasks(description, where, &options.expected_tasks));
  MILLRACE_RETURN_IF_ERROR(
      ReadWaiting(description, where, &options.completeness, &options.wait_timeout));
  MILLRACE_RETURN_IF_ERROR(ReadSecondsMember(description, "timeout_s", where, &options.timeout));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  return Made(DnsResolver::Create(std::move(options)), where);
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeEtcdResolverFromJson(
    const OrderedJson& description, ResolverBehavior /*behavior*/, absl::string_view where,
    const ResolverMakers& /*makers*/) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(
      description,
      {"endpoints", "prefix", "completeness", "expected_tasks", "wait_timeout_s", "timeout_s",
       "user", "password_file", "ca_file", "certificate_file", "key_file"},
      where));
  EtcdResolverOptions options;
  MILLRACE_RETURN_IF_ERROR(Required(description, "endpoints", where).status());
  MILLRACE_RETURN_IF_ERROR(ReadTexts(description, "endpoints", where, &options.endpoints));
  for (const auto& [key, text] : {std::pair("prefix", &options.prefix),
                                  {"user", &options.user},
                                  {"password_file", &options.password_file},
                                  {"ca_file", &options.tls.ca_file},
                                  {"certificate_file", &options.certificate_file},
                                  {"key_file", &options.key_file}}) {
    MILLRACE_RETURN_IF_ERROR(ReadText(description, key, where, text));
  }
  MILLRACE_RETURN_IF_ERROR(ReadExpectedTasks(description, where, &options.expected_tasks));
  MILLRACE_RETURN_IF_ERROR(
      ReadWaiting(description, where, &options.completeness, &options.wait_timeout));
  MILLRACE_RETURN_IF_ERROR(ReadSecondsMember(description, "timeout_s", where, &options.timeout));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  return Made(EtcdResolver::Create(std::move(options)), where);
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeGceResolverFromJson(
    const OrderedJson& description, ResolverBehavior behavior, absl::string_view where,
    const ResolverMakers& /*makers*/) {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson arguments,
                            ArgumentRulesOf(behavior).gce(description, where));
  GceResolverOptions options;
  options.behavior = behavior;
  for (const auto& [key, text] : {std::pair("project", &options.project),
                                  {"zone", &options.zone},
                                  {"instance_group", &options.instance_group},
                                  {"token_file", &options.token_file},
                                  {"api_url", &options.api_url},
                                  {"metadata_url", &options.metadata_url},
                                  {"ca_file", &options.tls.ca_file}}) {
    MILLRACE_RETURN_IF_ERROR(ReadText(arguments, key, where, text));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto port, OptionalIntMember(arguments, "port", where));
  options.port = port.value_or(options.port);
  MILLRACE_ASSIGN_OR_RETURN(options.port_text, OptionalTextMember(arguments, "port_text", where));
  MILLRACE_ASSIGN_OR_RETURN(options.expected_tasks,
                            OptionalIntMember(arguments, "expected_tasks", where));
  MILLRACE_RETURN_IF_ERROR(
      ReadWaiting(arguments, where, &options.completeness, &options.wait_timeout));
  MILLRACE_RETURN_IF_ERROR(ReadSecondsMember(arguments, "timeout_s", where, &options.timeout));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(arguments, where));
  if (arguments.contains("rpc_layer") && arguments["rpc_layer"].is_null()) {
    options.properties.rpc_layer = "";
  }
  return Made(GceResolver::Create(std::move(options)), where);
}

}  // namespace millrace
