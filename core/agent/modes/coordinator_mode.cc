#include "core/agent/modes/coordinator_mode.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/agent/loop/exit_codes.h"
#include "core/agent/modes/coordinator_start.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/process/exit_status.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::string_view kWhere = "params";
// A line stays under 1 MiB.
constexpr int kMaxSlotsInLine = 1000;
// A coordinator whose parent is gone tells its agents so and then ends. These limit the two steps.
constexpr absl::Duration kStopNotice = absl::Milliseconds(200);
constexpr absl::Duration kEnd = absl::Milliseconds(900);

const char* SourceName(LogSource source) {
  switch (source) {
    case LogSource::kStdout:
      return "stdout";
    case LogSource::kStderr:
      return "stderr";
    case LogSource::kAgent:
      return "agent";
  }
  return "agent";
}

OrderedJson Ordered(const Json& json) { return OrderedJson(json); }

absl::StatusOr<Json> ToOutcome(const absl::Status& status) {
  if (!status.ok()) return status;
  return Json::object();
}

Json SummariesToJson(const std::vector<FeedSummary>& summaries) {
  Json feeds = Json::array();
  for (const FeedSummary& summary : summaries) feeds.push_back(SummaryToJson(summary));
  return Json{{"feeds", feeds}};
}

}  // namespace

