#include "core/agent/gpu/agent_gpus.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"

namespace millrace {
namespace {

// Another's claim takes microseconds; a process that is stopped in the middle of one is passed by.
constexpr absl::Duration kTurnPatience = absl::Seconds(2);

}  // namespace

AgentGpus::AgentGpus(EventLoop* loop, ChildReaper* reaper, Guard* guard, Options options)
    : loop_(loop),
      guard_(guard),
      options_(std::move(options)),
      monitor_(loop, reaper, options_.monitor, [this](const GpuSnapshot& snapshot) {
        if (options_.on_update != nullptr) options_.on_update(snapshot);
        if (!waiting_.empty()) ServeIn(absl::ZeroDuration());
      }) {}

AgentGpus::~AgentGpus() {
  loop_->Cancel(&timer_);
  ReleaseAll();
}

std::optional<GpuUse> AgentGpus::CountUse() const {
  if (!settled() || snapshot().source == GpuSource::kUnknown) return std::nullopt;
  return CountGpus(snapshot(), options_.visible_devices);
}

void AgentGpus::Claim(GpuRequest request, Done done) {
  waiting_.push_back({.request = std::move(request),
                      .done = std::move(done),
                      .driver_deadline = RealClock()->SteadyNow() + options_.driver_patience});
  ServeIn(absl::ZeroDuration());
  Watch();
}

void AgentGpus::CancelClaims() {
  waiting_.clear();
  loop_->Cancel(&timer_);
}

void AgentGpus::ServeIn(absl::Duration delay) {
  loop_->Cancel(&timer_);
  timer_ = loop_->After(delay, [this] { Serve(); });
}

void AgentGpus::Serve() {
  timer_ = EventLoop::kNoTimer;
  while (!waiting_.empty()) {
    absl::StatusOr<std::vector<std::string>> outcome;
    if (!Try(&waiting_.front(), &outcome)) return;
    const Done done = std::move(waiting_.front().done);
    waiting_.pop_front();
    done(outcome);
  }
}

bool AgentGpus::Try(Waiting* waiting, absl::StatusOr<std::vector<std::string>>* outcome) {
  const absl::Duration now = RealClock()->SteadyNow();
  if (!monitor_.settled()) {
    if (now < waiting->driver_deadline) {
      ServeIn(waiting->driver_deadline - now);  // or when the monitor knows something
      return false;
    }
    *outcome = absl::UnavailableError(absl::StrCat(
        options_.owner.node, " needs GPUs, and the GPU driver of host ", LocalHostname(),
        " did not answer within ", absl::FormatDuration(options_.driver_patience),
        "; see whether nvidia-smi answers there"));
    return true;
  }
  absl::StatusOr<GpuClaim> claim = ClaimGpus(
      monitor_.snapshot(), waiting->request, options_.owner,
      {.visible_devices = options_.visible_devices, .in_turn = now < waiting->turn_deadline});
  if (absl::IsAborted(claim.status())) {
    if (waiting->turn_deadline == absl::InfiniteDuration()) {
      waiting->turn_deadline = now + kTurnPatience;
    }
    ServeIn(absl::Milliseconds(1 + static_cast<int>(RandomU64() % 8)));
    return false;
  }
  if (absl::IsResourceExhausted(claim.status())) {
    if (waiting->release_deadline == absl::InfiniteDuration()) {
      waiting->release_deadline = now + options_.release_patience;
    }
    if (now < waiting->release_deadline) {
      ServeIn(absl::Milliseconds(50));
      return false;
    }
  }
  if (!claim.ok()) {
    *outcome = claim.status();
    return true;
  }
  std::vector<std::string> ids = claim->ids();
  // The guard's copies outlive an agent that is killed, until the node is dead too.
  for (const std::string& id : ids) guard_->Hold(id, claim->fds(id));
  held_.Add(*std::move(claim));
  *outcome = std::move(ids);
  return true;
}

absl::Status AgentGpus::Release(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    if (std::find(held_.ids().begin(), held_.ids().end(), id) == held_.ids().end()) {
      return absl::NotFoundError(absl::StrCat(options_.owner.node, " does not hold the GPU \"",
                                              Ellipsize(EscapeControls(id), 100), "\""));
    }
  }
  for (const std::string& id : ids) {
    if (held_.Release(id)) guard_->Drop(id);
  }
  return absl::OkStatus();
}

void AgentGpus::ReleaseAll() {
  const std::vector<std::string> ids = held_.ids();
  for (const std::string& id : ids) {
    if (held_.Release(id)) guard_->Drop(id);
  }
}

}  // namespace millrace
