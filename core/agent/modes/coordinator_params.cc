#include "core/agent/modes/coordinator_params.h"

#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/coordinator/state/sidecar.h"
#include "core/net/port_range.h"
#include "core/process/exit_status.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::string_view kWhere = "params";
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxMs = int64_t{100} * 365 * 24 * 3600 * 1000;

bool Has(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && !object[key].is_null();
}

absl::Status GetIntTo(const Json& object, absl::string_view key, int64_t min, int64_t max, int* out,
                      absl::string_view where = kWhere) {
  if (!Has(object, std::string(key).c_str())) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t value, GetIntInRange(object, key, min, max, where));
  *out = static_cast<int>(value);
  return absl::OkStatus();
}

absl::Status GetInt64To(const Json& object, absl::string_view key, int64_t min, int64_t* out) {
  if (!Has(object, std::string(key).c_str())) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(*out, GetIntInRange(object, key, min, kMaxInt64, kWhere));
  return absl::OkStatus();
}

absl::Status GetStringTo(const Json& object, absl::string_view key, std::string* out,
                         absl::string_view where = kWhere) {
  MILLRACE_ASSIGN_OR_RETURN(*out, GetStringOr(object, key, *out, where));
  return absl::OkStatus();
}

absl::Status GetBoolTo(const Json& object, absl::string_view key, bool* out) {
  MILLRACE_ASSIGN_OR_RETURN(*out, GetBoolOr(object, key, *out, kWhere));
  return absl::OkStatus();
}

absl::Status GetDurationTo(const Json& object, absl::string_view key, absl::Duration* out,
                           absl::string_view where = kWhere) {
  MILLRACE_ASSIGN_OR_RETURN(*out, GetDuration(object, key, *out, where));
  return absl::OkStatus();
}

absl::Status GetListTo(const Json& object, const char* key, std::vector<std::string>* out,
                       absl::string_view where = kWhere) {
  if (!Has(object, key)) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(*out, GetStringList(object, key, where));
  return absl::OkStatus();
}

absl::Status GetEnvTo(const Json& object, std::map<std::string, std::string>* env,
                      absl::string_view where = kWhere) {
  if (!Has(object, "env")) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Json* names, GetObject(object, "env", where));
  for (const auto& [name, unused] : names->items()) {
    MILLRACE_ASSIGN_OR_RETURN((*env)[name], GetString(*names, name, absl::StrCat(where, ".env")));
  }
  return absl::OkStatus();
}

// Dealt as TFCluster.run does, or named one by one.
absl::StatusOr<std::vector<NodeRole>> GetRoles(const Json& params) {
  if (!Has(params, "roles")) {
    RoleOptions options{.num_executors = 1};
    MILLRACE_RETURN_IF_ERROR(
        GetIntTo(params, "num_executors", INT32_MIN, INT32_MAX, &options.num_executors));
    MILLRACE_RETURN_IF_ERROR(GetIntTo(params, "num_ps", INT32_MIN, INT32_MAX, &options.num_ps));
    MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "master_node", &options.master_node));
    MILLRACE_RETURN_IF_ERROR(GetBoolTo(params, "eval_node", &options.eval_node));
    return DealRoles(options);
  }
  MILLRACE_ASSIGN_OR_RETURN(const Json* list, GetArray(params, "roles", kWhere));
  std::vector<NodeRole> roles;
  for (const Json& entry : *list) {
    NodeRole role;
    MILLRACE_ASSIGN_OR_RETURN(role.job_name, GetString(entry, "job_name", "params.roles"));
    MILLRACE_RETURN_IF_ERROR(
        GetIntTo(entry, "task_index", 0, INT32_MAX, &role.task_index, "params.roles"));
    roles.push_back(std::move(role));
  }
  return roles;
}

absl::StatusOr<InputMode> GetInputMode(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string mode,
                            GetStringOr(params, "input_mode", "DIRECT", kWhere));
  if (mode == "DIRECT") return InputMode::kDirect;
  if (mode == "FEED") return InputMode::kFeed;
  return absl::InvalidArgumentError(absl::StrCat("field \"params.input_mode\" is \"",
                                                 Ellipsize(EscapeControls(mode), 60),
                                                 "\": must be DIRECT or FEED"));
}

