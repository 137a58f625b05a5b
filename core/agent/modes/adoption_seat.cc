#include "core/agent/modes/adoption_seat.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/peer_version.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr uint32_t kProtocol = 1;
constexpr size_t kMaxUsedIds = 4096;
constexpr size_t kAdoptionIdDigits = 32;
constexpr size_t kMaxTextBytes = 128;

std::string DriverOf(const v1::Hold& hold) {
  return absl::StrCat("cluster ", EscapeControls(Ellipsize(hold.cluster_id(), kMaxTextBytes)),
                      " of driver ", EscapeControls(Ellipsize(hold.driver(), kMaxTextBytes)));
}

std::string SlotOf(const v1::Hold& hold) {
  return absl::StrCat("executor ", hold.executor_id(), " of ", DriverOf(hold));
}

}  // namespace

AdoptionSeat::AdoptionSeat(std::string host, std::string version, Owner* owner, Clock* clock)
    : host_(std::move(host)), version_(std::move(version)), owner_(owner), clock_(clock) {}

std::string AdoptionSeat::HolderText() const {
  return adoption_.has_value() ? SlotOf(adoption_->hold) : "";
}

// ---- who gets it --------------------------------------------------------------------------------

void AdoptionSeat::OnRequest(const std::shared_ptr<AdoptStream>& stream,
                             const v1::AdoptRequest& request) {
  if (request.has_hold()) {
    OnHold(stream, request.hold());
    return;
  }
  if (!adoption_.has_value() || adoption_->stream != stream) {
    stream->Close(absl::FailedPreconditionError("this agent is not held by this stream"));
    return;
  }
  if (request.has_start()) OnStartAgent(request.start());
  // Without an agent StartAgent says where, or it has ended.
  if (request.has_redirect() && adoption_->pid != 0) {
    owner_->RedirectAgent(request.redirect());
  }
  if (request.has_release()) Release(request.release().now());
}

absl::Status AdoptionSeat::CheckHold(const v1::Hold& hold, Refusal* refusal) const {
  *refusal = Refusal::kVersion;
  if (hold.protocol() != kProtocol) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the agent on ", host_, " is version ", version_, " (adopt protocol ", kProtocol,
        ") and the driver is version ", EscapeControls(Ellipsize(hold.version(), kMaxTextBytes)),
        " (adopt protocol ", hold.protocol(), "): install the same version of Millrace on both"));
  }
  if (absl::Status versions = CheckVersions({absl::StrCat("the agent on ", host_), version_},
                                            {"the driver", hold.version()});
      !versions.ok()) {
    return versions;
  }
  *refusal = Refusal::kInvalid;
  const std::string& id = hold.adoption_id();
  const bool hex = std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (id.size() != kAdoptionIdDigits || !hex) {
    return absl::InvalidArgumentError("adoption_id is not 32 hex digits");
  }
  if (hold.cluster_id().empty() || hold.cluster_id().size() > kMaxTextBytes ||
      absl::StrContains(hold.cluster_id(), "/") || hold.executor_id() < 0) {
    return absl::InvalidArgumentError("cluster_id or executor_id is none");
  }
  *refusal = Refusal::kEnding;
  if (leaving_) return absl::UnavailableError("the agent is ending");
  *refusal = Refusal::kReplayed;
  if (Used(id)) {
    return absl::AlreadyExistsError(
        "this adoption is over: the message was used before (replayed?)");
  }
  return absl::OkStatus();
}

bool AdoptionSeat::Used(absl::string_view adoption_id) const {
  return std::find(used_.begin(), used_.end(), adoption_id) != used_.end();
}

