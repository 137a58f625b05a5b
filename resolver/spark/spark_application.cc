#include "resolver/spark/spark_application.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int64_t kNoNumber = std::numeric_limits<int64_t>::max();

int64_t NumberOf(const SparkExecutor& executor) {
  int64_t number = 0;
  return absl::SimpleAtoi(executor.id, &number) && number >= 0 ? number : kNoNumber;
}

// "10.0.0.2:35645", "[fd00::2]:35645" or a host alone.
std::string HostOf(absl::string_view host_port) {
  const size_t bracket = host_port.find(']');
  if (!host_port.empty() && host_port[0] == '[' && bracket != absl::string_view::npos) {
    return std::string(host_port.substr(1, bracket - 1));
  }
  const size_t colon = host_port.rfind(':');
  if (colon == absl::string_view::npos) return std::string(host_port);
  int port = 0;
  return absl::SimpleAtoi(host_port.substr(colon + 1), &port)
             ? std::string(host_port.substr(0, colon))
             : std::string(host_port);
}

absl::Status AsDataLoss(const absl::Status& status) {
  return absl::DataLossError(status.message());
}

absl::StatusOr<SparkExecutor> ExecutorFromJson(const Json& value, const std::string& where) {
  SparkExecutor executor;
  MILLRACE_ASSIGN_OR_RETURN(executor.id, GetString(value, "id", where));
  MILLRACE_ASSIGN_OR_RETURN(const std::string host_port, GetString(value, "hostPort", where));
  executor.host = HostOf(host_port);
  MILLRACE_ASSIGN_OR_RETURN(executor.active, GetBool(value, "isActive", where));
  MILLRACE_ASSIGN_OR_RETURN(const bool excluded, GetBoolOr(value, "isExcluded", false, where));
  MILLRACE_ASSIGN_OR_RETURN(const bool blacklisted,
                            GetBoolOr(value, "isBlacklisted", false, where));
  executor.excluded = excluded || blacklisted;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t cores, GetIntOr(value, "totalCores", 0, where));
  executor.total_cores =
      static_cast<int>(std::clamp<int64_t>(cores, 0, std::numeric_limits<int>::max()));
  const auto resources = value.find("resources");
  if (resources == value.end() || !resources->is_object()) return executor;
  for (const auto& [name, resource] : resources->items()) {
    MILLRACE_ASSIGN_OR_RETURN(
        executor.resources[name],
        GetStringList(resource, "addresses", absl::StrCat(where, ".resources.", name)));
  }
  return executor;
}

}  // namespace

absl::StatusOr<SparkApplication> SparkApplicationFromJson(const Json& value) {
  SparkApplication application;
  const absl::StatusOr<std::string> id = GetString(value, "id");
  if (!id.ok()) return AsDataLoss(id.status());
  application.id = *id;
  application.name = GetStringOr(value, "name", "").value_or("");
  const absl::StatusOr<const Json*> attempts = GetArray(value, "attempts");
  if (!attempts.ok()) return AsDataLoss(attempts.status());
  if ((*attempts)->empty()) return application;
  const Json& newest = (*attempts)->front();
  application.attempt = GetStringOr(newest, "attemptId", "").value_or("");
  application.completed = GetBoolOr(newest, "completed", false).value_or(false);
  return application;
}

absl::StatusOr<std::vector<SparkExecutor>> SparkExecutorsFromJson(const Json& value) {
  if (!value.is_array()) {
    return absl::DataLossError(
        absl::StrCat("a list of executors was expected, found ", JsonTypeName(value)));
  }
  std::vector<SparkExecutor> executors;
  for (size_t i = 0; i < value.size(); ++i) {
    absl::StatusOr<SparkExecutor> executor =
        ExecutorFromJson(value[i], absl::StrCat("executors[", i, "]"));
    if (!executor.ok()) return AsDataLoss(executor.status());
    if (executor->id != "driver" && executor->id != "<driver>") {
      executors.push_back(*std::move(executor));
    }
  }
  std::sort(executors.begin(), executors.end(), [](const SparkExecutor& a, const SparkExecutor& b) {
    return std::make_tuple(NumberOf(a), absl::string_view(a.id)) <
           std::make_tuple(NumberOf(b), absl::string_view(b.id));
  });
  return executors;
}

}  // namespace millrace
