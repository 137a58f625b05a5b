#include "core/coordinator/view/cluster_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/net/socket_address.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxReasonBytes = 500;

std::string Name(const NodeRole& role, int executor_id, uint32_t attempt) {
  return absl::StrCat(role.ToString(), " (executor ", executor_id, ", attempt ", attempt, ")");
}

std::string Name(const SlotStatus& slot) { return Name(slot.role, slot.executor_id, slot.attempt); }

std::string Counted(int64_t count, absl::string_view one, absl::string_view many) {
  return absl::StrCat(count, " ", count == 1 ? one : many);
}

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(100)));
}

}  // namespace

ClusterRecorder::ClusterRecorder(const CoordinatorOptions& options, ViewStore* view, EventLog* log)
    : view_(view),
      log_(log),
      clock_(options.clock),
      num_slots_(static_cast<int>(options.roles.size())),
      roles_(options.roles),
      refusals_since_(clock_->SteadyNow()) {
  view_->UpdateCluster([&](v1::ClusterInfo* info) {
    info->set_cluster_id(options.cluster_id);
    info->set_phase(v1::ClusterInfo::PHASE_RESERVING);
    *info->mutable_started() = TimeToProto(clock_->Now());
    info->set_input_mode(options.input_mode == InputMode::kFeed ? v1::INPUT_MODE_FEED
                                                                : v1::INPUT_MODE_DIRECT);
    info->set_program(options.program.path);
    info->set_command(CommandOf(options.program));
    info->set_name(options.name);
    info->set_driver_host(LocalHostname());
    info->set_driver_pid(getpid());
    info->set_version(kMillraceVersion);
    for (const std::string& queue : options.feed.queues) info->add_queues(queue);
    *info->mutable_heartbeat_interval() = DurationToProto(options.heartbeat_interval);
    info->set_log_dir(options.log_dir);
  });
  Tell("cluster", v1::Event::SEVERITY_INFO, -1, 0,
       absl::StrCat("cluster ", options.cluster_id, " waits for ",
                    Counted(num_slots_, "node", "nodes"), " of ", CommandOf(options.program)));
}

void ClusterRecorder::Tell(v1::Event event) {
  event.set_text(EscapeControls(Ellipsize(event.text(), kMaxTextBytes)));
  std::shared_ptr<const v1::Event> kept = view_->AddEvent(std::move(event));
  if (log_ != nullptr) log_->Append(std::move(kept));
}

void ClusterRecorder::Tell(absl::string_view kind, v1::Event::Severity severity, int executor_id,
                           uint32_t attempt, std::string text) {
  v1::Event event;
  event.set_kind(std::string(kind));
  event.set_severity(severity);
  event.set_executor_id(executor_id);
  event.set_attempt(attempt);
  event.set_text(std::move(text));
  Tell(std::move(event));
}

void ClusterRecorder::SetPhase(v1::ClusterInfo::Phase phase) {
  view_->UpdateCluster([phase](v1::ClusterInfo* info) { info->set_phase(phase); });
}

// ---- slots --------------------------------------------------------------------------------------