void AdoptionSeat::OnHold(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold) {
  Refusal refusal = Refusal::kInvalid;
  const absl::Status good = CheckHold(hold, &refusal);
  if (!good.ok()) {
    Refuse(stream, hold, refusal, good);
    return;
  }
  if (!adoption_.has_value()) {
    Take(stream, hold);
    return;
  }
  const v1::Hold& held = adoption_->hold;
  const bool same_cluster = hold.cluster_id() == held.cluster_id();
  const bool same_slot = same_cluster && hold.executor_id() == held.executor_id();
  // By a driver that moved its slot while it could not hear the agent.
  const bool left = same_cluster && !same_slot && hold.alone() && adoption_->stream == nullptr &&
                    hold.driver_epoch() >= held.driver_epoch();
  if (same_slot && hold.driver_epoch() < held.driver_epoch()) {
    Refuse(stream, hold, Refusal::kFenced,
           absl::AbortedError(absl::StrCat("the agent on ", host_, " has another driver now, ",
                                           EscapeControls(Ellipsize(held.driver(), kMaxTextBytes)),
                                           ", which has taken cluster ",
                                           EscapeControls(held.cluster_id()), " over")));
  } else if (hold.adoption_id() == held.adoption_id()) {
    if (adoption_->stream != nullptr) {
      adoption_->stream->Close(absl::CancelledError("another stream took this adoption over"));
    }
    adoption_->stream = stream;
    adoption_->hold.set_driver(hold.driver());  // another one, it may be
    adoption_->hold.set_driver_epoch(hold.driver_epoch());
    SayHeld();
  } else if (same_slot && hold.number() != 0 && hold.number() < held.number()) {
    Refuse(stream, hold, Refusal::kReplayed,
           absl::AlreadyExistsError("this adoption is over: there was another"));
  } else if (same_slot || left) {
    if (next_stream_ != nullptr) next_stream_->Close(absl::CancelledError("there is a later one"));
    next_stream_ = stream;
    next_ = hold;
    Release(/*now=*/true);
  } else {
    Refuse(stream, hold, Refusal::kBusy,
           absl::ResourceExhaustedError(absl::StrCat(
               "the agent on ", host_, " serves ", SlotOf(held), " since ",
               absl::FormatTime("%H:%M:%S UTC", adoption_->since, absl::UTCTimeZone()))));
  }
}

void AdoptionSeat::Refuse(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold,
                          Refusal refusal, const absl::Status& why) {
  owner_->Refused(absl::StrCat(stream->peer_host(), " (", SlotOf(hold), ")"), refusal, why);
  stream->Close(why);
}

void AdoptionSeat::Take(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold) {
  adoption_ = Adoption{.hold = hold, .since = clock_->Now(), .stream = stream, .pid = 0};
  owner_->SetUse(SlotUse::kHeld);
  SayHeld();
}

void AdoptionSeat::SayHeld() {
  v1::AdoptEvent event;
  v1::Held& held = *event.mutable_held();
  held.set_host(host_);
  held.set_version(version_);
  held.set_peer_host(adoption_->stream->peer_host());
  held.set_running(adoption_->pid != 0);
  adoption_->stream->Send(std::move(event));
  if (adoption_->pid == 0) return;
  v1::AdoptEvent started;
  started.mutable_started()->set_pid(adoption_->pid);
  adoption_->stream->Send(std::move(started));
}

// ---- its agent ----------------------------------------------------------------------------------

void AdoptionSeat::OnStartAgent(const v1::StartAgent& start) {
  if (adoption_->pid != 0) return;  // said twice
  const absl::StatusOr<int64_t> pid = owner_->StartAgent(adoption_->hold, start);
  if (!pid.ok()) {
    v1::Ended ended;
    ended.set_error_code(static_cast<int>(pid.status().code()));
    ended.set_error_message(std::string(pid.status().message()));
    EndAdoption(ended);
    return;
  }
  adoption_->pid = *pid;
  owner_->SetUse(SlotUse::kRunning);
  v1::AdoptEvent event;
  event.mutable_started()->set_pid(*pid);
  adoption_->stream->Send(std::move(event));
}

void AdoptionSeat::Release(bool now) {
  if (!adoption_.has_value()) return;
  if (adoption_->pid == 0) {
    EndAdoption(v1::Ended());
  } else {
    owner_->EndAgent(now);
  }
}

void AdoptionSeat::OnGone(const std::shared_ptr<AdoptStream>& stream) {
  if (stream == next_stream_) next_stream_.reset();
  if (!adoption_.has_value() || adoption_->stream != stream) return;
  adoption_->stream.reset();
  if (adoption_->pid == 0) {
    EndAdoption(v1::Ended());
  } else {
    MILLRACE_LOG(INFO) << "the driver is away; its agent goes on: " << SlotOf(adoption_->hold);
  }
}

void AdoptionSeat::AgentEnded(const v1::Ended& ended) {
  if (adoption_.has_value()) EndAdoption(ended);
}

void AdoptionSeat::EndAdoption(const v1::Ended& ended) {
  used_.push_back(adoption_->hold.adoption_id());
  if (used_.size() > kMaxUsedIds) used_.pop_front();
  if (const auto stream = std::move(adoption_->stream); stream != nullptr) {
    v1::AdoptEvent event;
    *event.mutable_ended() = ended;
    stream->Send(std::move(event));
    stream->Close(absl::OkStatus());
  }
  adoption_.reset();
  owner_->SetUse(SlotUse::kFree);
  if (leaving_) {
    owner_->Left();
  } else if (const auto next = std::move(next_stream_); next != nullptr) {
    Take(next, next_);
  }
}

void AdoptionSeat::Leave(bool now) {
  leaving_ = true;
  if (adoption_.has_value()) {
    Release(now);
  } else {
    owner_->Left();
  }
}

}  // namespace millrace