CoordinatorMode::CoordinatorMode(EventLoop* loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      parent_(loop, options_.in_fd, options_.out_fd,
              {.on_request = [this](const Json& id, const std::string& method,
                                    const Json& params) { OnRequest(id, method, params); },
               .on_end = [this](const absl::Status& status) { OnParentGone(status); }}),
      calls_(loop) {}

CoordinatorMode::~CoordinatorMode() {
  loop_->Cancel(&end_timer_);
  if (coordinator_ != nullptr) coordinator_->Shutdown();
}

void CoordinatorMode::Start() {
  parent_.Event("ready", {{"protocol", 1}, {"version", options_.version}, {"pid", getpid()}});
  parent_.Start();
}

// ---- the parent ---------------------------------------------------------------------------------

const std::map<std::string, CoordinatorMode::Handler>& CoordinatorMode::Handlers() {
  static const auto* const handlers = new std::map<std::string, Handler>{
      {"status", &CoordinatorMode::Status},
      {"cluster_spec", &CoordinatorMode::Spec},
      {"endpoints", &CoordinatorMode::Endpoints},
      {"open_feed", &CoordinatorMode::OpenFeed},
      {"close_feed", &CoordinatorMode::CloseFeed},
      {"feed_summary", &CoordinatorMode::Summary},
      {"unfinished_partitions", &CoordinatorMode::Unfinished},
      {"feed_end", &CoordinatorMode::FeedEnd},
      {"end_feed", &CoordinatorMode::EndFeed},
      {"agent_gone", &CoordinatorMode::AgentGone},
      {"stop", &CoordinatorMode::Stop},
  };
  return *handlers;
}

void CoordinatorMode::OnRequest(const Json& id, const std::string& method, const Json& params) {
  if (method == "start") {
    StartCoordinator(id, params);
    return;
  }
  const auto handler = Handlers().find(method);
  const bool waits = method.rfind("wait_", 0) == 0;
  if (handler == Handlers().end() && !waits) {
    parent_.Reply(id, absl::UnimplementedError(absl::StrCat("no method \"", Ellipsize(method, 64),
                                                            "\" of a coordinator")));
    return;
  }
  if (ending_) {
    parent_.Reply(id, absl::CancelledError("the coordinator is ending"));
    return;
  }
  if (coordinator_ == nullptr) {
    parent_.Reply(id, absl::FailedPreconditionError(
                          absl::StrCat(method, " comes after the answer to start")));
    return;
  }
  if (!waits) {
    parent_.Reply(id, (this->*handler->second)(params));
    return;
  }
  absl::StatusOr<Wait> wait = ParseWait(method, params);
  if (!wait.ok()) {
    parent_.Reply(id, wait.status());
    return;
  }
  calls_.Start([wait = *std::move(wait), coordinator = coordinator_] { return wait(*coordinator); },
               [this, id](const absl::StatusOr<Json>& outcome) { parent_.Reply(id, outcome); });
}

void CoordinatorMode::StartCoordinator(const Json& id, const Json& params) {
  if (starting_ || coordinator_ != nullptr) {
    parent_.Reply(id, absl::FailedPreconditionError("start was called before"));
    return;
  }
  if (ending_) {
    parent_.Reply(id, absl::CancelledError("the coordinator is ending"));
    return;
  }
  absl::StatusOr<CoordinatorStart> start = ParseCoordinatorStart(params);
  if (!start.ok()) {
    parent_.Reply(id, start.status());
    return;
  }
  output_events_ = start->output_events;
  metric_events_ = start->metric_events;
  start->options.observer = this;
  starting_ = true;
  const auto made = std::make_shared<std::shared_ptr<Coordinator>>();
  calls_.Start(
      [made, options = std::move(start->options),
       cluster_file = start->cluster_file]() -> absl::StatusOr<Json> {
        MILLRACE_ASSIGN_OR_RETURN(*made, Coordinator::Start(options));
        if (cluster_file) (*made)->PublishClusterFile();
        return Json::object();
      },
      [this, id, made](const absl::StatusOr<Json>& outcome) {
        starting_ = false;
        coordinator_ = *made;
        OnStarted(id, outcome);
      });
}

void CoordinatorMode::OnStarted(const Json& id, const absl::StatusOr<Json>& outcome) {
  if (!outcome.ok()) {
    parent_.Reply(id, outcome.status());  // another start may follow
    return;
  }
  if (ending_) {
    Quit();
    return;
  }
  Json roles = Json::array();
  for (const SlotStatus& slot : coordinator_->Snapshot().slots)
    roles.push_back(slot.role.ToString());
  const CoordinatorTokens& tokens = coordinator_->tokens();
  parent_.Reply(id, Json{{"cluster_id", coordinator_->cluster_id()},
                         {"address", coordinator_->address()},
                         {"port", coordinator_->port()},
                         {"ca_pem", coordinator_->ca_pem()},
                         {"identity_pem", coordinator_->agent_identity_pem()},
                         {"tokens",
                          {{"agent", tokens.agent},
                           {"operator", tokens.operator_token},
                           {"viewer", tokens.viewer}}},
                         {"roles", roles}});
}

absl::StatusOr<CoordinatorMode::Wait> CoordinatorMode::ParseWait(const std::string& method,
                                                                 const Json& params) const {
  MILLRACE_ASSIGN_OR_RETURN(const absl::Duration timeout,
                            GetDuration(params, "timeout_ms", absl::InfiniteDuration()));
  if (method == "wait_running") {
    return Wait([timeout](Coordinator& coordinator) {
      return ToOutcome(coordinator.WaitRunning(timeout));
    });
  }
  if (method == "wait_fed_endpoints") {
    return Wait([timeout](Coordinator& coordinator) {
      return ToOutcome(coordinator.WaitFedEndpoints(timeout));
    });
  }
  if (method == "wait_ended") {
    MILLRACE_ASSIGN_OR_RETURN(const NodeFilter filter, GetFilter(params));
    return Wait([timeout, filter](Coordinator& coordinator) {
      return ToOutcome(coordinator.WaitEnded(filter, timeout));
    });
  }
  if (method == "wait_feed") {
    MILLRACE_ASSIGN_OR_RETURN(const std::string feed, GetString(params, "feed", kWhere));
    MILLRACE_ASSIGN_OR_RETURN(const int64_t done, GetInt(params, "done", kWhere));
    MILLRACE_ASSIGN_OR_RETURN(const int64_t failed, GetInt(params, "failed", kWhere));
    return Wait([=](Coordinator& coordinator) -> absl::StatusOr<Json> {
      MILLRACE_ASSIGN_OR_RETURN(const FeedSummary summary,
                                coordinator.WaitFeed(feed, done, failed, timeout));
      return SummariesToJson({summary});
    });
  }
  return absl::UnimplementedError(
      absl::StrCat("no method \"", Ellipsize(method, 64), "\" of a coordinator"));
}

void CoordinatorMode::OnParentGone(const absl::Status& status) {
  if (!status.ok()) {
    parent_.Event("error",
                  {{"code", "INVALID_ARGUMENT"},
                   {"message", absl::StrCat("the parent broke the protocol: ", status.message())}});
  }
  End(status.ok() ? kExitFinished : kExitAgentFailed, "the driver is gone");
}

void CoordinatorMode::OnSignal(int signal) {
  End(kExitFinished, absl::StrCat("the coordinator got ", SignalName(signal)));
}

// ---- the end ------------------------------------------------------------------------------------

void CoordinatorMode::End(int exit_code, absl::string_view reason) {
  exit_code_ = exit_code;
  if (end_timer_ == EventLoop::kNoTimer) end_timer_ = loop_->After(kEnd, [this] { Quit(); });
  if (std::exchange(ending_, true)) return;
  if (coordinator_ == nullptr) {
    if (calls_.idle()) Quit();
    return;
  }
  calls_.Start(
      [coordinator = coordinator_, reason = std::string(reason)]() -> absl::StatusOr<Json> {
        coordinator->Stop(NodeFilter::kAll, reason, /*now=*/true);
        coordinator->WaitEnded(NodeFilter::kAll, kStopNotice).IgnoreError();
        coordinator->Shutdown();
        return Json::object();
      },
      [this](const absl::StatusOr<Json>&) { Quit(); });
}

void CoordinatorMode::Quit() {
  loop_->Cancel(&end_timer_);
  loop_->Quit();
}

int CoordinatorMode::Cleanup() {
  parent_.Flush(absl::Milliseconds(100));
  return exit_code_;
}

// ---- what happens -------------------------------------------------------------------------------

void CoordinatorMode::PostEvent(std::string name, OrderedJson members, bool droppable) {
  loop_->mailbox()->Post(
      [this, name = std::move(name), members = std::move(members), droppable]() mutable {
        if (droppable && parent_.congested()) {
          ++dropped_events_;
          return;
        }
        if (dropped_events_ > 0) members["dropped_events"] = std::exchange(dropped_events_, 0);
        parent_.Event(name, members);
      });
}

void CoordinatorMode::OnSlot(const SlotStatus& slot) {
  PostEvent("slot", Ordered(SlotToJson(slot)), /*droppable=*/false);
}

void CoordinatorMode::OnOutput(int executor_id, const NodeRole& role, LogSource source,
                               const std::vector<std::string>& lines, uint64_t dropped) {
  if (!output_events_) return;
  PostEvent("output",
            {{"executor_id", executor_id},
             {"node", role.ToString()},
             {"source", SourceName(source)},
             {"lines", lines},
             {"dropped", dropped}},
            /*droppable=*/true);
}

void CoordinatorMode::OnMetric(int executor_id, const NodeRole& role, absl::string_view name,
                               int64_t step, double value) {
  if (!metric_events_) return;
  PostEvent("metric",
            {{"executor_id", executor_id},
             {"node", role.ToString()},
             {"name", std::string(name)},
             {"step", step},
             {"value", value}},
            /*droppable=*/true);
}

void CoordinatorMode::OnFailure(const absl::Status& status) {
  loop_->mailbox()->Post([this, status] {
    if (coordinator_ == nullptr) return;
    const ClusterStatus cluster = coordinator_->Snapshot();
    parent_.Event("failure",
                  cluster.first_cause.has_value()
                      ? Ordered(FailureToJson(*cluster.first_cause, cluster.folded_failures))
                      : Ordered(StatusToJson(status)));
  });
}

void CoordinatorMode::OnRestart(const NodeRestart& restart) {
  MILLRACE_LOG(WARNING) << RestartText(restart);
}

void CoordinatorMode::OnRelaunch(int executor_id) {
  PostEvent("relaunch", {{"executor_id", executor_id}}, /*droppable=*/false);
}

// ---- methods that answer at once ----------------------------------------------------------------

absl::StatusOr<Json> CoordinatorMode::Status(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t first, GetIntOr(params, "first", 0, kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t limit,
                            GetIntOr(params, "limit", kMaxSlotsInLine, kWhere));
  const ClusterStatus status = coordinator_->Snapshot();
  const int64_t size = static_cast<int64_t>(status.slots.size());
  if (first < 0 || first > size || limit < 1 || limit > kMaxSlotsInLine) {
    return absl::InvalidArgumentError(
        absl::StrCat("status: first must be 0 to ", size, ", limit 1 to ", kMaxSlotsInLine));
  }
  return ClusterToJson(status, static_cast<int>(first), static_cast<int>(limit));
}

absl::StatusOr<Json> CoordinatorMode::Spec(const Json&) {
  return Json{{"epoch", coordinator_->Snapshot().epoch},
              {"cluster_spec", Json(ClusterSpecToJson(coordinator_->spec()))}};
}

absl::StatusOr<Json> CoordinatorMode::Endpoints(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const int executor_id, GetExecutor(params));
  MILLRACE_ASSIGN_OR_RETURN(const auto endpoints, coordinator_->PublishedEndpoints(executor_id));
  return Json{{"endpoints", Json(endpoints)}};
}

