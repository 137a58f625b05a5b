#include "core/agent/modes/listen_mode.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/agent/link/agent_counts.h"
#include "core/agent/loop/exit_codes.h"
#include "core/base/log.h"
#include "core/base/peer_version.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/net/certificate.h"
#include "core/net/grpc_log.h"
#include "core/proto/time_proto.h"
#include "millrace/agent_ticket.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr uint32_t kProtocol = 1;
constexpr size_t kMaxUsedIds = 4096;
constexpr int kMaxRefusals = 10;
constexpr size_t kAdoptionIdDigits = 32;
constexpr size_t kMaxTextBytes = 128;
constexpr absl::Duration kMaxConnectTimeout = absl::Hours(24);
constexpr absl::Duration kSecretPoll = absl::Seconds(1);
// How long an agent may take to end after its stdin was closed.
constexpr absl::Duration kEndGrace = absl::Seconds(5);

// What the host's log should have, at any level.
void Say(absl::string_view text) {
  std::printf("millrace-agent: %s\n", EscapeControls(text).c_str());
  std::fflush(stdout);
}

// gRPC tells of failed handshakes in its own log only.
constexpr char kHandshakeFailed[] =
    "a caller and this agent did not agree on a connection: it pins the certificate of another "
    "secret, "
    "or is no driver";

std::string DriverOf(const v1::Hold& hold) {
  return absl::StrCat("cluster ", EscapeControls(Ellipsize(hold.cluster_id(), kMaxTextBytes)),
                      " of driver ", EscapeControls(Ellipsize(hold.driver(), kMaxTextBytes)));
}

std::string SlotOf(const v1::Hold& hold) {
  return absl::StrCat("executor ", hold.executor_id(), " of ", DriverOf(hold));
}

}  // namespace

ListenMode::ListenMode(EventLoop* loop, ChildReaper* reaper, ListenOptions options)
    : loop_(loop),
      reaper_(reaper),
      options_(std::move(options)),
      numbers_(std::make_shared<ListenMetrics>(ListenMetrics::Identity{
          .version = options_.version, .host = LocalHostname(), .started = absl::Now()})) {}

ListenMode::~ListenMode() {
  loop_->Cancel(&secret_timer_);
  loop_->Cancel(&kill_timer_);
}

void ListenMode::Start() {
  LogGrpcHere(kHandshakeFailed);
  absl::StatusOr<AgentSecret> secret = ReadAgentSecret(options_.secret);
  absl::Status status = secret.status();
  if (status.ok()) {
    TakeSecret(*std::move(secret));
    status = ServeMetrics();
    if (status.ok()) status = Listen();
  }
  if (!status.ok()) {
    std::fprintf(stderr, "millrace-agent: %s\n", EscapeControls(status.message()).c_str());
    loop_->Defer([this] { Quit(kExitAgentFailed); });  // the loop has yet to begin
    return;
  }
  Say(absl::StrCat("listening on ", options_.address.ToString(), ", version ", options_.version));
  if (metrics_ != nullptr) {
    Say(absl::StrCat("metrics at ", MetricsUrl(*options_.metrics, metrics_->port())));
  }
  SayRenewal();
  secret_timer_ = loop_->After(kSecretPoll, [this] { CheckSecret(); });
  if (!options_.parent_stdin) return;
  const absl::Status watched = loop_->Watch(STDIN_FILENO, EPOLLIN, [this](uint32_t) {
    char buffer[512];
    if (::read(STDIN_FILENO, buffer, sizeof(buffer)) > 0) return;
    loop_->Unwatch(STDIN_FILENO);
    ParentEnds();
  });
  if (!watched.ok()) loop_->Defer([this] { ParentEnds(); });  // a file: at its end at once
}

