#include "core/node/node_context.h"

#include <fcntl.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/net/socket_address.h"
#include "core/node/absolute_path.h"
#include "core/node/feed_sample.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// A driver of GPUs that has to be woken up first takes its time.
constexpr absl::Duration kGpuTimeout = absl::Seconds(90);
// How long the last message may wait for an agent that is busy.
constexpr absl::Duration kFlushTimeout = absl::Seconds(5);
// Of the message of a failed program; the agent cuts it too.
constexpr size_t kMaxExitMessageBytes = 8192;

// What the agent says has changed; without its word, what differs.
absl::StatusOr<std::vector<MembershipChange>> ReadChanges(const Json& frame,
                                                          const ClusterSpec& before,
                                                          const ClusterSpec& now) {
  std::vector<MembershipChange> changes;
  if (frame.contains("changes")) {
    MILLRACE_ASSIGN_OR_RETURN(const Json* list, GetArray(frame, "changes"));
    for (const Json& each : *list) {
      constexpr int kMax = std::numeric_limits<int>::max();
      MembershipChange change;
      MILLRACE_ASSIGN_OR_RETURN(change.job_name, GetString(each, "job_name"));
      MILLRACE_ASSIGN_OR_RETURN(const int64_t index, GetIntInRange(each, "task_index", 0, kMax));
      MILLRACE_ASSIGN_OR_RETURN(const int64_t attempt, GetIntInRange(each, "attempt", 0, kMax));
      MILLRACE_ASSIGN_OR_RETURN(change.new_address, GetString(each, "address"));
      change.task_index = static_cast<int>(index);
      change.attempt = static_cast<int>(attempt);
      change.old_address = before.TaskAddress(change.job_name, change.task_index).value_or("");
      changes.push_back(std::move(change));
    }
  }
  if (!changes.empty()) return changes;
  const ClusterSpecDiff diff = DiffClusterSpecs(before, now);
  for (const auto& task : diff.added) changes.push_back({task.job, task.index, "", task.address});
  for (const auto& task : diff.removed) changes.push_back({task.job, task.index, task.address, ""});
  for (const auto& move : diff.moved) changes.push_back({move.job, move.index, move.from, move.to});
  return changes;
}

}  // namespace

namespace internal {

// ---- life ---------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<NodeContext>> NodeContextImpl::Create(NodeConfig config,
                                                                     UniqueFd control_fd,
                                                                     AgentGoneFn on_agent_gone) {
  if (config.port_fd.has_value() && ::fcntl(*config.port_fd, F_SETFD, FD_CLOEXEC) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "descriptor ", *config.port_fd, ", the reserved port of the context, is not open"));
  }
  std::unique_ptr<NodeContextImpl> node(
      new NodeContextImpl(std::move(config), std::move(on_agent_gone)));
  MILLRACE_RETURN_IF_ERROR(node->Connect(std::move(control_fd)));
  return std::unique_ptr<NodeContext>(new NodeContext(std::move(node)));
}

NodeContextImpl::NodeContextImpl(NodeConfig config, AgentGoneFn on_agent_gone)
    : config_(std::move(config)),
      user_(PathUser()),
      on_agent_gone_(std::move(on_agent_gone)),
      cluster_spec_(config_.cluster_spec),
      epoch_(config_.epoch),
      gpus_(config_.gpus),
      port_held_(config_.port_fd.has_value()),
      port_fd_(config_.port_fd.value_or(-1)) {}

NodeContextImpl::~NodeContextImpl() = default;

std::string NodeContextImpl::name() const {
  return absl::StrCat(config_.job_name, ":", config_.task_index);
}

absl::Status NodeContextImpl::StartReceiver() {
  if (!config_.input_feed || !IsFedJob(config_.job_name)) return absl::OkStatus();
  FeedReceiverOptions options;
  options.node_name = name();
  options.nonce = config_.nonce;
  options.queues = config_.queues;
  options.budget_bytes = config_.feed_budget_bytes;
  options.shared_memory = config_.feed_shared_memory;
  options.tcp_ports = config_.feed_ports;
  options.tell_rows = [this](const ReceiverRows& rows) { TellRows(rows); };
  // Where the cluster reaches this node, it feeds it too.
  const absl::StatusOr<std::string> address =
      config_.cluster_spec.TaskAddress(config_.job_name, config_.task_index);
  if (address.ok()) {
    if (const auto own = ParseHostPort(*address); own.ok()) options.advertise_host = own->host;
  }
  MILLRACE_ASSIGN_OR_RETURN(receiver_, FeedReceiver::Start(std::move(options)));
  return absl::OkStatus();
}