absl::StatusOr<Json> CoordinatorMode::OpenFeed(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string feed, GetString(params, "feed", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const std::string queue, GetString(params, "queue", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t partitions, GetInt(params, "partitions", kWhere));
  return ToOutcome(coordinator_->OpenFeed(feed, queue, partitions));
}

absl::StatusOr<Json> CoordinatorMode::CloseFeed(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string feed, GetString(params, "feed", kWhere));
  MILLRACE_RETURN_IF_ERROR(coordinator_->FeedSummaryOf(feed).status());
  coordinator_->CloseFeed(feed);
  return Json::object();
}

absl::StatusOr<Json> CoordinatorMode::Summary(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string feed, GetStringOr(params, "feed", "", kWhere));
  if (feed.empty()) return SummariesToJson(coordinator_->FeedSummaries());
  MILLRACE_ASSIGN_OR_RETURN(const FeedSummary summary, coordinator_->FeedSummaryOf(feed));
  Json json = SummaryToJson(summary);
  bool settled = true;
  const std::vector<EqualCounts> equal =
      coordinator_->WaitEqualCounts(feed, absl::ZeroDuration(), &settled);
  if (!equal.empty()) {
    Json nodes = Json::array();
    for (const EqualCounts& counts : equal) {
      MILLRACE_ASSIGN_OR_RETURN(const FeedTarget node,
                                coordinator_->LookupFeed(counts.executor_id));
      nodes.push_back(Json{{"executor_id", counts.executor_id},
                           {"node", node.node},
                           {"dropped_rows", counts.dropped},
                           {"repeated_rows", counts.repeated},
                           {"complete", counts.complete}});
    }
    json["equal"] = Json{{"settled", settled}, {"nodes", std::move(nodes)}};
  }
  return Json{{"feeds", Json::array({std::move(json)})}};
}

