#include "core/node/node_config.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kProtocol = 1;
constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

// Absent and null are the same, as for the getters of core/base/json.h.
bool Has(const Json& object, absl::string_view key) {
  const auto found = object.find(std::string(key));
  return found != object.end() && !found->is_null();
}

absl::StatusOr<std::optional<int>> OptionalInt(const Json& json, absl::string_view key) {
  if (!Has(json, key)) return std::nullopt;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t value, GetIntInRange(json, key, 0, kMaxInt));
  return static_cast<int>(value);
}

absl::StatusOr<NodeTls> ParseTls(const Json& json) {
  NodeTls tls;
  if (!Has(json, "tls")) return tls;
  MILLRACE_ASSIGN_OR_RETURN(const Json* object, GetObject(json, "tls"));
  MILLRACE_ASSIGN_OR_RETURN(tls.ca, GetString(*object, "ca", "tls"));
  MILLRACE_ASSIGN_OR_RETURN(tls.certificate, GetString(*object, "certificate", "tls"));
  MILLRACE_ASSIGN_OR_RETURN(tls.key, GetString(*object, "key", "tls"));
  return tls;
}

absl::Status ParsePlace(const Json& json, NodeConfig* config) {
  MILLRACE_ASSIGN_OR_RETURN(config->cluster_id, GetString(json, "cluster_id"));
  MILLRACE_ASSIGN_OR_RETURN(config->executor_id, GetIntInRange(json, "executor_id", 0, kMaxInt));
  MILLRACE_ASSIGN_OR_RETURN(config->job_name, GetString(json, "job_name"));
  MILLRACE_ASSIGN_OR_RETURN(config->task_index, GetIntInRange(json, "task_index", 0, kMaxInt));
  MILLRACE_ASSIGN_OR_RETURN(config->attempt, GetIntInRange(json, "attempt", 0, kMaxInt));
  MILLRACE_ASSIGN_OR_RETURN(config->nonce, GetStringOr(json, "nonce", ""));
  MILLRACE_ASSIGN_OR_RETURN(config->epoch, GetIntInRange(json, "epoch", 0, INT64_MAX));
  MILLRACE_ASSIGN_OR_RETURN(const Json* spec, GetObject(json, "cluster_spec"));
  MILLRACE_ASSIGN_OR_RETURN(config->cluster_spec, ClusterSpecFromJson(*spec));
  MILLRACE_ASSIGN_OR_RETURN(config->num_workers, GetIntInRange(json, "num_workers", 0, kMaxInt));
  MILLRACE_ASSIGN_OR_RETURN(config->rank, OptionalInt(json, "rank"));
  MILLRACE_ASSIGN_OR_RETURN(config->local_rank, OptionalInt(json, "local_rank"));
  if (IsFedJob(config->job_name) && !config->rank.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"rank\" is missing: a ", config->job_name, " has one"));
  }
  return absl::OkStatus();
}

absl::Status ParseMeans(const Json& json, NodeConfig* config) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string mode, GetString(json, "input_mode"));
  if (mode != "FEED" && mode != "DIRECT") {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"input_mode\" must be FEED or DIRECT, found \"",
                     Ellipsize(EscapeControls(mode), 64), "\""));
  }
  config->input_feed = mode == "FEED";
  MILLRACE_ASSIGN_OR_RETURN(config->queues, GetStringList(json, "queues"));
  MILLRACE_ASSIGN_OR_RETURN(config->default_fs, GetStringOr(json, "default_fs", "file://"));
  MILLRACE_ASSIGN_OR_RETURN(config->working_dir, GetStringOr(json, "working_dir", ""));
  MILLRACE_ASSIGN_OR_RETURN(config->log_dir, GetStringOr(json, "log_dir", ""));
  if (Has(json, "gpus")) {
    MILLRACE_ASSIGN_OR_RETURN(config->gpus, GetStringList(json, "gpus"));
  }
  MILLRACE_ASSIGN_OR_RETURN(config->address, GetString(json, "address"));
  MILLRACE_ASSIGN_OR_RETURN(config->port, GetIntInRange(json, "port", 0, 65535));
  MILLRACE_ASSIGN_OR_RETURN(config->port_fd, OptionalInt(json, "port_fd"));
  MILLRACE_ASSIGN_OR_RETURN(config->feed_budget_bytes,
                            GetIntInRange(json, "feed_budget_bytes", 1, INT64_MAX));
  MILLRACE_ASSIGN_OR_RETURN(config->feed_shared_memory,
                            GetBoolOr(json, "feed_shared_memory", false));
  MILLRACE_ASSIGN_OR_RETURN(const std::string range, GetStringOr(json, "feed_port_range", ""));
  if (!range.empty()) {
    const absl::StatusOr<PortRange> parsed = ParsePortRange(range);
    if (!parsed.ok()) return Annotate(parsed.status(), "field \"feed_port_range\"");
    config->feed_ports = *parsed;
  }
  MILLRACE_ASSIGN_OR_RETURN(config->tls, ParseTls(json));
  return absl::OkStatus();
}

}  // namespace

bool IsFedJob(absl::string_view job_name) {
  return job_name == "chief" || job_name == "master" || job_name == "worker";
}

absl::StatusOr<NodeConfig> ParseNodeConfig(absl::string_view json) {
  MILLRACE_ASSIGN_OR_RETURN(const Json parsed, ParseJson(json));
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the context must be a JSON object, found ", JsonTypeName(parsed)));
  }
  MILLRACE_ASSIGN_OR_RETURN(const int64_t protocol, GetInt(parsed, "protocol"));
  if (protocol != kProtocol) {
    return absl::UnimplementedError(absl::StrCat("the agent speaks control protocol ", protocol,
                                                 ", this program ", kProtocol,
                                                 "; build both from the same version of Millrace"));
  }
  NodeConfig config;
  MILLRACE_RETURN_IF_ERROR(ParsePlace(parsed, &config));
  MILLRACE_RETURN_IF_ERROR(ParseMeans(parsed, &config));
  return config;
}

absl::StatusOr<NodeConfig> ReadNodeConfigFromEnvironment() {
  const std::string path = EnvOr("MILLRACE_CONTEXT_FILE", "");
  if (path.empty()) {
    return absl::FailedPreconditionError(
        "this is a Millrace node program: a cluster starts it, it does not run by itself "
        "(MILLRACE_CONTEXT_FILE is not set)");
  }
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return Annotate(text.status(), "MILLRACE_CONTEXT_FILE");
  absl::StatusOr<NodeConfig> config = ParseNodeConfig(*text);
  if (!config.ok()) return Annotate(config.status(), path);
  return config;
}

}  // namespace millrace
