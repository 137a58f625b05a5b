#include "core/node/node_context.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/net/socket_address.h"
#include "core/node/absolute_path.h"
#include "core/node/feed_sample.h"
#include "core/node/model_export.h"
#include "core/node/node_exit.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// How long the agent may take for what needs no other host.
constexpr absl::Duration kAgentTimeout = absl::Seconds(30);
// A driver that has to be woken up first takes its time.
constexpr absl::Duration kGpuTimeout = absl::Seconds(90);
// What a call that waits at the coordinator may take beyond its own timeout.
constexpr absl::Duration kRoundTrip = absl::Seconds(30);
// How long the last message may wait for an agent that is busy.
constexpr absl::Duration kFlushTimeout = absl::Seconds(5);
// Of the message of a failed program; the agent cuts it too.
constexpr size_t kMaxExitMessageBytes = 8192;

// The protocol's timeouts are whole milliseconds and finite: rounded up, since 0 means not to wait.
int64_t TimeoutMs(absl::Duration timeout) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 100);
  const absl::Duration waited = std::clamp(timeout, absl::ZeroDuration(), kLongest);
  return absl::ToInt64Milliseconds(absl::Ceil(waited, absl::Milliseconds(1)));
}

// JSON carries text; bytes that are none would silently become another name.
absl::StatusOr<std::string> Utf8(absl::string_view what, absl::string_view name) {
  absl::string_view rest = name;
  while (!rest.empty()) {
    const size_t length = Utf8SequenceLength(rest);
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " \"", EscapeControls(Ellipsize(name, 100)), "\" is not UTF-8"));
    }
    rest.remove_prefix(length);
  }
  return std::string(name);
}

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

absl::Status NodeContextImpl::StartReceiver() {
  if (!config_.input_feed || !IsFedJob(config_.job_name)) return absl::OkStatus();
  FeedReceiverOptions options;
  options.node_name = name();
  options.nonce = config_.nonce;
  options.queues = config_.queues;
  options.budget_bytes = config_.feed_budget_bytes;
  options.tcp_ports = config_.feed_ports;
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
  handlers.on_closed = [this](const absl::Status& why) {
    // An agent may close the channel as soon as it knows how the node ends.
    if (!finished_.load()) on_agent_gone_(why);
  };
  MILLRACE_ASSIGN_OR_RETURN(control_, ControlClient::Start(std::move(control_fd), handlers));
  const Json hello{{"protocol", 1}, {"sdk", "millrace-c++"}};
  MILLRACE_RETURN_IF_ERROR(control_->Call("hello", hello, kAgentTimeout));
  if (!received.ok()) return Finish(received);
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
  } else if (kind == "feeder_keys") {
    status = OnFeederKeys(frame);
  } else if (kind == "sample") {
    SendSample(control);
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

bool NodeContextImpl::WaitForEpoch(uint64_t epoch, absl::Duration timeout) const {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (epoch_ < epoch) {
    if (epoch_changed_.WaitWithDeadline(&mu_, deadline)) return epoch_ >= epoch;
  }
  return true;
}

void NodeContextImpl::OnMembershipChange(MembershipFn fn) {
  std::shared_ptr<const MembershipFn> shared;
  if (fn != nullptr) shared = std::make_shared<const MembershipFn>(std::move(fn));
  MutexLock lock(&mu_);
  membership_fn_.swap(shared);
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

// ---- identity -----------------------------------------------------------------------------------

std::string NodeContextImpl::name() const {
  return absl::StrCat(config_.job_name, ":", config_.task_index);
}

bool NodeContextImpl::is_chief() const {
  if (config_.job_name == "chief" || config_.job_name == "master") return true;
  return config_.job_name == "worker" && config_.rank == 0;
}

ClusterSpec NodeContextImpl::cluster_spec() const {
  MutexLock lock(&mu_);
  return cluster_spec_;
}

uint64_t NodeContextImpl::epoch() const {
  MutexLock lock(&mu_);
  return epoch_;
}

std::string NodeContextImpl::AbsolutePath(absl::string_view path) const {
  return millrace::AbsolutePath(path, config_.default_fs, config_.working_dir, user_);
}

int NodeContextImpl::port_fd() const {
  MutexLock lock(&mu_);
  return port_fd_.get();
}

absl::Status NodeContextImpl::ReleasePort() {
  {
    MutexLock lock(&mu_);
    if (!port_held_) return absl::OkStatus();
    port_fd_.reset();
  }
  MILLRACE_RETURN_IF_ERROR(control_->Call("release_port", Json::object(), kAgentTimeout));
  MutexLock lock(&mu_);
  port_held_ = false;
  return absl::OkStatus();
}

std::vector<std::string> NodeContextImpl::gpus() const {
  MutexLock lock(&mu_);
  return gpus_;
}

absl::StatusOr<std::vector<std::string>> NodeContextImpl::ClaimGpus(int num_gpus) {
  if (num_gpus < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), " asked for ", num_gpus, " GPUs; the least is 1"));
  }
  return Claim(Json{{"count", num_gpus}});
}

absl::StatusOr<std::vector<std::string>> NodeContextImpl::ClaimGpus(
    const std::vector<std::string>& ids) {
  if (ids.empty())
    return absl::InvalidArgumentError(absl::StrCat(name(), " named no GPU to claim"));
  for (const std::string& id : ids) {
    MILLRACE_RETURN_IF_ERROR(Utf8("the id of a GPU", id).status());
  }
  return Claim(Json{{"ids", ids}});
}