void ClusterRecorder::TellSlot(const SlotStatus& before, const SlotStatus& now) {
  const auto tell = [&](absl::string_view kind, v1::Event::Severity severity,
                        absl::string_view what) {
    Tell(kind, severity, now.executor_id, now.attempt, absl::StrCat(Name(now), " ", what));
  };
  const bool fresh = now.attempt != before.attempt;
  if (fresh && now.attempt > 0) tell("restart", v1::Event::SEVERITY_INFO, "begins");
  if (now.state != before.state || fresh) {
    switch (now.state) {
      case SlotState::kRunning:
        if (before.state == SlotState::kLost && !fresh) {
          tell("agent", v1::Event::SEVERITY_INFO, "is back and runs");
        } else {
          tell("slot", v1::Event::SEVERITY_INFO,
               absl::StrCat("runs on ", now.host, ", pid ", now.node_pid));
        }
        break;
      case SlotState::kDraining:
        tell("slot", v1::Event::SEVERITY_INFO, "was asked to end");
        break;
      case SlotState::kFinished:
        tell("slot", v1::Event::SEVERITY_INFO, "has finished");
        break;
      case SlotState::kFailed:
        tell("slot", v1::Event::SEVERITY_WARNING, now.error.message());
        break;
      case SlotState::kLost:
        tell("slot", v1::Event::SEVERITY_WARNING, absl::StrCat("is lost: ", now.error.message()));
        break;
      default:
        break;  // the steps to there are in the slot
    }
  }
  if (fresh || IsEnded(now.state)) return;
  if (now.stopped != before.stopped) {
    tell("node", now.stopped ? v1::Event::SEVERITY_WARNING : v1::Event::SEVERITY_INFO,
         now.stopped ? "is stopped by a signal" : "goes on after it was stopped");
  }
  if (before.attached && !now.attached) {
    tell("agent", v1::Event::SEVERITY_WARNING, "has lost its agent's connection");
  } else if (!before.attached && now.attached && now.state >= SlotState::kRegistered &&
             before.state == now.state) {
    tell("agent", v1::Event::SEVERITY_INFO, "has its agent's connection again");
  }
}

void ClusterRecorder::Slot(const SlotStatus& slot) {
  MutexLock lock(&mu_);
  const std::shared_ptr<const SlotStatus> before = view_->SetSlot(slot);
  ended_ += IsEnded(slot.state) ? 1 : 0;
  if (before != nullptr) {
    ended_ -= IsEnded(before->state) ? 1 : 0;
    TellSlot(*before, slot);
  }
  if (phase_ == v1::ClusterInfo::PHASE_ENDED && ended_ < num_slots_) {
    SetPhase(phase_ = v1::ClusterInfo::PHASE_RUNNING);
  } else if (phase_ != v1::ClusterInfo::PHASE_ENDED && phase_ != v1::ClusterInfo::PHASE_RESERVING &&
             phase_ != v1::ClusterInfo::PHASE_FAILED && ended_ == num_slots_) {
    SetPhase(phase_ = v1::ClusterInfo::PHASE_ENDED);
    Tell("cluster", v1::Event::SEVERITY_INFO, -1, 0, "all nodes have ended");
  }
}

void ClusterRecorder::Endpoints(int executor_id, uint32_t attempt,
                                const std::map<std::string, std::string>& endpoints) {
  view_->SetEndpoints(executor_id, endpoints);
  if (endpoints.empty()) return;
  std::vector<std::string> texts;
  for (const auto& [name, address] : endpoints) {
    texts.push_back(absl::StrCat(name, " at ", address));
  }
  Tell("node", v1::Event::SEVERITY_INFO, executor_id, attempt,
       absl::StrCat(Name(roles_[executor_id], executor_id, attempt), " publishes ",
                    absl::StrJoin(texts, ", ")));
}

void ClusterRecorder::AllRunning() {
  MutexLock lock(&mu_);
  if (phase_ != v1::ClusterInfo::PHASE_RESERVING) return;
  SetPhase(phase_ = v1::ClusterInfo::PHASE_RUNNING);
  Tell("cluster", v1::Event::SEVERITY_INFO, -1, 0,
       num_slots_ == 1 ? "the node has been started"
                       : absl::StrCat("all ", num_slots_, " nodes have been started"));
}

void ClusterRecorder::Failure(const NodeFailure& failure, bool cause_known) {
  v1::Event event;
  event.set_kind("failure");
  event.set_severity(cause_known ? v1::Event::SEVERITY_WARNING : v1::Event::SEVERITY_ERROR);
  event.set_executor_id(failure.executor_id);
  event.set_attempt(failure.attempt);
  event.set_text(FailureText(failure, 0));
  event.set_folded(cause_known);
  Tell(std::move(event));
  if (!cause_known) return;
  view_->UpdateCluster(
      [](v1::ClusterInfo* info) { info->set_folded_failures(info->folded_failures() + 1); });
}

