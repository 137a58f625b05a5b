#include "core/agent/modes/listen_mode.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/agent/link/agent_counts.h"
#include "core/agent/loop/exit_codes.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/net/certificate.h"
#include "core/net/grpc_log.h"
#include "core/proto/time_proto.h"
#include "millrace/agent_ticket.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kMaxRefusals = 10;
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

}  // namespace

ListenMode::ListenMode(EventLoop* loop, ChildReaper* reaper, ListenOptions options)
    : loop_(loop),
      reaper_(reaper),
      options_(std::move(options)),
      numbers_(std::make_shared<ListenMetrics>(ListenMetrics::Identity{
          .version = options_.version, .host = LocalHostname(), .started = absl::Now()})),
      seat_(LocalHostname(), options_.version, this) {}

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
      server_, AdoptServer::Start(options_.address, secret_, loop_->mailbox(),
                                  {.on_request =
                                       [this](const auto& stream, const v1::AdoptRequest& request) {
                                         seat_.OnRequest(stream, request);
                                       },
                                   .on_gone = [this](const auto& stream) { seat_.OnGone(stream); },
                                   .on_refused =
                                       [this](const std::string& peer, const absl::Status& why) {
                                         Refused(peer, Refusal::kToken, why);
                                       }}));
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

// ---- the agent ----------------------------------------------------------------------------------

absl::StatusOr<int64_t> ListenMode::StartAgent(const v1::Hold& hold, const v1::StartAgent& start) {
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
  MILLRACE_ASSIGN_OR_RETURN(agent_,
                            AgentProcess::Spawn("/proc/self/exe", ticket, &options_.environment,
                                                /*node_stdin=*/-1, std::move(on_counts)));
  coordinator_ = ticket.coordinator_address;
  numbers_->AgentStarted(agent_->pid());
  Say(absl::StrCat("adopted as ", seat_.HolderText(), ", coordinator ", coordinator_));
  WatchAgent();
  return agent_->pid();
}

void ListenMode::RedirectAgent(const v1::Redirect& redirect) {
  const std::string address =
      FormatHostPort(redirect.coordinator_host(), redirect.coordinator_port());
  agent_->SetCoordinator(address);
  if (std::exchange(coordinator_, address) == address) return;
  Say(absl::StrCat("taken over for ", seat_.HolderText(), ", coordinator ", address));
}

void ListenMode::EndAgent(bool now) {
  if (now) {
    agent_->Kill();
  } else {
    agent_->CloseStdin();
  }
}

void ListenMode::SetUse(SlotUse use) {
  if (use == SlotUse::kHeld) numbers_->Adopted();
  numbers_->SetSlot(use);
}

void ListenMode::WatchAgent() {
  AgentProcess* const agent = agent_.get();
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

void ListenMode::OnAgentExit(const ExitStatus& exit) {
  if (agent_->out_fd() >= 0) loop_->Unwatch(agent_->out_fd());
  if (agent_->err_fd() >= 0) loop_->Unwatch(agent_->err_fd());
  const AgentExit end = agent_->Reap(exit);
  agent_.reset();
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
  Say(absl::StrCat("free again: the agent for ", seat_.HolderText(), " ended with ",
                   DescribeExit(exit), end.status.ok() ? "" : ": ", end.status.message()));
  seat_.AgentEnded(ended);
}

void ListenMode::Refused(const std::string& who, Refusal refusal, const absl::Status& why) {
  numbers_->Refused(refusal);
  // A driver that looks for the slot's present adoption asks for those before it.
  if (refusal == Refusal::kReplayed) return;
  const absl::Time now = absl::Now();
  if (now - refusals_since_ > absl::Minutes(1)) {
    refusals_since_ = now;
    refusals_ = 0;
  }
  if (++refusals_ > kMaxRefusals) return;
  MILLRACE_LOG(WARNING) << "refused " << who << ": " << why.message()
                        << (refusals_ == kMaxRefusals ? " (no more of these for a minute)" : "");
}

// ---- the end -----------------------------------------------------------------------------------

void ListenMode::ParentEnds() {
  if (!ending_) OnSignal(0);
}

void ListenMode::OnSignal(int /*signal*/) {
  const bool again = std::exchange(ending_, true);
  seat_.Leave(/*now=*/again);
  if (again || agent_ == nullptr) return;
  kill_timer_ = loop_->After(kEndGrace, [this] { seat_.Leave(/*now=*/true); });
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