absl::Status GetSidecarsTo(const Json& params, std::vector<Sidecar>* sidecars) {
  bool tensorboard = false;
  MILLRACE_RETURN_IF_ERROR(GetBoolTo(params, "tensorboard", &tensorboard));
  if (tensorboard) sidecars->push_back(TensorBoardSidecar());
  if (!Has(params, "sidecars")) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Json* list, GetArray(params, "sidecars", kWhere));
  for (const Json& entry : *list) {
    Sidecar sidecar;
    MILLRACE_ASSIGN_OR_RETURN(sidecar.name, GetString(entry, "name", "params.sidecars"));
    MILLRACE_ASSIGN_OR_RETURN(sidecar.program, GetString(entry, "program", "params.sidecars"));
    MILLRACE_RETURN_IF_ERROR(GetStringTo(entry, "node", &sidecar.node, "params.sidecars"));
    MILLRACE_RETURN_IF_ERROR(GetListTo(entry, "args", &sidecar.args, "params.sidecars"));
    MILLRACE_RETURN_IF_ERROR(GetEnvTo(entry, &sidecar.env, "params.sidecars"));
    sidecars->push_back(std::move(sidecar));
  }
  return absl::OkStatus();
}

absl::Status GetGpusTo(const Json& params, NodeSettings* node) {
  MILLRACE_RETURN_IF_ERROR(GetIntTo(params, "gpus_per_node", 0, INT32_MAX, &node->gpus_per_node));
  if (!Has(params, "gpus_by_job")) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Json* jobs, GetObject(params, "gpus_by_job", kWhere));
  for (const auto& [job, unused] : jobs->items()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t count,
                              GetIntInRange(*jobs, job, 0, INT32_MAX, "params.gpus_by_job"));
    node->gpus_by_job[job] = static_cast<int>(count);
  }
  return absl::OkStatus();
}

absl::Status GetNodeTo(const Json& params, NodeSettings* node) {
  MILLRACE_ASSIGN_OR_RETURN(node->program, GetString(params, "program", kWhere));
  MILLRACE_RETURN_IF_ERROR(GetBoolTo(params, "shipped", &node->shipped));
  MILLRACE_RETURN_IF_ERROR(GetListTo(params, "args", &node->args));
  MILLRACE_RETURN_IF_ERROR(GetEnvTo(params, &node->env));
  MILLRACE_ASSIGN_OR_RETURN(node->input_mode, GetInputMode(params));
  MILLRACE_RETURN_IF_ERROR(GetListTo(params, "queues", &node->queues));
  MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "default_fs", &node->default_fs));
  MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "log_dir", &node->log_dir));
  MILLRACE_RETURN_IF_ERROR(GetBoolTo(params, "release_port", &node->release_port));
  MILLRACE_RETURN_IF_ERROR(GetGpusTo(params, node));
  MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "feed_port_range", &node->feed_port_range));
  MILLRACE_RETURN_IF_ERROR(GetInt64To(params, "feed_budget_bytes", 1, &node->feed_budget_bytes));
  MILLRACE_RETURN_IF_ERROR(
      GetInt64To(params, "log_bytes_per_second", 0, &node->log_bytes_per_second));
  MILLRACE_RETURN_IF_ERROR(GetDurationTo(params, "stop_grace_ms", &node->stop_grace));
  MILLRACE_RETURN_IF_ERROR(GetDurationTo(params, "stop_timeout_ms", &node->stop_timeout));
  return GetSidecarsTo(params, &node->sidecars);
}

absl::Status GetRestartTo(const Json& object, RestartPolicy* policy,
                          absl::string_view where = kWhere) {
  MILLRACE_RETURN_IF_ERROR(
      GetIntTo(object, "max_restarts", 0, INT32_MAX, &policy->max_restarts, where));
  MILLRACE_RETURN_IF_ERROR(GetDurationTo(object, "restart_window_ms", &policy->window, where));
  MILLRACE_RETURN_IF_ERROR(
      GetDurationTo(object, "restart_backoff_ms", &policy->initial_backoff, where));
  return GetDurationTo(object, "max_restart_backoff_ms", &policy->max_backoff, where);
}