void ClusterRecorder::FirstCause(const NodeFailure& cause, int folded) {
  MutexLock lock(&mu_);
  phase_ = v1::ClusterInfo::PHASE_FAILED;
  view_->UpdateCluster([&](v1::ClusterInfo* info) {
    info->set_phase(v1::ClusterInfo::PHASE_FAILED);
    *info->mutable_first_cause() = ToErrorProto(FailureStatus(cause, folded));
    info->set_first_cause_executor(cause.executor_id);
    info->set_folded_failures(folded);
  });
  v1::Event event;
  event.set_kind("cluster");
  event.set_severity(v1::Event::SEVERITY_ERROR);
  event.set_executor_id(cause.executor_id);
  event.set_attempt(cause.attempt);
  event.set_text(absl::StrCat("the cluster has failed: ", FailureText(cause, folded)));
  event.set_first_cause(true);
  Tell(std::move(event));
}

void ClusterRecorder::Restart(const NodeFailure& failure, absl::Duration after, int used, int max) {
  Tell("restart", v1::Event::SEVERITY_WARNING, failure.executor_id, failure.attempt,
       absl::StrCat(failure.role.ToString(), " is started again in ", Seconds(after), " (restart ",
                    used, " of ", max, "): ", FailureText(failure, 0)));
}

void ClusterRecorder::Quarantined(const std::vector<QuarantinedHost>& hosts) {
  std::vector<QuarantinedHost> fresh;
  view_->UpdateCluster([&](v1::ClusterInfo* info) {
    for (const QuarantinedHost& host : hosts) {
      const bool known =
          std::any_of(info->quarantined().begin(), info->quarantined().end(),
                      [&](const v1::QuarantinedHost& old) { return old.host() == host.host; });
      if (!known) fresh.push_back(host);
    }
    info->clear_quarantined();
    for (const QuarantinedHost& host : hosts) {
      v1::QuarantinedHost* entry = info->add_quarantined();
      entry->set_host(host.host);
      *entry->mutable_until() = TimeToProto(host.until);
    }
  });
  for (const QuarantinedHost& host : fresh) {
    Tell("restart", v1::Event::SEVERITY_WARNING, -1, 0,
         absl::StrCat("restarts keep off host ", host.host, " for ",
                      Seconds(host.until - clock_->Now()), ": too many failures there"));
  }
}

// ---- the cluster --------------------------------------------------------------------------------

void ClusterRecorder::Spec(const ClusterSpec& spec, uint64_t epoch) {
  view_->SetSpec(spec, epoch);
  Tell("membership", v1::Event::SEVERITY_INFO, -1, 0,
       absl::StrCat("epoch ", epoch, ": ",
                    Counted(static_cast<int64_t>(spec.total_tasks()), "node is", "nodes are"),
                    " registered"));
}

void ClusterRecorder::SpecChange(const NodeRole& role, const std::string& address, uint32_t attempt,
                                 uint64_t epoch) {
  view_->ChangeSpec(role, address, attempt, epoch);
  Tell("membership", v1::Event::SEVERITY_INFO, -1, attempt,
       absl::StrCat("epoch ", epoch, ": ", role.ToString(), " is at ", address));
}

void ClusterRecorder::Counters(uint64_t fenced_updates, uint64_t illegal_updates) {
  MutexLock lock(&mu_);
  if (fenced_ == fenced_updates && illegal_ == illegal_updates) return;
  fenced_ = fenced_updates;
  illegal_ = illegal_updates;
  view_->UpdateCluster([&](v1::ClusterInfo* info) {
    info->set_fenced_updates(fenced_updates);
    info->set_illegal_updates(illegal_updates);
  });
}

void ClusterRecorder::Stopping(NodeFilter filter, absl::string_view reason, bool now) {
  const absl::string_view who = filter == NodeFilter::kAll         ? "all nodes are"
                                : filter == NodeFilter::kFed       ? "chief and workers are"
                                : filter == NodeFilter::kEvaluator ? "the evaluator is"
                                                                   : "ps and evaluator are";
  MutexLock lock(&mu_);
  if (phase_ == v1::ClusterInfo::PHASE_RUNNING || phase_ == v1::ClusterInfo::PHASE_RESERVING) {
    SetPhase(phase_ = v1::ClusterInfo::PHASE_STOPPING);
  }
  std::string text =
      absl::StrCat(who, now ? " killed: " : " asked to end: ", Ellipsize(reason, kMaxReasonBytes));
  if (text == stop_reason_) return;
  stop_reason_ = text;
  Tell("cluster", v1::Event::SEVERITY_INFO, -1, 0, std::move(text));
}

