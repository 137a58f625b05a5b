#include "core/agent/link/start_params.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/agent/link/coordinator_channel.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/net/local_interfaces.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int64_t kMaxGpus = 1024;
constexpr int64_t kMaxConnectTimeoutMs = int64_t{24} * 3600 * 1000;
constexpr size_t kMaxNameBytes = 64;

absl::Status CheckPath(const std::string& path, absl::string_view field) {
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"params.", field, "\" holds a zero byte"));
  }
  return absl::OkStatus();
}

absl::Status CheckAdvertise(const std::string& host) {
  const absl::Status status = CheckAdvertisedHost(host);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("field \"params.advertise\" ", status.message()));
}

absl::StatusOr<std::map<std::string, std::string>> ParseEnv(const Json& params) {
  std::map<std::string, std::string> env;
  if (!params.contains("env")) return env;
  MILLRACE_ASSIGN_OR_RETURN(const Json* object, GetObject(params, "env", "params"));
  for (const auto& [name, unused] : object->items()) {
    MILLRACE_ASSIGN_OR_RETURN(env[name], GetString(*object, name, "params.env"));
  }
  return env;
}

// A number, or a list of ids.
absl::StatusOr<std::optional<GpuRequest>> ParseGpus(const Json& params) {
  std::optional<GpuRequest> gpus;
  const auto found = params.find("gpus");
  if (found == params.end() || found->is_null()) return gpus;
  gpus.emplace();
  if (!found->is_array()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t count,
                              GetIntInRange(params, "gpus", 0, kMaxGpus, "params"));
    gpus->count = static_cast<int>(count);
    return gpus;
  }
  for (const Json& id : *found) {
    if (id.is_number_unsigned()) {
      gpus->ids.push_back(absl::StrCat(id.get<uint64_t>()));
    } else if (id.is_string() && !id.get_ref<const std::string&>().empty()) {
      gpus->ids.push_back(id.get<std::string>());
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "field \"params.gpus\" must be a number or a list of indices and UUIDs, found ",
          JsonTypeName(id), " in it"));
    }
  }
  return gpus;
}

absl::StatusOr<std::string> VariableOf(const std::vector<std::string>& environment,
                                       absl::string_view name) {
  for (const absl::string_view entry : environment) {
    absl::string_view value = entry;
    if (absl::ConsumePrefix(&value, name) && absl::ConsumePrefix(&value, "=")) {
      return std::string(value);
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the variable ", EscapeControls(Ellipsize(name, kMaxNameBytes)),
                   " is not set, from which the agent was to take its place"));
}

}  // namespace

absl::StatusOr<Json> ParamsFromEnvironment(Json params,
                                           const std::vector<std::string>& environment) {
  if (!params.contains("from_environment")) return params;
  MILLRACE_ASSIGN_OR_RETURN(const Json* names, GetObject(params, "from_environment", "params"));
  const Json variables = *names;
  for (const auto& [member, unused] : variables.items()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string name,
                              GetString(variables, member, "params.from_environment"));
    MILLRACE_ASSIGN_OR_RETURN(const std::string value, VariableOf(environment, name));
    int executor_id = 0;
    if (member == "executor_id" && absl::SimpleAtoi(value, &executor_id) && executor_id >= 0) {
      params["executor_id"] = executor_id;
    } else if (member == "coordinator_host" && CheckAdvertisedHost(value).ok()) {
      MILLRACE_ASSIGN_OR_RETURN(const CoordinatorEndpoint endpoint,
                                ParseCoordinatorEndpoint(params));
      const absl::StatusOr<HostPort> address = ParseHostPort(endpoint.address);
      if (!address.ok()) return address.status();
      params["coordinator"]["address"] = FormatHostPort(value, address->port);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("field \"params.from_environment\" has ", EscapeControls(member),
                       " from the variable ", EscapeControls(Ellipsize(name, kMaxNameBytes)), ": ",
                       EscapeControls(Ellipsize(value, kMaxNameBytes)), " is none"));
    }
  }
  return params;
}

absl::StatusOr<StartParams> ParseStartParams(const Json& params) {
  const absl::string_view where = "params";
  StartParams start;
  MILLRACE_ASSIGN_OR_RETURN(start.coordinator, ParseCoordinatorEndpoint(params));
  if (params.contains("executor_id") && !params["executor_id"].is_null()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t id,
                              GetIntInRange(params, "executor_id", 0, INT32_MAX, where));
    start.executor_id = static_cast<int>(id);
  }
  MILLRACE_ASSIGN_OR_RETURN(start.runtime_dir, GetStringOr(params, "runtime_dir", "", where));
  MILLRACE_ASSIGN_OR_RETURN(start.working_dir, GetStringOr(params, "working_dir", "", where));
  MILLRACE_ASSIGN_OR_RETURN(start.log_dir, GetStringOr(params, "log_dir", "", where));
  MILLRACE_RETURN_IF_ERROR(CheckPath(start.runtime_dir, "runtime_dir"));
  MILLRACE_RETURN_IF_ERROR(CheckPath(start.working_dir, "working_dir"));
  MILLRACE_RETURN_IF_ERROR(CheckPath(start.log_dir, "log_dir"));
  MILLRACE_ASSIGN_OR_RETURN(start.advertise, GetStringOr(params, "advertise", "", where));
  if (!start.advertise.empty()) MILLRACE_RETURN_IF_ERROR(CheckAdvertise(start.advertise));
  MILLRACE_ASSIGN_OR_RETURN(const std::string range, GetStringOr(params, "port_range", "", where));
  if (!range.empty()) {
    const absl::StatusOr<PortRange> parsed = ParsePortRange(range);
    if (!parsed.ok()) return Annotate(parsed.status(), "field \"params.port_range\"");
    start.port_range = *parsed;
  }
  MILLRACE_ASSIGN_OR_RETURN(start.env, ParseEnv(params));
  MILLRACE_ASSIGN_OR_RETURN(start.gpus, ParseGpus(params));
  MILLRACE_ASSIGN_OR_RETURN(start.output_events, GetBoolOr(params, "output_events", false, where));
  MILLRACE_ASSIGN_OR_RETURN(start.count_events, GetBoolOr(params, "count_events", false, where));
  if (params.contains("connect_timeout_ms")) {
    MILLRACE_ASSIGN_OR_RETURN(
        const int64_t timeout_ms,
        GetIntInRange(params, "connect_timeout_ms", 1, kMaxConnectTimeoutMs, where));
    start.connect_timeout = absl::Milliseconds(timeout_ms);
  }
  MILLRACE_ASSIGN_OR_RETURN(start.node_stdin, GetBoolOr(params, "node_stdin", false, where));
  MILLRACE_ASSIGN_OR_RETURN(start.share_connection,
                            GetBoolOr(params, "share_connection", false, where));
  if (params.contains("descriptor_limit")) {
    MILLRACE_ASSIGN_OR_RETURN(start.descriptor_limit,
                              GetIntInRange(params, "descriptor_limit", 1, INT64_MAX, where));
  }
  return start;
}

}  // namespace millrace