// Its threads see the numbers alone, so that they may go on until the process ends.
absl::Status ListenMode::ServeMetrics() {
  if (!options_.metrics.has_value()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<MetricsServer>> server =
      MetricsServer::Start(*options_.metrics, [numbers = numbers_](const MetricsRequest& request) {
        return numbers->Text(request.format);
      });
  if (!server.ok()) return Annotate(server.status(), "metrics");
  metrics_ = *std::move(server);
  return absl::OkStatus();
}

void ListenMode::TakeSecret(AgentSecret secret) {
  secret_ = std::move(secret);
  renewal_said_ = false;
  const absl::StatusOr<CertificateValidity> valid =
      ReadCertificateValidity(secret_.certificate_pem);
  if (valid.ok()) numbers_->SetSecretExpiry(valid->until);
}

absl::Status ListenMode::Listen() {
  server_.reset();
  MILLRACE_ASSIGN_OR_RETURN(
      server_,
      AdoptServer::Start(
          options_.address, secret_, loop_->mailbox(),
          {.on_request = [this](const auto& stream,
                                const v1::AdoptRequest& request) { OnRequest(stream, request); },
           .on_gone = [this](const auto& stream) { OnGone(stream); },
           .on_refused = [this](
                             const std::string& peer,
                             const absl::Status& why) { OnRefused(peer, Refusal::kToken, why); }}));
  options_.address.port = static_cast<uint16_t>(server_->port());
  return absl::OkStatus();
}

// Secrets rotate: Kubernetes replaces the files of a mounted one. That breaks the streams, which
// their drivers open again; the agent that is running does not notice.
void ListenMode::CheckSecret() {
  secret_timer_ = loop_->After(kSecretPoll, [this] { CheckSecret(); });
  absl::StatusOr<AgentSecret> secret = ReadAgentSecret(options_.secret);
  if (!secret.ok()) {
    // It may be half-written; what was read before goes on to hold.
    if (secret.status() != secret_problem_) {
      MILLRACE_LOG(WARNING) << "the secret of before is kept: " << secret.status().message();
    }
    secret_problem_ = secret.status();
    return;
  }
  secret_problem_ = absl::OkStatus();
  if (*secret == secret_ && server_ != nullptr) {
    SayRenewal();
    return;
  }
  const bool changed = !(*secret == secret_);
  TakeSecret(*std::move(secret));
  const absl::Status status = Listen();
  if (status.ok()) {
    Say("the secret was replaced; the one of before is refused");
  } else if (changed) {
    MILLRACE_LOG(ERROR) << "with the new secret: " << status.message();  // tried again
  }
}

// Once for each secret, at the start or when its time comes.
void ListenMode::SayRenewal() {
  if (renewal_said_) return;
  const std::string notice = RenewalNotice(secret_, options_.secret, absl::Now());
  renewal_said_ = !notice.empty();
  if (renewal_said_) Say(notice);
}

std::string ListenMode::Advertised() const {
  if (!options_.advertise.empty()) return options_.advertise;
  const std::string& host = options_.address.host;
  return host == "0.0.0.0" || host == "::" ? "" : host;
}

// ---- calls -------------------------------------------------------------------------------------

void ListenMode::OnRequest(const std::shared_ptr<AdoptStream>& stream,
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
  if (request.has_redirect()) OnRedirect(request.redirect());
  if (request.has_release()) OnRelease(request.release().now());
}

absl::Status ListenMode::CheckHold(const v1::Hold& hold, Refusal* refusal) const {
  *refusal = Refusal::kVersion;
  if (hold.protocol() != kProtocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent on ", LocalHostname(), " is version ", options_.version,
                     " (adopt protocol ", kProtocol, ") and the driver is version ",
                     EscapeControls(Ellipsize(hold.version(), kMaxTextBytes)), " (adopt protocol ",
                     hold.protocol(), "): install the same version of Millrace on both"));
  }
  const std::string here = absl::StrCat("the agent on ", LocalHostname());
  if (absl::Status versions =
          CheckVersions({here, options_.version}, {"the driver", hold.version()});
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
  if (ending_) return absl::UnavailableError("the agent is ending");
  *refusal = Refusal::kReplayed;
  if (Used(id)) {
    return absl::AlreadyExistsError(
        "this adoption is over: the message was used before (replayed?)");
  }
  return absl::OkStatus();
}

bool ListenMode::Used(absl::string_view adoption_id) const {
  return std::find(used_.begin(), used_.end(), adoption_id) != used_.end();
}

void ListenMode::OnHold(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold) {
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
  const bool same_slot =
      hold.cluster_id() == held.cluster_id() && hold.executor_id() == held.executor_id();
  if (same_slot && hold.driver_epoch() < held.driver_epoch()) {
    Refuse(stream, hold, Refusal::kFenced,
           absl::AbortedError(absl::StrCat(
               "the agent on ", LocalHostname(), " has another driver now, ",
               EscapeControls(Ellipsize(held.driver(), kMaxTextBytes)),
               ", which has taken cluster ", EscapeControls(held.cluster_id()), " over")));
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
  } else if (same_slot) {
    if (next_stream_ != nullptr) next_stream_->Close(absl::CancelledError("there is a later one"));
    next_stream_ = stream;
    next_ = hold;
    OnRelease(/*now=*/true);
  } else {
    Refuse(stream, hold, Refusal::kBusy,
           absl::ResourceExhaustedError(absl::StrCat(
               "the agent on ", LocalHostname(), " serves ", SlotOf(held), " since ",
               absl::FormatTime("%H:%M:%S UTC", adoption_->since, absl::UTCTimeZone()))));
  }
}