void ClusterRecorder::StopRequested(absl::string_view reason, bool now) {
  Tell("cluster", v1::Event::SEVERITY_WARNING, -1, 0,
       absl::StrCat("an operator stops the cluster", now ? " now: " : ": ",
                    Ellipsize(reason, kMaxReasonBytes)));
}

void ClusterRecorder::RestartRequested(int executor_id, absl::string_view reason) {
  Tell("restart", v1::Event::SEVERITY_WARNING, executor_id, 0,
       absl::StrCat("an operator restarts ", roles_[executor_id].ToString(), ": ",
                    Ellipsize(reason, kMaxReasonBytes)));
}

void ClusterRecorder::Ended() {
  MutexLock lock(&mu_);
  if (phase_ != v1::ClusterInfo::PHASE_FAILED && phase_ != v1::ClusterInfo::PHASE_ENDED) {
    SetPhase(phase_ = v1::ClusterInfo::PHASE_ENDED);
  }
  Tell("cluster", v1::Event::SEVERITY_INFO, -1, 0, "the coordinator has ended");
}

// ---- feeds --------------------------------------------------------------------------------------

void ClusterRecorder::FeedOpened(const FeedSummary& feed) {
  view_->SetFeed(feed);
  Tell("feed", v1::Event::SEVERITY_INFO, -1, 0,
       absl::StrCat("feed ", feed.feed_id, " is open on queue ", feed.queue, ": ",
                    Counted(feed.partitions, "partition", "partitions")));
}

void ClusterRecorder::FeedChanged(const FeedSummary& feed) { view_->SetFeed(feed); }

void ClusterRecorder::NodeFed(int executor_id, const std::vector<QueueLedger>& queues) {
  view_->SetLedger(executor_id, queues);
}

void ClusterRecorder::PartitionRefed(const FeedSummary& feed, int64_t partition, int executor_id,
                                     absl::string_view reason) {
  Tell("feed", v1::Event::SEVERITY_WARNING, executor_id, 0,
       absl::StrCat("feed ", feed.feed_id, ": partition ", partition,
                    " is fed again from row 0: ", Ellipsize(reason, kMaxReasonBytes)));
}

void ClusterRecorder::FeedClosed(const FeedSummary& feed) {
  view_->SetFeed(feed);
  const bool whole = feed.done == feed.partitions;
  Tell("feed", whole ? v1::Event::SEVERITY_INFO : v1::Event::SEVERITY_WARNING, -1, 0,
       absl::StrCat(
           "feed ", feed.feed_id, " has ended: ", feed.done, " of ",
           Counted(feed.partitions, "partition", "partitions"), " done, ", feed.rows_acked,
           " rows acknowledged",
           feed.exactly_once ? "" : absl::StrCat(", ", feed.rows_refed, " rows fed again")));
}

void ClusterRecorder::FeedRemoved(absl::string_view feed_id) { view_->RemoveFeed(feed_id); }

// ---- refused ------------------------------------------------------------------------------------

void ClusterRecorder::Refused(absl::string_view method, absl::string_view peer,
                              const absl::Status& why) {
  const absl::Duration now = clock_->SteadyNow();
  MutexLock lock(&mu_);
  if (now - refusals_since_ >= absl::Minutes(1)) {
    refusals_since_ = now;
    refusals_ = 0;
  }
  if (refusals_ >= kRefusals) {
    ++refusals_untold_;
    return;
  }
  ++refusals_;
  std::string text = absl::StrCat(method, " was refused to ", peer, ": ", why.message());
  if (refusals_untold_ > 0) {
    absl::StrAppend(&text, "; ", refusals_untold_, " more were refused before");
    refusals_untold_ = 0;
  }
  Tell("security", v1::Event::SEVERITY_WARNING, -1, 0, std::move(text));
}

}  // namespace millrace
