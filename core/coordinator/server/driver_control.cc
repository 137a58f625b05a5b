#include "core/coordinator/server/driver_control.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"

namespace millrace {
namespace {

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

absl::Status DriverControl::WaitRunning(absl::Duration timeout) {
  MutexLock lock(&state_->mu);
  const absl::Duration left =
      state_->started_at + state_->options.reservation_timeout - state_->clock->SteadyNow();
  const std::optional<absl::Status> status = state_->WaitFor(
      std::min(timeout, left),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) -> std::optional<absl::Status> {
        if (std::optional<absl::Status> cause = state_->Interrupted(); cause.has_value())
          return cause;
        if (state_->all_ran) return absl::OkStatus();
        return std::nullopt;
      });
  if (status.has_value()) return *status;
  return state_->table.ReservationTimeoutError(state_->clock->SteadyNow() - state_->started_at);
}

absl::Status DriverControl::WaitFedEndpoints(absl::Duration timeout,
                                             const std::atomic<bool>* given_up) {
  MutexLock lock(&state_->mu);
  const std::optional<absl::Status> status = state_->WaitFor(
      timeout,
      [this, given_up]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) -> std::optional<absl::Status> {
        if (std::optional<absl::Status> cause = state_->Interrupted(); cause.has_value())
          return cause;
        if (given_up != nullptr && given_up->load()) {
          return absl::CancelledError("the call was given up");
        }
        bool all = true;
        for (int id = 0; id < state_->table.size(); ++id) {
          if (!state_->Matches(NodeFilter::kFed, id) || state_->StatusOf(id).has_feed) continue;
          all = false;
          if (!state_->table.HasEnded(id)) continue;
          return absl::FailedPreconditionError(
              absl::StrCat(state_->table.role(id).ToString(), " (executor ", id, ") has ",
                           SlotStateName(state_->table.state(id)),
                           " and published no feed endpoint: ", kNoEndpointHint));
        }
        if (all) return absl::OkStatus();
        return std::nullopt;
      });
  if (status.has_value()) return *status;
  BoundedList missing;
  for (int id = 0; id < state_->table.size(); ++id) {
    if (!state_->Matches(NodeFilter::kFed, id)) continue;
    const SlotStatus slot = state_->StatusOf(id);
    if (slot.has_feed) continue;
    const absl::Duration since = state_->clock->Now() - slot.ReachedAt(slot.state);
    missing.Add(absl::StrCat(slot.role.ToString(), " (executor ", id, ") ",
                             SlotStateName(slot.state), " for ", Seconds(since)));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(missing.count(), missing.count() == 1 ? " fed node" : " fed nodes",
                   " published no feed endpoint in ", Seconds(timeout), ": ", missing.ToString(),
                   ": ", kNoEndpointHint));
}

void DriverControl::Wake() {
  MutexLock lock(&state_->mu);
  state_->changed.SignalAll();
}

absl::Status DriverControl::WaitEnded(NodeFilter filter, absl::Duration timeout) {
  MutexLock lock(&state_->mu);
  const std::optional<absl::Status> status = state_->WaitFor(
      timeout,
      [this, filter]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) -> std::optional<absl::Status> {
        if (state_->shut_down) return absl::CancelledError("the coordinator was shut down");
        if (!state_->fenced.ok()) return state_->fenced;
        for (int id = 0; id < state_->table.size(); ++id) {
          if (state_->Matches(filter, id) && !state_->table.HasEnded(id)) return std::nullopt;
        }
        return absl::OkStatus();
      });
  if (status.has_value()) return *status;
  BoundedList running;
  for (int id = 0; id < state_->table.size(); ++id) {
    if (!state_->Matches(filter, id) || state_->table.HasEnded(id)) continue;
    const SlotStatus slot = state_->StatusOf(id);
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

absl::Status DriverControl::WaitOutput(absl::Duration timeout) {
  MutexLock lock(&state_->mu);
  return state_
      ->WaitFor(timeout,
                [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) -> std::optional<absl::Status> {
                  if (state_->shut_down)
                    return absl::CancelledError("the coordinator was shut down");
                  if (!state_->fenced.ok()) return state_->fenced;
                  if (state_->killed) return absl::CancelledError("the nodes were killed");
                  if (!agents_->AllOutputTaken()) return std::nullopt;
                  return absl::OkStatus();
                })
      .value_or(absl::DeadlineExceededError("not all output was taken"));
}

absl::Status DriverControl::WaitFailure(absl::Duration timeout) {
  MutexLock lock(&state_->mu);
  return state_
      ->WaitFor(timeout, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                             state_->mu) { return state_->Interrupted(); })
      .value_or(absl::OkStatus());
}

void DriverControl::Cancel(absl::string_view reason) {
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (state_->cancelled.ok()) {
      state_->cancelled = absl::CancelledError(reason);
      state_->JournalCancel(reason, /*by_operator=*/false);
    }
    state_->changed.SignalAll();
  });
}

absl::Status DriverControl::fenced() const {
  MutexLock lock(&state_->mu);
  return state_->fenced;
}

void DriverControl::Leave(const absl::Status& why) {
  state_->Do([&](TableEffects* /*effects*/)
                 ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) { state_->Fence(why); });
}

ClusterSpec DriverControl::spec() const {
  MutexLock lock(&state_->mu);
  return state_->table.spec();
}

absl::Status DriverControl::first_cause() const {
  MutexLock lock(&state_->mu);
  return state_->causes.status();
}

absl::Status DriverControl::Cause(int executor_id) const {
  MutexLock lock(&state_->mu);
  if (!state_->table.Has(executor_id)) {
    return absl::NotFoundError(absl::StrCat("no executor ", executor_id));
  }
  return state_->CauseOfSlot(executor_id);
}

absl::StatusOr<std::map<std::string, std::string>> DriverControl::PublishedEndpoints(
    int executor_id) const {
  MutexLock lock(&state_->mu);
  if (!state_->table.Has(executor_id)) {
    return absl::NotFoundError(absl::StrCat("no executor ", executor_id));
  }
  return state_->nodes[executor_id].other;
}

absl::Status DriverControl::stop_request() const {
  MutexLock lock(&state_->mu);
  return state_->stop_request;
}

}  // namespace millrace
