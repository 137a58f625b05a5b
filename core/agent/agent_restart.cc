// Another attempt of the node in the same agent.

#include <utility>

#include "absl/strings/match.h"
#include "core/agent/agent.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/net/loopback.h"
#include "core/net/socket_address.h"
#include "core/proto/time_proto.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kRetirePause = absl::Milliseconds(20);
constexpr absl::Duration kLogTime = absl::Seconds(10);

}  // namespace

// A port of host_ for the node. The one it had stays its own where that can be: programs that read
// their environment only know no other. A socket on which the node has listened is given up, since
// the system would still accept connections on it, for nobody.
absl::Status Agent::ReservePort() {
  if (port_.held() && !port_.listening()) return absl::OkStatus();
  port_.Release();
  const bool ipv6 = absl::StrContains(host_, ":");
  // A host name may stand for another interface, or for one outside of this network namespace.
  const std::string bind = host_ == "localhost"    ? "127.0.0.1"
                           : IsLoopbackHost(host_) ? host_
                           : ipv6                  ? "::"
                                                   : "0.0.0.0";
  const uint16_t old = port_.port();
  absl::StatusOr<PortReservation> port =
      PortReservation::Bind(bind, old != 0 ? PortRange{old, old} : params_.port_range);
  if (!port.ok() && old != 0) port = PortReservation::Bind(bind, params_.port_range);
  if (!port.ok()) return port.status();
  port_ = *std::move(port);
  address_ = FormatHostPort(host_, port_.port());
  return absl::OkStatus();
}

// The coordinator wants a new attempt of the node that runs.
void Agent::Restart(absl::string_view reason, bool now) {
  if (exit_code_.has_value() || stop_asked_ || runner() == nullptr) return;
  attempt_->OnRestartAsked();
  if (!runner()->alive()) return;  // OnNodeEnded() is under way
  if (state_ != State::kDraining) {
    SendUpdate(MakeUpdate(v1::NODE_STATE_DRAINING));
    SetState(State::kDraining, {{"reason", std::string(reason)}});
  }
  if (now) {
    runner()->Kill();
  } else {
    runner()->Stop(reason, DurationFromProto(registered_->node().stop_grace()));
  }
}

// Reports the end of the attempt and stays, if the coordinator may want another. False: it may not,
// or nothing could be reserved for it.
bool Agent::StayForAnother(const absl::Status& node_error, v1::NodeUpdate* update) {
  const bool wanted =
      registered_.has_value() && (registered_->restarts() || attempt_->restart_asked());
  if (!wanted || stop_asked_ || end_reason_.has_value() || exit_code_.has_value()) return false;
  if (absl::Status reserved = ReservePort(); !reserved.ok()) {
    MILLRACE_LOG(WARNING) << NodeName() << " cannot be started again here: " << reserved.message();
    return false;
  }
  update->set_next_address(address_);
  update->set_stopped_as_asked(attempt_->restart_asked());
  SendUpdate(*update);
  SetState(State::kRestarting,
           {{"code", absl::StatusCodeToString(node_error.code())},
            {"message", std::string(node_error.message())},
            {"stderr_tail", std::vector<std::string>(update->stderr_tail().begin(),
                                                     update->stderr_tail().end())}});
  std::unique_ptr<NodeRunner> run = attempt_->Retire(node_error);
  if (run == nullptr) return true;  // it found no GPUs, say
  // This may be one of its callbacks.
  retired_ = std::move(run);
  Retire(RealClock()->SteadyNow() + kLogTime);
  return true;
}

void Agent::Retire(absl::Duration deadline) {
  loop_->Cancel(&retire_timer_);
  retire_timer_ = loop_->After(kRetirePause, [this, deadline] {
    if (retired_->Flush(absl::ZeroDuration()) || RealClock()->SteadyNow() >= deadline) {
      retired_.reset();
    } else {
      Retire(deadline);
    }
  });
}

void Agent::OnStartAttempt(uint32_t attempt, const std::string& nonce) {
  if (state_ != State::kRestarting || exit_code_.has_value()) {
    MILLRACE_LOG(WARNING) << "attempt " << attempt << " of " << NodeName()
                          << " was asked for, which is " << StateName(state_);
    return;
  }
  registered_->set_attempt(attempt);
  registered_->set_nonce(nonce);
  attempt_ = std::make_unique<Attempt>();  // the coordinator says again what counts
  SetState(State::kRegistered);
  // A shipped one is looked at again: its file may be another by now. In memory it is sealed.
  if (!registered_->node().sha256().empty() && program_memory_ == nullptr) program_.clear();
  if (program_.empty()) {
    FetchProgram();
  } else {
    MaybeLaunch();
  }
}

// Asked to stop while it waited.
void Agent::LeaveWithoutAnother() {
  v1::NodeUpdate update = *attempt_->reported();
  update.clear_next_address();
  Conclude(attempt_->error(), std::move(update));
}

}  // namespace millrace