void ListenMode::Take(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold) {
  adoption_.emplace();
  adoption_->hold = hold;
  adoption_->since = absl::Now();
  adoption_->stream = stream;
  numbers_->Adopted();
  numbers_->SetSlot(SlotUse::kHeld);
  SayHeld();
}

void ListenMode::SayHeld() {
  v1::AdoptEvent event;
  v1::Held& held = *event.mutable_held();
  held.set_host(LocalHostname());
  held.set_version(options_.version);
  held.set_peer_host(adoption_->stream->peer_host());
  held.set_running(adoption_->agent != nullptr);
  adoption_->stream->Send(std::move(event));
  if (adoption_->agent == nullptr) return;
  v1::AdoptEvent started;
  started.mutable_started()->set_pid(adoption_->agent->pid());
  adoption_->stream->Send(std::move(started));
}

void ListenMode::OnStartAgent(const v1::StartAgent& start) {
  if (adoption_->agent != nullptr) return;  // said twice
  const v1::Hold& hold = adoption_->hold;
  AgentTicket ticket;
  ticket.executor_id = hold.executor_id();
  ticket.coordinator_address = FormatHostPort(start.coordinator_host(), start.coordinator_port());
  ticket.cluster_id = hold.cluster_id();
  ticket.ca_pem = start.ca_pem();
  ticket.identity_pem = start.identity_pem();
  ticket.token = start.token();
  ticket.working_dir = start.working_dir();
  ticket.advertise = Advertised();
  if (start.has_connect_timeout()) {
    ticket.connect_timeout = std::clamp(DurationFromProto(start.connect_timeout()),
                                        absl::Milliseconds(1), kMaxConnectTimeout);
  }
  AgentProcess::OnCounts on_counts;
  if (metrics_ != nullptr) on_counts = [this](const Json& event) { OnCounts(event); };
  absl::StatusOr<std::unique_ptr<AgentProcess>> agent = AgentProcess::Spawn(
      "/proc/self/exe", ticket, &options_.environment, /*node_stdin=*/-1, std::move(on_counts));
  if (!agent.ok()) {
    v1::Ended ended;
    ended.set_error_code(static_cast<int>(agent.status().code()));
    ended.set_error_message(std::string(agent.status().message()));
    EndAdoption(ended);
    return;
  }
  adoption_->agent = *std::move(agent);
  adoption_->coordinator = ticket.coordinator_address;
  numbers_->AgentStarted(adoption_->agent->pid());
  numbers_->SetSlot(SlotUse::kRunning);
  Say(absl::StrCat("adopted as ", SlotOf(hold), ", coordinator ", ticket.coordinator_address));
  WatchAgent();
  v1::AdoptEvent event;
  event.mutable_started()->set_pid(adoption_->agent->pid());
  adoption_->stream->Send(std::move(event));
}

void ListenMode::OnRedirect(const v1::Redirect& redirect) {
  if (adoption_->agent == nullptr) return;  // StartAgent says where, or it has ended
  const std::string address =
      FormatHostPort(redirect.coordinator_host(), redirect.coordinator_port());
  adoption_->agent->SetCoordinator(address);
  if (std::exchange(adoption_->coordinator, address) == address) return;
  Say(absl::StrCat("taken over for ", SlotOf(adoption_->hold), ", coordinator ", address));
}

void ListenMode::WatchAgent() {
  AgentProcess* const agent = adoption_->agent.get();
  reaper_->Register(agent->pid(), [this](const ExitStatus& exit) {
    if (exit.ended()) OnAgentExit(exit);
  });
  // A descriptor is closed at its end, which must not come before it is unwatched.
  const auto watch = [this](int fd, auto read) {
    const absl::Status watched = loop_->Watch(fd, EPOLLIN, [this, fd, read](uint32_t) {
      if (!read()) loop_->Unwatch(fd);
    });
    if (!watched.ok()) MILLRACE_LOG(WARNING) << "the agent is not heard: " << watched.message();
  };
  watch(agent->out_fd(), [agent] {
    agent->ReadOut();
    return agent->out_fd() >= 0;
  });
  watch(agent->err_fd(), [agent] {
    agent->ReadErr();
    return agent->err_fd() >= 0;
  });
}

