#include "core/coordinator/server/control_plane.h"

#include <algorithm>
#include <utility>

namespace millrace {

ControlPlane::ControlPlane(const CoordinatorOptions& options, v1::NodeSpec node_spec,
                           NodeKeySigner signer, ViewStore* view, ClusterRecorder* recorder,
                           StateJournal* journal)
    : state_(options, recorder, journal),
      requests_(&state_),
      feeds_(&state_),
      agents_(&state_, &requests_, &feeds_, std::move(node_spec), std::move(signer), view),
      driver_(&state_, &agents_),
      operators_(&state_, &requests_) {
  state_.Restore();
}

void ControlPlane::Start() {
  state_.observer.Start();
  timer_ = Thread("coord-timer", [this] { RunTimer(); });
}

ClusterStatus ControlPlane::Snapshot() const {
  MutexLock lock(&state_.mu);
  ClusterStatus status;
  status.cluster_id = state_.options.cluster_id;
  status.epoch = state_.table.epoch();
  status.slots.reserve(state_.table.size());
  for (int id = 0; id < state_.table.size(); ++id) status.slots.push_back(state_.StatusOf(id));
  if (state_.causes.cause() != nullptr) {
    status.first_cause = *state_.causes.cause();
    status.folded_failures = state_.causes.folded();
  }
  status.fenced_updates = state_.table.fenced_updates();
  status.illegal_updates = state_.table.illegal_updates();
  status.quarantined = state_.table.Quarantined();
  status.time = state_.clock->Now();
  return status;
}

void ControlPlane::Shutdown() {
  state_.Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu) {
    if (state_.shut_down) return;
    state_.shut_down = true;
    state_.recorder->Ended();
    for (const auto& [id, stream] : state_.streams) {
      stream.stream->Close(absl::CancelledError("the coordinator shuts down"));
      state_.to_flush.push_back(stream.stream);
      state_.kv.DropOwner(id);
      state_.barriers.DropOwner(id);
    }
    state_.streams.clear();
    state_.changed.SignalAll();
    state_.timer_wake.SignalAll();
  });
  agents_.CloseOutput();
  MutexLock lock(&join_mu_);
  timer_.Join();
  state_.observer.Stop();
}

absl::Duration ControlPlane::TimeToTick() const {
  MutexLock lock(&state_.mu);
  return state_.timer_wakes_at - state_.clock->SteadyNow();
}

void ControlPlane::Tick() {
  state_.Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu) {
    if (state_.shut_down) return;
    if (state_.journal != nullptr) {
      if (absl::Status ours = state_.journal->CheckFence(); !ours.ok()) state_.Fence(ours);
    }
    const absl::Duration now = state_.clock->SteadyNow();
    if (!state_.fenced.ok()) {
      state_.timer_wakes_at = now + state_.longest_sleep;
      return;
    }
    agents_.TellHeldExits(effects);
    state_.table.Tick(effects);
    state_.ReplyKv(state_.kv.Expire(now));
    state_.ReplyBarrier(state_.barriers.Expire(now));
    const absl::Duration next = std::min({state_.table.NextDeadline(), state_.kv.NextDeadline(),
                                          state_.barriers.NextDeadline(),
                                          state_.causes.NextDeadline(), agents_.NextHeldExit()});
    state_.timer_wakes_at =
        now + std::clamp(next - now, absl::Milliseconds(1), state_.longest_sleep);
  });
}

void ControlPlane::RunTimer() {
  for (;;) {
    Tick();
    MutexLock lock(&state_.mu);
    if (state_.shut_down) return;
    state_.timer_wake.WaitWithTimeout(&state_.mu,
                                      state_.timer_wakes_at - state_.clock->SteadyNow());
    if (state_.shut_down) return;
  }
}

}  // namespace millrace