absl::Status NodeContextImpl::Connect(UniqueFd control_fd) {
  // Before the channel, whose pushes go to it.
  const absl::Status received = Annotate(StartReceiver(), "receiving the feed");
  ControlClient::Handlers handlers;
  handlers.on_push = [this](ControlClient& control, const Json& frame) { OnPush(control, frame); };
  handlers.on_tick = [this](ControlClient& control) { SendSample(control); };
  handlers.on_closed = [this](const absl::Status& why) {
    // An agent may close the channel as soon as it knows how the node ends.
    if (!finished_.load()) on_agent_gone_(why);
  };
  MILLRACE_ASSIGN_OR_RETURN(control_, ControlClient::Start(std::move(control_fd), handlers));
  const Json hello{
      {"protocol", 1}, {"sdk", "millrace-c++"}, {"version", std::string(kMillraceVersion)}};
  MILLRACE_ASSIGN_OR_RETURN(const Json welcome, control_->Call("hello", hello, kAgentTimeout));
  if (!received.ok()) return Finish(received);
  MILLRACE_ASSIGN_OR_RETURN(const int64_t sample_ms, GetIntOr(welcome, "sample_interval_ms", 0));
  if (receiver_ != nullptr && sample_ms > 0) {
    control_->StartTicks(absl::Milliseconds(sample_ms));
  }
  Json ready{{"other", Json::object()}};
  if (receiver_ != nullptr) {
    const auto& endpoints = receiver_->endpoints();
    ready["feed"] = Json{{"tcp", endpoints.tcp},
                         {"ipc", endpoints.ipc},
                         {"key", endpoints.key},
                         {"curve", endpoints.curve},
                         {"curve_key", endpoints.curve_key}};
  }
  return control_->Call("ready", ready, kAgentTimeout).status();
}

absl::Status NodeContextImpl::Finish(const absl::Status& outcome) {
  if (finished_.exchange(true)) return outcome;
  const absl::Status end = receiver_ != nullptr ? receiver_->Finish(outcome) : outcome;
  SendSample(*control_);
  // Should it not reach the agent: the exit code says the same with fewer words.
  control_
      ->Notify("exit", Json{{"code", absl::StatusCodeToString(end.code())},
                            {"message", Ellipsize(end.message(), kMaxExitMessageBytes)}})
      .IgnoreError();
  control_->Flush(kFlushTimeout);
  return end;
}

absl::StatusOr<std::vector<std::string>> NodeContextImpl::Claim(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const Json result, control_->Call("gpu.claim", params, kGpuTimeout));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> ids, GetStringList(result, "ids"));
  MutexLock lock(&mu_);
  gpus_.insert(gpus_.end(), ids.begin(), ids.end());
  return ids;
}

// ---- pushes -------------------------------------------------------------------------------------

void NodeContextImpl::OnPush(ControlClient& control, const Json& frame) {
  const std::string kind = GetString(frame, "push").value_or("");
  absl::Status status;
  if (kind == "spec") {
    status = OnSpec(frame);
  } else if (kind == "feed_end") {
    status = OnFeedEnd(frame);
  } else if (kind == "end_feed") {
    status = OnEndFeed(frame);
  } else if (kind == "equal") {
    status = OnEqual(frame);
  } else if (kind == "feeder_keys") {
    status = OnFeederKeys(frame);
  } else if (kind == "stop") {
    const std::string reason = GetStringOr(frame, "reason", "").value_or("");
    MILLRACE_LOG(INFO) << "asked to stop: " << reason;
    if (receiver_ != nullptr) receiver_->EndAllFeeds();
    stop_.Notify();
    control.EndWaits(
        absl::CancelledError(absl::StrCat(name(), " was asked to stop: ", EscapeControls(reason))));
  } else {
    status = absl::UnimplementedError("unknown to this version of Millrace");
  }
  if (!status.ok()) {
    MILLRACE_LOG(WARNING) << "the agent's push \"" << kind << "\" is ignored: " << status.message();
  }
}

void NodeContextImpl::SendSample(ControlClient& control) {
  if (receiver_ == nullptr) return;
  // One that is lost is followed by the next.
  control.Notify("sample", FeedSampleJson(receiver_->stats())).IgnoreError();
}

absl::Status NodeContextImpl::OnSpec(const Json& frame) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t epoch, GetIntInRange(frame, "epoch", 0, kMax));
  MILLRACE_ASSIGN_OR_RETURN(const Json* json, GetObject(frame, "cluster_spec"));
  MILLRACE_ASSIGN_OR_RETURN(ClusterSpec spec, ClusterSpecFromJson(*json));
  std::shared_ptr<const MembershipFn> fn;
  ClusterSpec before;
  {
    MutexLock lock(&mu_);
    if (static_cast<uint64_t>(epoch) <= epoch_) return absl::OkStatus();  // overtaken
    epoch_ = static_cast<uint64_t>(epoch);
    before = std::exchange(cluster_spec_, spec);
    fn = membership_fn_;
    epoch_changed_.SignalAll();
  }
  if (fn == nullptr) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<MembershipChange> changes,
                            ReadChanges(frame, before, spec));
  (*fn)(static_cast<uint64_t>(epoch), changes);
  return absl::OkStatus();
}