// The restart policy of all slots, and then those of single jobs, which take what they leave out
// from the first.
absl::Status GetRestartsTo(const Json& params, CoordinatorOptions* options) {
  MILLRACE_RETURN_IF_ERROR(GetRestartTo(params, &options->restart));
  if (Has(params, "restarts")) {
    MILLRACE_ASSIGN_OR_RETURN(const Json* jobs, GetObject(params, "restarts", kWhere));
    for (const auto& [job, unused] : jobs->items()) {
      MILLRACE_ASSIGN_OR_RETURN(const Json* entry, GetObject(*jobs, job, "params.restarts"));
      RestartPolicy policy = options->restart;
      MILLRACE_RETURN_IF_ERROR(
          GetRestartTo(*entry, &policy, absl::StrCat("params.restarts.", job)));
      options->restarts[job] = policy;
    }
  }
  if (!Has(params, "quarantine")) return absl::OkStatus();
  constexpr absl::string_view kQuarantine = "params.quarantine";
  MILLRACE_ASSIGN_OR_RETURN(const Json* quarantine, GetObject(params, "quarantine", kWhere));
  QuarantinePolicy* const policy = &options->quarantine;
  MILLRACE_RETURN_IF_ERROR(
      GetIntTo(*quarantine, "failures", 1, INT32_MAX, &policy->failures, kQuarantine));
  MILLRACE_RETURN_IF_ERROR(GetDurationTo(*quarantine, "window_ms", &policy->window, kQuarantine));
  return GetDurationTo(*quarantine, "duration_ms", &policy->duration, kQuarantine);
}

absl::Status GetPortRangeTo(const Json& params, PortRange* range) {
  std::string text;
  MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "port_range", &text));
  if (text.empty()) return absl::OkStatus();
  absl::StatusOr<PortRange> parsed = ParsePortRange(text);
  if (!parsed.ok()) return Annotate(parsed.status(), "field \"params.port_range\"");
  *range = *parsed;
  return absl::OkStatus();
}

Json Millis(absl::Time time) { return absl::ToUnixMillis(time); }

}  // namespace

absl::StatusOr<absl::Duration> GetDuration(const Json& params, absl::string_view key,
                                           absl::Duration fallback, absl::string_view where) {
  if (!Has(params, std::string(key).c_str())) return fallback;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t ms, GetIntInRange(params, key, -1, kMaxMs, where));
  return ms < 0 ? absl::InfiniteDuration() : absl::Milliseconds(ms);
}

absl::StatusOr<NodeFilter> GetFilter(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string name, GetStringOr(params, "filter", "all", kWhere));
  if (name == "all") return NodeFilter::kAll;
  if (name == "fed") return NodeFilter::kFed;
  if (name == "ps_and_evaluator") return NodeFilter::kPsAndEvaluator;
  return absl::InvalidArgumentError(absl::StrCat("field \"params.filter\" is \"",
                                                 Ellipsize(EscapeControls(name), 60),
                                                 "\": must be fed, ps_and_evaluator or all"));
}

absl::StatusOr<int> GetExecutor(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t id,
                            GetIntInRange(params, "executor_id", 0, INT32_MAX, kWhere));
  return static_cast<int>(id);
}

absl::StatusOr<CoordinatorStart> ParseCoordinatorStart(const Json& params) {
  CoordinatorStart start;
  CoordinatorOptions& options = start.options;
  MILLRACE_ASSIGN_OR_RETURN(options.roles, GetRoles(params));
  MILLRACE_RETURN_IF_ERROR(GetNodeTo(params, &options.node));
  MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "cluster_id", &options.cluster_id));
  MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "bind_address", &options.bind_address));
  MILLRACE_RETURN_IF_ERROR(GetIntTo(params, "port", 0, 65535, &options.port));
  MILLRACE_RETURN_IF_ERROR(GetPortRangeTo(params, &options.port_range));
  MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "advertise_host", &options.advertise_host));
  MILLRACE_RETURN_IF_ERROR(GetStringTo(params, "event_log_dir", &options.event_log_dir));
  MILLRACE_RETURN_IF_ERROR(
      GetDurationTo(params, "reservation_timeout_ms", &options.reservation_timeout));
  MILLRACE_RETURN_IF_ERROR(
      GetDurationTo(params, "heartbeat_interval_ms", &options.heartbeat_interval));
  MILLRACE_RETURN_IF_ERROR(GetDurationTo(params, "lost_after_ms", &options.lost_after));
  MILLRACE_RETURN_IF_ERROR(GetDurationTo(params, "lease_ms", &options.lease));
  MILLRACE_RETURN_IF_ERROR(GetRestartsTo(params, &options));
  MILLRACE_RETURN_IF_ERROR(GetBoolTo(params, "log_events", &start.log_events));
  MILLRACE_RETURN_IF_ERROR(GetBoolTo(params, "metric_events", &start.metric_events));
  MILLRACE_RETURN_IF_ERROR(GetBoolTo(params, "cluster_file", &start.cluster_file));
  return start;
}

