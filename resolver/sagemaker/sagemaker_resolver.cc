#include "millrace/sagemaker_resolver.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"
#include "resolver/natural_order.h"

namespace millrace {
namespace {

constexpr char kHosts[] = "SM_HOSTS";
constexpr char kCurrentHost[] = "SM_CURRENT_HOST";
constexpr char kJob[] = "worker";

struct TrainingJob {
  std::vector<std::string> hosts;  // in order
  size_t current = 0;
};

std::string Quote(absl::string_view text) { return Ellipsize(EscapeControls(text), 200); }

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(kHosts, ": ", what, "; it should be like [\"algo-1\", \"algo-2\"]"));
}

absl::StatusOr<std::string> Variable(const SageMakerResolverOptions::Reader& read,
                                     const char* name) {
  std::optional<std::string> value = read(name);
  if (value.has_value()) return *std::move(value);
  return absl::FailedPreconditionError(
      absl::StrCat("the environment variable ", name,
                   " is not set: this is for programs inside a SageMaker training job"));
}

absl::StatusOr<TrainingJob> ReadTrainingJob(const SageMakerResolverOptions::Reader& read) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, Variable(read, kHosts));
  MILLRACE_ASSIGN_OR_RETURN(const std::string current, Variable(read, kCurrentHost));
  const absl::StatusOr<Json> list = ParseJson(text);
  if (!list.ok()) return Malformed(list.status().message());
  if (!list->is_array()) {
    return Malformed(absl::StrCat("it must be a list, found ", JsonTypeName(*list)));
  }
  TrainingJob job;
  for (const Json& host : *list) {
    if (!host.is_string() || host.get_ref<const std::string&>().empty()) {
      return Malformed(absl::StrCat("[", job.hosts.size(), "] must be the name of a host"));
    }
    job.hosts.push_back(host.get<std::string>());
  }
  std::sort(job.hosts.begin(), job.hosts.end(),
            [](const auto& a, const auto& b) { return NaturalCompare(a, b) < 0; });
  const auto twice = std::adjacent_find(job.hosts.begin(), job.hosts.end());
  if (twice != job.hosts.end()) {
    return Malformed(absl::StrCat(Quote(*twice), " is in it twice"));
  }
  const auto found = std::find(job.hosts.begin(), job.hosts.end(), current);
  if (found == job.hosts.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCurrentHost, " is ", Quote(current), ", which is not in ", kHosts));
  }
  job.current = static_cast<size_t>(found - job.hosts.begin());
  return job;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SageMakerResolver>> SageMakerResolver::CreateCorrect(
    SageMakerResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  if (options.port < 1 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("port must be from 1 to 65535, found ", options.port));
  }
  return std::unique_ptr<SageMakerResolver>(new SageMakerResolver(std::move(options)));
}

SageMakerResolver::SageMakerResolver(SageMakerResolverOptions options)
    : ResolverBase({.properties = std::move(options.properties),
                    .count_accelerators = std::move(options.count_accelerators)}),
      port_(options.port),
      environment_(std::move(options.environment)),
      read_(std::move(options.read)) {}

absl::StatusOr<ClusterSpec> SageMakerResolver::cluster_spec() {
  MILLRACE_ASSIGN_OR_RETURN(const TrainingJob job, ReadTrainingJob(read_));
  std::vector<std::string> addresses;
  for (const std::string& host : job.hosts) addresses.push_back(FormatHostPort(host, port_));
  return ClusterSpec::Create({{kJob, std::move(addresses)}});
}

absl::StatusOr<std::string> SageMakerResolver::master(std::optional<std::string> task_type,
                                                      std::optional<int> task_id,
                                                      std::optional<std::string> rpc_layer) {
  if (!task_type.has_value() && !task_id.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(const TrainingJob job, ReadTrainingJob(read_));
    if (job.hosts.size() == 1) return std::string();
  }
  return ResolverBase::master(std::move(task_type), task_id, std::move(rpc_layer));
}

absl::StatusOr<std::optional<std::string>> SageMakerResolver::environment() {
  return environment_.value_or("");
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> SageMakerResolver::Watch(
    MembershipCallback callback, const WatchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckWatch(callback, options));
  return TellOnce(cluster_spec(), std::move(callback));
}

absl::StatusOr<std::optional<std::string>> SageMakerResolver::SourceTaskType() {
  MILLRACE_RETURN_IF_ERROR(ReadTrainingJob(read_).status());
  return kJob;
}

absl::StatusOr<std::optional<int>> SageMakerResolver::SourceTaskId() {
  MILLRACE_ASSIGN_OR_RETURN(const TrainingJob job, ReadTrainingJob(read_));
  return static_cast<int>(job.current);
}

}  // namespace millrace