absl::Status NodeContextImpl::OnFeedEnd(const Json& frame) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string feed_id, GetString(frame, "feed_id"));
  MILLRACE_ASSIGN_OR_RETURN(const bool aborted, GetBoolOr(frame, "aborted", false));
  if (receiver_ != nullptr) receiver_->FeedEnd(feed_id, aborted);
  return absl::OkStatus();
}

absl::Status NodeContextImpl::OnEndFeed(const Json& frame) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string queue, GetStringOr(frame, "queue", ""));
  if (receiver_ == nullptr) return absl::OkStatus();
  if (queue.empty()) {
    receiver_->EndAllFeeds();
  } else {
    receiver_->EndFeed(queue);
  }
  return absl::OkStatus();
}

absl::Status NodeContextImpl::JoinEqual(const DataFeedOptions& options) {
  const Json params{{"queue", options.queue},
                    {"batch_rows", options.batch_rows},
                    {"pad", options.equal == EqualRanks::kPad}};
  return control_->CallAndWait("equal.join", params, kRoundTrip).status();
}

void NodeContextImpl::TellRows(const ReceiverRows& rows) {
  const absl::Status told = control_->Notify("equal.rows", Json{{"queue", rows.queue},
                                                                {"feed_id", rows.feed_id},
                                                                {"generation", rows.generation},
                                                                {"answer", rows.answer},
                                                                {"rows", rows.rows},
                                                                {"dropped", rows.dropped},
                                                                {"repeated", rows.repeated},
                                                                {"can_repeat", rows.can_repeat}});
  if (!told.ok()) MILLRACE_LOG(WARNING) << "ranks that wait for this one do so in vain: " << told;
}

absl::Status NodeContextImpl::OnEqual(const Json& frame) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ReceiverGrant grant;
  MILLRACE_ASSIGN_OR_RETURN(grant.queue, GetString(frame, "queue"));
  MILLRACE_ASSIGN_OR_RETURN(grant.feed_id, GetString(frame, "feed_id"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t generation, GetIntInRange(frame, "generation", 1, kMax));
  MILLRACE_ASSIGN_OR_RETURN(grant.steps, GetIntInRange(frame, "steps", 0, kMax));
  MILLRACE_ASSIGN_OR_RETURN(grant.last, GetBoolOr(frame, "last", false));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t question, GetIntInRange(frame, "question", 0, kMax));
  grant.generation = static_cast<uint64_t>(generation);
  grant.question = static_cast<uint64_t>(question);
  if (frame.contains("error")) {
    MILLRACE_ASSIGN_OR_RETURN(const Json* error, GetObject(frame, "error"));
    MILLRACE_ASSIGN_OR_RETURN(const std::string code, GetString(*error, "code", "error"));
    MILLRACE_ASSIGN_OR_RETURN(const std::string message, GetString(*error, "message", "error"));
    grant.error = absl::Status(StatusCodeFromName(code), message);
    MILLRACE_ASSIGN_OR_RETURN(grant.fatal, GetBoolOr(frame, "fatal", false));
  }
  if (receiver_ != nullptr) receiver_->Grant(grant);
  return absl::OkStatus();
}

absl::Status NodeContextImpl::OnFeederKeys(const Json& frame) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* keys, GetObject(frame, "keys"));
  if (receiver_ == nullptr) return absl::OkStatus();
  absl::Status first;  // one that is wrong does not keep the others out
  for (const auto& [principal, key] : keys->items()) {
    const absl::StatusOr<std::string> text = GetString(*keys, principal, "keys");
    const absl::Status status =
        text.ok() ? receiver_->AnnounceFeeder(principal, *text) : text.status();
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace internal

absl::StatusOr<std::unique_ptr<NodeContext>> CreateNodeContext(NodeConfig config,
                                                               UniqueFd control_fd,
                                                               AgentGoneFn on_agent_gone) {
  return internal::NodeContextImpl::Create(std::move(config), std::move(control_fd),
                                           std::move(on_agent_gone));
}

absl::Status FinishNode(NodeContext& context, const absl::Status& outcome) {
  return internal::NodeContextImpl::Of(context).Finish(outcome);
}

}  // namespace millrace
