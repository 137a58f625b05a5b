// What the driver asks.

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/coordinator/server/control_plane.h"

namespace millrace {
namespace {

constexpr size_t kMaxFeedEnds = 64;
constexpr int kMaxNamed = 20;

std::string Seconds(absl::Duration duration) {
  return absl::StrCat(absl::ToDoubleSeconds(absl::Trunc(duration, absl::Milliseconds(100))), " s");
}

// "a; b; and 3 more", of texts that are made on demand.
class BoundedList {
 public:
  void Add(absl::string_view text) {
    if (++count_ <= kMaxNamed) absl::StrAppend(&text_, count_ == 1 ? "" : "; ", text);
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] std::string ToString() const {
    if (count_ <= kMaxNamed) return text_;
    return absl::StrCat(text_, "; and ", count_ - kMaxNamed, " more");
  }

 private:
  std::string text_;
  int count_ = 0;
};

constexpr char kNoEndpointHint[] = "does its program call RunNode and GetDataFeed?";

}  // namespace

std::optional<absl::Status> ControlPlane::WaitFor(
    absl::Duration timeout, absl::FunctionRef<std::optional<absl::Status>()> done) {
  const absl::Duration deadline = clock_->SteadyNow() + timeout;
  for (;;) {
    if (std::optional<absl::Status> status = done(); status.has_value()) return status;
    const absl::Duration left = deadline - clock_->SteadyNow();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    // Waits are timed by the wall clock, which may jump: look at the steady one once a second.
    changed_.WaitWithTimeout(&mu_, std::min(left, absl::Seconds(1)));
  }
}

std::optional<absl::Status> ControlPlane::Interrupted() const {
  if (causes_.cause() != nullptr) return causes_.status();
  if (!cancelled_.ok()) return cancelled_;
  if (shut_down_) return absl::CancelledError("the coordinator was shut down");
  return std::nullopt;
}

absl::Status ControlPlane::WaitRunning(absl::Duration timeout) {
  MutexLock lock(&mu_);
  const absl::Duration left = started_at_ + options_.reservation_timeout - clock_->SteadyNow();
  const std::optional<absl::Status> status =
      WaitFor(std::min(timeout, left), [this]() -> std::optional<absl::Status> {
        if (std::optional<absl::Status> cause = Interrupted(); cause.has_value()) return cause;
        if (all_ran_) return absl::OkStatus();
        return std::nullopt;
      });
  if (status.has_value()) return *status;
  return table_.ReservationTimeoutError(clock_->SteadyNow() - started_at_);
}

absl::Status ControlPlane::WaitFedEndpoints(absl::Duration timeout,
                                            const std::atomic<bool>* given_up) {
  MutexLock lock(&mu_);
  const std::optional<absl::Status> status =
      WaitFor(timeout, [this, given_up]() -> std::optional<absl::Status> {
        if (std::optional<absl::Status> cause = Interrupted(); cause.has_value()) return cause;
        if (given_up != nullptr && given_up->load()) {
          return absl::CancelledError("the call was given up");
        }
        bool all = true;
        for (int id = 0; id < table_.size(); ++id) {
          if (!Matches(NodeFilter::kFed, id) || StatusOf(id).has_feed) continue;
          all = false;
          if (!table_.HasEnded(id)) continue;
          return absl::FailedPreconditionError(
              absl::StrCat(table_.role(id).ToString(), " (executor ", id, ") has ",
                           SlotStateName(table_.state(id)),
                           " and published no feed endpoint: ", kNoEndpointHint));
        }
        if (all) return absl::OkStatus();
        return std::nullopt;
      });
  if (status.has_value()) return *status;
  BoundedList missing;
  for (int id = 0; id < table_.size(); ++id) {
    if (!Matches(NodeFilter::kFed, id)) continue;
    const SlotStatus slot = StatusOf(id);
    if (slot.has_feed) continue;
    const absl::Duration since = clock_->Now() - slot.ReachedAt(slot.state);
    missing.Add(absl::StrCat(slot.role.ToString(), " (executor ", id, ") ",
                             SlotStateName(slot.state), " for ", Seconds(since)));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(missing.count(), missing.count() == 1 ? " fed node" : " fed nodes",
                   " published no feed endpoint in ", Seconds(timeout), ": ", missing.ToString(),
                   ": ", kNoEndpointHint));
}

void ControlPlane::Wake() {
  MutexLock lock(&mu_);
  changed_.SignalAll();
}

absl::Status ControlPlane::WaitEnded(NodeFilter filter, absl::Duration timeout) {
  MutexLock lock(&mu_);
  const std::optional<absl::Status> status =
      WaitFor(timeout, [this, filter]() -> std::optional<absl::Status> {
        if (shut_down_) return absl::CancelledError("the coordinator was shut down");
        for (int id = 0; id < table_.size(); ++id) {
          if (Matches(filter, id) && !table_.HasEnded(id)) return std::nullopt;
        }
        return absl::OkStatus();
      });
  if (status.has_value()) return *status;
  BoundedList running;
  for (int id = 0; id < table_.size(); ++id) {
    if (!Matches(filter, id) || table_.HasEnded(id)) continue;
    const SlotStatus slot = StatusOf(id);
    std::string text =
        absl::StrCat(slot.role.ToString(), " (executor ", id, ", ", SlotStateName(slot.state));
    if (!slot.host.empty()) absl::StrAppend(&text, ", host ", slot.host);
    if (slot.node_pid != 0) absl::StrAppend(&text, ", pid ", slot.node_pid);
    running.Add(absl::StrCat(text, ")"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(running.count(), running.count() == 1 ? " node has" : " nodes have",
                   " not ended within ", Seconds(timeout), ": ", running.ToString()));
}

absl::Status ControlPlane::WaitOutput(absl::Duration timeout) {
  MutexLock lock(&mu_);
  return WaitFor(timeout,
                 [this]() -> std::optional<absl::Status> {
                   if (shut_down_) return absl::CancelledError("the coordinator was shut down");
                   if (output_abandoned_) return absl::CancelledError("the nodes were killed");
                   for (const auto& [key, output] : outputs_) {
                     if (output.complete()) continue;
                     // From an agent that is gone there will be no more.
                     const bool gone = table_.AgentIsGone(key.first) ||
                                       table_.agent_id(key.first) != output.agent_id;
                     if (output.taken < output.received || !gone) return std::nullopt;
                   }
                   return absl::OkStatus();
                 })
      .value_or(absl::DeadlineExceededError("not all output was taken"));
}

absl::Status ControlPlane::WaitFailure(absl::Duration timeout) {
  MutexLock lock(&mu_);
  return WaitFor(timeout, [this] { return Interrupted(); }).value_or(absl::OkStatus());
}

void ControlPlane::Cancel(absl::string_view reason) {
  MutexLock lock(&mu_);
  if (cancelled_.ok()) cancelled_ = absl::CancelledError(reason);
  changed_.SignalAll();
}

ClusterStatus ControlPlane::Snapshot() const {
  MutexLock lock(&mu_);
  ClusterStatus status;
  status.cluster_id = options_.cluster_id;
  status.epoch = table_.epoch();
  status.slots.reserve(table_.size());
  for (int id = 0; id < table_.size(); ++id) status.slots.push_back(StatusOf(id));
  if (causes_.cause() != nullptr) {
    status.first_cause = *causes_.cause();
    status.folded_failures = causes_.folded();
  }
  status.fenced_updates = table_.fenced_updates();
  status.illegal_updates = table_.illegal_updates();
  status.quarantined = table_.Quarantined();
  status.time = clock_->Now();
  return status;
}

ClusterSpec ControlPlane::spec() const {
  MutexLock lock(&mu_);
  return table_.spec();
}

absl::Status ControlPlane::first_cause() const {
  MutexLock lock(&mu_);
  return causes_.status();
}

// ---- the feed directory -------------------------------------------------------------------------

bool ControlPlane::Matches(NodeFilter filter, int executor_id) const {
  if (filter == NodeFilter::kAll) return true;
  return IsFedRole(options_.roles[executor_id].job_name) == (filter == NodeFilter::kFed);
}

absl::Status ControlPlane::CheckFed(int executor_id) const {
  if (executor_id < 0 || executor_id >= static_cast<int>(options_.roles.size())) {
    return absl::NotFoundError(absl::StrCat("no executor ", executor_id));
  }
  if (!IsFedRole(options_.roles[executor_id].job_name)) {
    return absl::FailedPreconditionError(absl::StrCat(options_.roles[executor_id].ToString(),
                                                      " (executor ", executor_id, ") is not fed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FeedTarget> ControlPlane::LookupFeed(int executor_id) const {
  if (absl::Status fed = CheckFed(executor_id); !fed.ok()) return fed;
  MutexLock lock(&mu_);
  return TargetOf(executor_id);
}

// Chooses among all fed nodes for each partition: copies nothing.
FeedTarget::State ControlPlane::TargetState(int executor_id) const {
  switch (table_.state(executor_id)) {
    case SlotState::kFinished:
      return FeedTarget::State::kFinished;
    case SlotState::kFailed:
    case SlotState::kLost:
      return table_.AwaitsReplacement(executor_id) ? FeedTarget::State::kRestarting
                                                   : FeedTarget::State::kFailed;
    default:
      break;
  }
  const Node& node = nodes_[executor_id];
  const uint32_t attempt = table_.attempt(executor_id);
  if (node.attempt == attempt && node.feed.has_value()) return FeedTarget::State::kRunning;
  return attempt > 0 ? FeedTarget::State::kRestarting : FeedTarget::State::kStarting;
}

FeedTarget ControlPlane::TargetOf(int executor_id) const {
  const Node& node = nodes_[executor_id];
  FeedTarget target;
  target.state = TargetState(executor_id);
  target.executor_id = executor_id;
  target.node = table_.role(executor_id).ToString();
  target.attempt = table_.attempt(executor_id);
  target.host = table_.host(executor_id);
  if (target.state != FeedTarget::State::kRunning) return target;
  target.nonce = table_.nonce(executor_id);
  target.tcp_endpoint = node.feed->tcp();
  target.ipc_endpoint = node.feed->ipc();
  target.key = node.feed->key();
  target.curve_endpoint = node.feed->curve();
  target.curve_key = node.feed->curve_key();
  return target;
}

absl::Status ControlPlane::Cause(int executor_id) const {
  MutexLock lock(&mu_);
  if (!table_.Has(executor_id)) {
    return absl::NotFoundError(absl::StrCat("no executor ", executor_id));
  }
  return CauseOfSlot(executor_id);
}

absl::Status ControlPlane::CauseOfSlot(int executor_id) const {
  const SlotStatus slot = table_.Status(executor_id);
  if (slot.error.ok()) return absl::OkStatus();
  const NodeFailure* cause = causes_.cause();
  if (cause != nullptr && cause->executor_id == executor_id && cause->attempt == slot.attempt) {
    return causes_.status();
  }
  return absl::Status(slot.error.code(),
                      absl::StrCat(slot.role.ToString(), " (executor ", executor_id, ", attempt ",
                                   slot.attempt, ") ", slot.error.message()));
}

absl::StatusOr<std::map<std::string, std::string>> ControlPlane::PublishedEndpoints(
    int executor_id) const {
  MutexLock lock(&mu_);
  if (!table_.Has(executor_id)) {
    return absl::NotFoundError(absl::StrCat("no executor ", executor_id));
  }
  return nodes_[executor_id].other;
}

// ---- commands -----------------------------------------------------------------------------------

void ControlPlane::FeedEnd(absl::string_view feed_id, bool aborted) {
  Do([&](TableEffects* /*effects*/) {
    v1::CoordinatorMessage message;
    message.mutable_feed_end()->set_feed_id(std::string(feed_id));
    message.mutable_feed_end()->set_aborted(aborted);
    feed_ends_.push_back(message.feed_end());
    if (feed_ends_.size() > kMaxFeedEnds) feed_ends_.pop_front();
    SendToFed(message);
  });
}

void ControlPlane::EndFeed(absl::string_view queue) {
  Do([&](TableEffects* /*effects*/) {
    if (std::find(ended_queues_.begin(), ended_queues_.end(), queue) != ended_queues_.end()) return;
    ended_queues_.push_back(std::string(queue));
    v1::CoordinatorMessage message;
    message.mutable_end_feed()->set_queue(std::string(queue));
    SendToFed(message);
  });
}

void ControlPlane::AgentStarted(int executor_id, int64_t pid) {
  Do([&](TableEffects* effects) { table_.AgentStarted(executor_id, pid, effects); });
}

void ControlPlane::Stop(NodeFilter filter, absl::string_view reason, bool now) {
  Do([&](TableEffects* effects) {
    if (!shut_down_) recorder_->Stopping(filter, reason, now);
    output_abandoned_ = output_abandoned_ || (now && filter == NodeFilter::kAll);
    changed_.SignalAll();
    for (int id = 0; id < table_.size(); ++id) {
      if (Matches(filter, id)) table_.Stop(id, reason, now, effects);
    }
  });
}

absl::StatusOr<uint32_t> ControlPlane::RestartNode(int executor_id, absl::string_view reason) {
  absl::StatusOr<uint32_t> attempt = absl::CancelledError("the coordinator was shut down");
  Do([&](TableEffects* effects) {
    if (shut_down_) return;
    const uint32_t before = table_.Has(executor_id) ? table_.attempt(executor_id) : 0;
    const absl::Status asked = table_.Restart(executor_id, reason, effects);
    attempt = asked.ok() ? absl::StatusOr<uint32_t>(before + 1) : asked;
  });
  return attempt;
}

}  // namespace millrace