void ListenMode::OnCounts(const Json& event) {
  const absl::StatusOr<AgentCounts> counts = ParseAgentCounts(event);
  if (counts.ok()) {
    numbers_->AgentCounted(*counts);
  } else {
    MILLRACE_LOG(WARNING) << "the agent's counts are left out: " << counts.status().message();
  }
}

void ListenMode::OnRelease(bool now) {
  if (!adoption_.has_value()) return;
  if (adoption_->agent == nullptr) {
    EndAdoption(v1::Ended());
  } else if (now) {
    adoption_->agent->Kill();
  } else {
    adoption_->agent->CloseStdin();
  }
}

void ListenMode::OnGone(const std::shared_ptr<AdoptStream>& stream) {
  if (stream == next_stream_) next_stream_.reset();
  if (!adoption_.has_value() || adoption_->stream != stream) return;
  adoption_->stream.reset();
  if (adoption_->agent == nullptr) {
    EndAdoption(v1::Ended());
  } else {
    MILLRACE_LOG(INFO) << "the driver is away; its agent goes on: " << SlotOf(adoption_->hold);
  }
}

void ListenMode::OnAgentExit(const ExitStatus& exit) {
  if (adoption_->agent->out_fd() >= 0) loop_->Unwatch(adoption_->agent->out_fd());
  if (adoption_->agent->err_fd() >= 0) loop_->Unwatch(adoption_->agent->err_fd());
  const AgentExit end = adoption_->agent->Reap(exit);
  numbers_->AgentEnded();
  v1::Ended ended;
  if (exit.kind == ExitStatus::Kind::kSignaled) {
    ended.set_exit_signal(exit.signal);
  } else {
    ended.set_exit_code(exit.code);
  }
  ended.set_error_code(static_cast<int>(end.status.code()));
  ended.set_error_message(std::string(end.status.message()));
  for (const std::string& line : end.stderr_tail) ended.add_stderr_tail(line);
  Say(absl::StrCat("free again: the agent for ", SlotOf(adoption_->hold), " ended with ",
                   DescribeExit(exit), end.status.ok() ? "" : ": ", end.status.message()));
  EndAdoption(ended);
}

void ListenMode::EndAdoption(const v1::Ended& ended) {
  used_.push_back(adoption_->hold.adoption_id());
  if (used_.size() > kMaxUsedIds) used_.pop_front();
  if (const auto stream = std::move(adoption_->stream); stream != nullptr) {
    v1::AdoptEvent event;
    *event.mutable_ended() = ended;
    stream->Send(std::move(event));
    stream->Close(absl::OkStatus());
  }
  adoption_.reset();
  numbers_->SetSlot(SlotUse::kFree);
  if (ending_) {
    Quit(kExitFinished);
  } else if (const auto next = std::move(next_stream_); next != nullptr) {
    Take(next, next_);
  }
}

void ListenMode::Refuse(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold,
                        Refusal refusal, const absl::Status& why) {
  OnRefused(absl::StrCat(stream->peer_host(), " (", SlotOf(hold), ")"), refusal, why);
  stream->Close(why);
}

void ListenMode::OnRefused(const std::string& peer, Refusal refusal, const absl::Status& why) {
  numbers_->Refused(refusal);
  // A driver that looks for the slot's present adoption asks for those before it.
  if (refusal == Refusal::kReplayed) return;
  const absl::Time now = absl::Now();
  if (now - refusals_since_ > absl::Minutes(1)) {
    refusals_since_ = now;
    refusals_ = 0;
  }
  if (++refusals_ > kMaxRefusals) return;
  MILLRACE_LOG(WARNING) << "refused " << peer << ": " << why.message()
                        << (refusals_ == kMaxRefusals ? " (no more of these for a minute)" : "");
}

// ---- the end -----------------------------------------------------------------------------------

void ListenMode::ParentEnds() {
  if (!ending_) OnSignal(0);
}

void ListenMode::OnSignal(int /*signal*/) {
  const bool again = std::exchange(ending_, true);
  if (!adoption_.has_value()) {
    Quit(kExitFinished);
    return;
  }
  OnRelease(/*now=*/again);
  if (again || !adoption_.has_value()) return;
  kill_timer_ = loop_->After(kEndGrace, [this] { OnRelease(/*now=*/true); });
}

void ListenMode::Quit(int exit_code) {
  exit_code_ = exit_code;
  loop_->Quit();
}

int ListenMode::Cleanup() {
  server_.reset();  // tells the drivers what is queued for them
  return exit_code_;
}

}  // namespace millrace
