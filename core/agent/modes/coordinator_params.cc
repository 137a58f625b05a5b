#include "core/agent/modes/coordinator_params.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/coordinator/state/feed_proto.h"
#include "core/process/exit_status.h"
#include "core/proto/fields_json.h"
#include "core/proto/watch.pb.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::string_view kWhere = "params";
constexpr int64_t kMaxMs = int64_t{100} * 365 * 24 * 3600 * 1000;

Json Millis(absl::Time time) { return absl::ToUnixMillis(time); }

}  // namespace

absl::StatusOr<absl::Duration> GetDuration(const Json& params, absl::string_view key,
                                           absl::Duration fallback, absl::string_view where) {
  const std::string name(key);
  if (!params.is_object() || !params.contains(name) || params[name].is_null()) return fallback;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t ms, GetIntInRange(params, key, -1, kMaxMs, where));
  return ms < 0 ? absl::InfiniteDuration() : absl::Milliseconds(ms);
}

absl::StatusOr<NodeFilter> GetFilter(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string name, GetStringOr(params, "filter", "all", kWhere));
  if (name == "all") return NodeFilter::kAll;
  if (name == "fed") return NodeFilter::kFed;
  if (name == "ps_and_evaluator") return NodeFilter::kPsAndEvaluator;
  if (name == "evaluator") return NodeFilter::kEvaluator;
  return absl::InvalidArgumentError(
      absl::StrCat("field \"params.filter\" is \"", Ellipsize(EscapeControls(name), 60),
                   "\": must be fed, ps_and_evaluator, evaluator or all"));
}

absl::StatusOr<int> GetExecutor(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t id,
                            GetIntInRange(params, "executor_id", 0, INT32_MAX, kWhere));
  return static_cast<int>(id);
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
  const v1::FeedInfo info = ToFeedInfoProto(summary);
  Json json = FieldsToJson(info);
  json["feed"] = info.feed_id();
  json.erase("feed_id");
  json.update(Json(FieldsToJson(info.stages())));
  Json& refed = json["refed"] = Json::array();
  for (const v1::RefedRows& rows : info.refed()) refed.push_back(Json(FieldsToJson(rows)));
  json["failed_partitions"] = summary.failed_partitions;
  json["refed_partitions"] = summary.refed_partitions;
  return json;
}

}  // namespace millrace