absl::StatusOr<std::vector<std::string>> NodeContextImpl::Claim(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const Json result, control_->Call("gpu.claim", params, kGpuTimeout));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> ids, GetStringList(result, "ids"));
  MutexLock lock(&mu_);
  gpus_.insert(gpus_.end(), ids.begin(), ids.end());
  return ids;
}

absl::Status NodeContextImpl::ReleaseGpus(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    MILLRACE_RETURN_IF_ERROR(Utf8("the id of a GPU", id).status());
  }
  MILLRACE_RETURN_IF_ERROR(
      control_->Call("gpu.release", Json{{"ids", ids}}, kAgentTimeout).status());
  MutexLock lock(&mu_);
  for (const std::string& id : ids) std::erase(gpus_, id);
  return absl::OkStatus();
}

// ---- data ---------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<DataFeed>> NodeContextImpl::TryGetDataFeed(
    const DataFeedOptions& options) {
  if (receiver_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        name(), " is not fed: ",
        config_.input_feed ? "only chief, master and workers are"
                           : "the cluster runs in InputMode DIRECT; run it with InputMode FEED"));
  }
  return receiver_->GetDataFeed(options);
}

std::unique_ptr<DataFeed> NodeContextImpl::GetDataFeed(const DataFeedOptions& options) {
  absl::StatusOr<std::unique_ptr<DataFeed>> feed = TryGetDataFeed(options);
  if (feed.ok()) return *std::move(feed);
  const absl::Status outcome = Finish(Annotate(feed.status(), "GetDataFeed"));
  PrintNodeError(name(), outcome);
  std::fflush(stdout);
  ::_exit(kNodeExitFailed);  // not exit(): threads of the program still run
}

absl::Status NodeContextImpl::ExportModel(
    absl::string_view path,
    const std::function<absl::Status(const std::string& directory)>& write) {
  if (!is_chief()) return absl::OkStatus();
  return ExportDirectory(AbsolutePath(path), write);
}

// ---- the others ---------------------------------------------------------------------------------

absl::Status NodeContextImpl::Barrier(absl::string_view barrier, absl::Duration timeout) {
  if (!IsFedJob(config_.job_name)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), " cannot wait at barrier \"", EscapeControls(barrier),
                     "\": only chief, master and workers take part"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::string barrier_name, Utf8("the barrier", barrier));
  const Json params{{"name", std::move(barrier_name)}, {"timeout_ms", TimeoutMs(timeout)}};
  return control_
      ->CallAndWait("barrier", params, std::max(timeout, absl::ZeroDuration()) + kRoundTrip)
      .status();
}

void NodeContextImpl::ReportMetric(absl::string_view metric, int64_t step, double value) {
  absl::Status sent = absl::InvalidArgumentError("it is no finite number");
  if (std::isfinite(value)) {
    sent = control_->Notify("metric",
                            Json{{"name", std::string(metric)}, {"step", step}, {"value", value}});
  }
  if (sent.ok() || warned_of_metric_.exchange(true)) return;
  MILLRACE_LOG(WARNING) << "metric " << metric << " of step " << step
                        << " is not reported: " << sent.message() << "; this is said once";
}

bool NodeContextImpl::WaitForStop(absl::Duration timeout) const {
  return stop_.WaitForNotificationWithTimeout(timeout);
}

}  // namespace internal

// ---- key-value ----------------------------------------------------------------------------------

absl::Status NodeKeyValue::Set(absl::string_view key, absl::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, Utf8("the key", key));
  return node_->control()
      .Call("kv.set", Json{{"key", std::move(name)}, {"value", absl::Base64Escape(value)}},
            kRoundTrip)
      .status();
}

absl::StatusOr<std::string> NodeKeyValue::Get(absl::string_view key, absl::Duration timeout) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, Utf8("the key", key));
  const Json params{{"key", std::move(name)}, {"timeout_ms", TimeoutMs(timeout)}};
  const absl::Duration longest = std::max(timeout, absl::ZeroDuration()) + kRoundTrip;
  MILLRACE_ASSIGN_OR_RETURN(const Json reply,
                            timeout > absl::ZeroDuration()
                                ? node_->control().CallAndWait("kv.get", params, longest)
                                : node_->control().Call("kv.get", params, longest));
  std::string value;
  const absl::StatusOr<std::string> encoded = GetString(reply, "value");
  if (!encoded.ok() || !absl::Base64Unescape(*encoded, &value)) {
    return absl::InternalError(
        absl::StrCat("the agent's value of \"", EscapeControls(key), "\" is no base64"));
  }
  return value;
}

absl::StatusOr<int64_t> NodeKeyValue::Add(absl::string_view key, int64_t delta) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, Utf8("the key", key));
  MILLRACE_ASSIGN_OR_RETURN(
      const Json reply,
      node_->control().Call("kv.add", Json{{"key", std::move(name)}, {"delta", delta}},
                            kRoundTrip));
  // "A decimal": as a number or as its text.
  if (const absl::StatusOr<int64_t> number = GetInt(reply, "value"); number.ok()) return *number;
  int64_t value = 0;
  if (absl::SimpleAtoi(GetString(reply, "value").value_or(""), &value)) return value;
  return absl::InternalError(
      absl::StrCat("the agent's counter \"", EscapeControls(key), "\" is no number"));
}

absl::Status NodeKeyValue::Delete(absl::string_view key) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, Utf8("the key", key));
  return node_->control().Call("kv.delete", Json{{"key", std::move(name)}}, kRoundTrip).status();
}

}  // namespace millrace
