#include "resolver/spark/resolvers_from_json.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status.h"
#include "millrace/cluster_members_resolver.h"
#include "millrace/spark_resolver.h"
#include "millrace/status_macros.h"
#include "resolver/description_members.h"
#include "resolver/member_completeness.h"

namespace millrace {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::Status ReadCompleteness(const Json& object, absl::string_view where,
                              MemberCompleteness* completeness) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string word,
                            GetStringOr(object, "completeness", "require_all", where));
  absl::StatusOr<MemberCompleteness> read = MemberCompletenessFromText(word);
  if (!read.ok()) return Annotate(read.status(), where);
  *completeness = *read;
  return absl::OkStatus();
}

absl::Status ReadJobs(const OrderedJson& description, absl::string_view where,
                      SparkResolverOptions* options) {
  const std::string path = MemberPath(where, "jobs");
  const auto jobs = description.find("jobs");
  if (jobs == description.end() || jobs->is_null()) return absl::OkStatus();
  if (!jobs->is_object()) {
    return WrongMemberType(path, "an object", *jobs);
  }
  const Json numbers = *jobs;
  for (const auto& [name, value] : jobs->items()) {
    std::optional<int> count;
    if (!value.is_null()) {
      MILLRACE_ASSIGN_OR_RETURN(
          const int64_t read,
          GetIntInRange(numbers, name, 1, std::numeric_limits<int>::max(), path));
      count = static_cast<int>(read);
    }
    options->jobs.emplace_back(name, count);
  }
  return absl::OkStatus();
}

absl::Status ReadPorts(const Json& object, absl::string_view where, SparkResolverOptions* options) {
  if (object.contains("port_base") && !object["port_base"].is_null()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t port,
                              GetIntInRange(object, "port_base", 1, 65535, where));
    options->port_base = static_cast<int>(port);
  }
  const auto ports = object.find("ports");
  if (ports == object.end() || ports->is_null()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(GetObject(object, "ports", where).status());
  for (const auto& [job, value] : ports->items()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t port,
                              GetIntInRange(*ports, job, 1, 65535, MemberPath(where, "ports")));
    options->ports.emplace(job, static_cast<int>(port));
  }
  return absl::OkStatus();
}

template <typename Resolver>
absl::StatusOr<std::unique_ptr<ClusterResolver>> Made(
    absl::StatusOr<std::unique_ptr<Resolver>> resolver, absl::string_view where) {
  if (!resolver.ok()) return Annotate(resolver.status(), where);
  return std::unique_ptr<ClusterResolver>(*std::move(resolver));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeSparkResolverFromJson(
    const OrderedJson& description, ResolverBehavior /*behavior*/, absl::string_view where,
    const ResolverMakers& /*makers*/) {
  MILLRACE_RETURN_IF_ERROR(CheckMembers(
      description,
      {"url", "application_id", "executor_id", "jobs", "port_base", "ports", "completeness",
       "wait_timeout_s", "timeout_s", "ca_file", "insecure_skip_verify"},
      where));
  const Json object = description;
  SparkResolverOptions options;
  MILLRACE_ASSIGN_OR_RETURN(options.url, GetString(object, "url", where));
  MILLRACE_ASSIGN_OR_RETURN(options.application_id,
                            GetStringOr(object, "application_id", "", where));
  MILLRACE_ASSIGN_OR_RETURN(options.executor_id, GetStringOr(object, "executor_id", "", where));
  MILLRACE_RETURN_IF_ERROR(ReadJobs(description, where, &options));
  MILLRACE_RETURN_IF_ERROR(ReadPorts(object, where, &options));
  MILLRACE_RETURN_IF_ERROR(ReadCompleteness(object, where, &options.completeness));
  MILLRACE_RETURN_IF_ERROR(
      ReadSecondsMember(object, "wait_timeout_s", where, &options.wait_timeout));
  MILLRACE_RETURN_IF_ERROR(ReadSecondsMember(object, "timeout_s", where, &options.timeout));
  MILLRACE_ASSIGN_OR_RETURN(options.tls.ca_file, GetStringOr(object, "ca_file", "", where));
  MILLRACE_ASSIGN_OR_RETURN(options.tls.insecure_skip_verify,
                            GetBoolOr(object, "insecure_skip_verify", false, where));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  return Made(SparkResolver::Create(std::move(options)), where);
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeClusterMembersResolverFromJson(
    const OrderedJson& description, ResolverBehavior /*behavior*/, absl::string_view where,
    const ResolverMakers& /*makers*/) {
  MILLRACE_RETURN_IF_ERROR(
      CheckMembers(description,
                   {"cluster", "address", "ca_file", "identity_file", "token_file", "completeness",
                    "wait_timeout_s", "timeout_s"},
                   where));
  const Json object = description;
  ClusterMembersResolverOptions options;
  MILLRACE_ASSIGN_OR_RETURN(options.cluster, GetStringOr(object, "cluster", "", where));
  MILLRACE_ASSIGN_OR_RETURN(options.client.address, GetStringOr(object, "address", "", where));
  MILLRACE_ASSIGN_OR_RETURN(const std::string ca_file, GetStringOr(object, "ca_file", "", where));
  MILLRACE_ASSIGN_OR_RETURN(const std::string identity_file,
                            GetStringOr(object, "identity_file", "", where));
  MILLRACE_ASSIGN_OR_RETURN(const std::string token_file,
                            GetStringOr(object, "token_file", "", where));
  const bool has_address = !options.client.address.empty();
  if (has_address == ca_file.empty() || has_address == identity_file.empty() ||
      has_address == token_file.empty()) {
    return Annotate(absl::InvalidArgumentError("address, ca_file, identity_file and token_file go "
                                               "together: give all of them or none"),
                    where);
  }
  if (has_address) {
    MILLRACE_ASSIGN_OR_RETURN(options.client.ca_pem, ReadFile(ca_file, kMaxFileBytes));
    MILLRACE_ASSIGN_OR_RETURN(options.client.identity_pem, ReadFile(identity_file, kMaxFileBytes));
    MILLRACE_ASSIGN_OR_RETURN(const std::string token, ReadFile(token_file, kMaxFileBytes));
    options.client.viewer_token = std::string(absl::StripAsciiWhitespace(token));
  }
  MILLRACE_RETURN_IF_ERROR(ReadCompleteness(object, where, &options.completeness));
  MILLRACE_RETURN_IF_ERROR(
      ReadSecondsMember(object, "wait_timeout_s", where, &options.wait_timeout));
  MILLRACE_RETURN_IF_ERROR(ReadSecondsMember(object, "timeout_s", where, &options.client.timeout));
  MILLRACE_ASSIGN_OR_RETURN(options.properties, ReadTaskProperties(description, where));
  return Made(ClusterMembersResolver::Create(std::move(options)), where);
}

}  // namespace millrace