Json StatusToJson(const absl::Status& status) {
  if (status.ok()) return Json();
  return {{"code", absl::StatusCodeToString(status.code())},
          {"message", std::string(status.message())}};
}

Json SlotToJson(const SlotStatus& slot) {
  Json reached = Json::object();
  for (int i = 0; i < kNumSlotStates; ++i) {
    if (slot.reached[i] == absl::InfinitePast()) continue;
    reached[std::string(SlotStateName(static_cast<SlotState>(i)))] = Millis(slot.reached[i]);
  }
  return {{"executor_id", slot.executor_id},
          {"job_name", slot.role.job_name},
          {"task_index", slot.role.task_index},
          {"state", std::string(SlotStateName(slot.state))},
          {"attempt", slot.attempt},
          {"host", slot.host},
          {"address", slot.address},
          {"agent_pid", slot.agent_pid},
          {"node_pid", slot.node_pid},
          {"attached", slot.attached},
          {"stopped", slot.stopped},
          {"stop_asked", slot.stop_asked},
          {"has_feed", slot.has_feed},
          {"reached_ms", reached},
          {"error", StatusToJson(slot.error)}};
}

Json ClusterToJson(const ClusterStatus& status, int first, int limit) {
  Json slots = Json::array();
  const int size = static_cast<int>(status.slots.size());
  const int end = size - first > limit ? first + limit : size;
  for (int i = first; i < end; ++i) slots.push_back(SlotToJson(status.slots[i]));
  Json json = {{"cluster_id", status.cluster_id},
               {"epoch", status.epoch},
               {"time_ms", Millis(status.time)},
               {"num_slots", size},
               {"slots", slots},
               {"first_cause", status.first_cause.has_value()
                                   ? FailureToJson(*status.first_cause, status.folded_failures)
                                   : Json()},
               {"fenced_updates", status.fenced_updates},
               {"illegal_updates", status.illegal_updates}};
  if (end < size) json["next"] = end;
  return json;
}

Json FailureToJson(const NodeFailure& failure, int folded) {
  Json json = {{"executor_id", failure.executor_id},
               {"node", failure.role.ToString()},
               {"attempt", failure.attempt},
               {"host", failure.host},
               {"pid", failure.pid},
               {"code", absl::StatusCodeToString(failure.status.code())},
               {"message", FailureText(failure, folded)},
               {"stderr_tail", failure.stderr_tail},
               {"time_ms", Millis(failure.time)},
               {"folded_failures", folded}};
  if (failure.exit.kind == ExitStatus::Kind::kExited) json["exit_code"] = failure.exit.code;
  if (failure.exit.kind == ExitStatus::Kind::kSignaled) json["signal"] = failure.exit.signal;
  return json;
}

Json SummaryToJson(const FeedSummary& summary) {
  Json refed = Json::array();
  for (const RefedSummary& rows : summary.refed) {
    refed.push_back({{"executor_id", rows.executor_id},
                     {"reason", rows.reason},
                     {"times", rows.times},
                     {"rows", rows.rows}});
  }
  return {{"feed", summary.feed_id},
          {"queue", summary.queue},
          {"partitions", summary.partitions},
          {"pending", summary.pending},
          {"feeding", summary.feeding},
          {"received", summary.received},
          {"done", summary.done},
          {"failed", summary.failed},
          {"rows_received", summary.rows_received},
          {"rows_acked", summary.rows_acked},
          {"rows_returned", summary.rows_returned},
          {"partitions_refed", summary.partitions_refed},
          {"rows_refed", summary.rows_refed},
          {"refed", refed},
          {"source_us", summary.stages.source_us},
          {"encode_us", summary.stages.encode_us},
          {"credit_us", summary.stages.credit_us},
          {"wire_us", summary.stages.wire_us},
          {"exactly_once", summary.exactly_once},
          {"closed", summary.closed},
          {"failed_partitions", summary.failed_partitions},
          {"refed_partitions", summary.refed_partitions}};
}

}  // namespace millrace