absl::StatusOr<Json> CoordinatorMode::Unfinished(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string feed, GetString(params, "feed", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const int executor_id, GetExecutor(params));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t attempt,
                            GetIntInRange(params, "attempt", 0, UINT32_MAX, kWhere));
  return Json{{"partitions", coordinator_->UnfinishedPartitions(feed, executor_id,
                                                                static_cast<uint32_t>(attempt))}};
}

// Whether `feed` is known, or is a later round of a known one: "<feed>.<n>", which is never opened
// by itself.
absl::Status CoordinatorMode::CheckFeedOrRound(const std::string& feed) const {
  const absl::Status status = coordinator_->FeedSummaryOf(feed).status();
  const size_t dot = feed.rfind('.');
  int round = 0;
  if (status.ok() || dot == std::string::npos || !absl::SimpleAtoi(feed.substr(dot + 1), &round) ||
      !coordinator_->FeedSummaryOf(feed.substr(0, dot)).ok()) {
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> CoordinatorMode::FeedEnd(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string feed, GetString(params, "feed", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const bool aborted, GetBoolOr(params, "aborted", false, kWhere));
  MILLRACE_RETURN_IF_ERROR(CheckFeedOrRound(feed));
  coordinator_->FeedEnd(feed, aborted);
  return Json::object();
}

absl::StatusOr<Json> CoordinatorMode::EndFeed(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string queue, GetStringOr(params, "queue", "", kWhere));
  coordinator_->EndFeed(queue);
  return Json::object();
}

absl::StatusOr<Json> CoordinatorMode::AgentGone(const Json& params) {
  AgentExit gone;
  MILLRACE_ASSIGN_OR_RETURN(gone.executor_id, GetExecutor(params));
  MILLRACE_ASSIGN_OR_RETURN(gone.agent_id, GetString(params, "agent_id", kWhere));
  if (params.contains("signal")) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t signal,
                              GetIntInRange(params, "signal", 1, 127, kWhere));
    gone.exit = {.kind = ExitStatus::Kind::kSignaled, .signal = static_cast<int>(signal)};
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t code,
                              GetIntInRange(params, "exit_code", 0, 255, kWhere));
    gone.exit = {.kind = ExitStatus::Kind::kExited, .code = static_cast<int>(code)};
  }
  coordinator_->ReportAgentExit(gone);
  return Json::object();
}

absl::StatusOr<Json> CoordinatorMode::Stop(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const NodeFilter filter, GetFilter(params));
  MILLRACE_ASSIGN_OR_RETURN(const std::string reason,
                            GetStringOr(params, "reason", "stopped by the driver", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const bool now, GetBoolOr(params, "now", false, kWhere));
  coordinator_->Stop(filter, reason, now);
  return Json::object();
}

}  // namespace millrace
