#include "core/agent/link/coordinator_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/agent/link/local_address.h"
#include "core/agent/link/relay_socket.h"
#include "core/base/deadline.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/net/certificate.h"
#include "core/net/socket_address.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kMaxBackoff = absl::Seconds(2);
// How long a call on a channel that could not connect may take to say why.
constexpr absl::Duration kFailFast = absl::Seconds(2);
// How long a coordinator may take to end a stream that the agent has half-closed. One that does not
// answer at all is found out sooner, by the channel's keepalive, and then dialled within the lease:
// it may have been stopped for a while, and what is cancelled it would never read.
constexpr absl::Duration kFinishTimeout = absl::Seconds(15);

// What gRPC says of a call that came while the server ended: the cluster may be another driver's,
// or left to the next one.
bool IsEndOfServerAlone(const absl::Status& status) {
  if (!absl::IsCancelled(status)) return false;
  const absl::string_view text = status.message();
  return text.empty() || absl::EqualsIgnoreCase(text, "cancelled") ||
         absl::StrContains(text, "RST_STREAM");
}

std::string WhatToDo(const absl::Status& status) {
  const absl::string_view text = status.message();
  if (absl::StrContains(text, "CERTIFICATE_VERIFY_FAILED") ||
      absl::StrContains(text, "certificate verify failed") ||
      absl::StrContains(text, "Ssl handshake failed") || absl::StrContains(text, "TLSV1_ALERT")) {
    return "its certificate is not from the CA this agent was given: another cluster, or no "
           "coordinator, listens there";
  }
  return "see that the coordinator runs and that this host can reach that address and port";
}

}  // namespace

bool IsFinalAttachError(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return false;
    default:
      return true;
  }
}

absl::Status ExplainAttachError(const absl::Status& status, absl::string_view address) {
  const std::string said = Ellipsize(EscapeControls(status.message()), 1000);
  std::string text;
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      text = absl::StrCat("the coordinator at ", address, " does not know this agent's token (",
                          said, "); start the agent with the agent token of this very cluster");
      break;
    case absl::StatusCode::kPermissionDenied:
      text = absl::StrCat("the coordinator at ", address, " refused this agent (", said,
                          "); give it the agent token, not that of a viewer or operator");
      break;
    case absl::StatusCode::kAlreadyExists:
      text = absl::StrCat("another agent holds this slot (", said,
                          "); this one is not needed and ends");
      break;
    case absl::StatusCode::kFailedPrecondition:
      // Another version, a slot that failed for good, a cluster that is being stopped.
      text = absl::StrCat("the coordinator at ", address, " does not accept this agent: ", said);
      break;
    case absl::StatusCode::kNotFound:
      text = absl::StrCat("the coordinator at ", address, " has no such slot (", said,
                          "); executor ids run from 0 to the size of the cluster - 1");
      break;
    case absl::StatusCode::kResourceExhausted:
      text = absl::StrCat("the coordinator at ", address, " has no free slot (", said,
                          "); start no more agents than the cluster has nodes");
      break;
    case absl::StatusCode::kCancelled:
      text = absl::StrCat("the coordinator at ", address, " has ended the cluster (", said, ")");
      break;
    case absl::StatusCode::kUnimplemented:
      text = absl::StrCat("what listens at ", address, " is no Millrace coordinator (", said, ")");
      break;
    default:
      text = absl::StrCat("the coordinator at ", address, " refused this agent: ", said);
  }
  return absl::Status(status.code(), text);
}

CoordinatorLink::CoordinatorLink(EventLoop* loop, Options options, Callbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      backoff_(kFirstBackoff) {}

CoordinatorLink::~CoordinatorLink() {
  ended_ = true;
  loop_->Cancel(&timer_);
  loop_->Cancel(&give_up_timer_);
  if (dial_cancelled_ != nullptr) dial_cancelled_->store(true);
  if (stream_ != nullptr) stream_->Cancel();
  if (heartbeat_stop_.valid()) {
    const uint64_t one = 1;
    (void)!write(heartbeat_stop_.get(), &one, sizeof(one));
  }
}

void CoordinatorLink::Start() {
  // TLS would only say "certificate verify failed", at every attempt.
  const std::string clocks = ClockMismatch(options_.endpoint.ca_pem, absl::Now());
  if (!clocks.empty()) {
    loop_->Defer([this, alive = std::weak_ptr<bool>(alive_), clocks] {
      if (alive.expired()) return;
      End(absl::FailedPreconditionError(absl::StrCat("the certificate of the coordinator at ",
                                                     options_.endpoint.address,
                                                     " does not agree with the clock: ", clocks)));
    });
    return;
  }
  StartGiveUpTimer(options_.connect_timeout);
  Dial();
}

void CoordinatorLink::StartGiveUpTimer(absl::Duration after) {
  loop_->Cancel(&give_up_timer_);
  if (paused_) return;
  give_up_timer_ = loop_->After(after, [this, after] {
    const absl::string_view address = options_.endpoint.address;
    const std::string last =
        Ellipsize(last_error_.ok() ? "no answer yet" : EscapeControls(last_error_.message()), 1000);
    if (finishing_) {
      End(absl::UnavailableError(absl::StrCat("could not tell the coordinator at ", address,
                                              " how the node ended: ", last)));
    } else if (ever_registered_) {
      End(absl::UnavailableError(absl::StrCat(
          "lost the coordinator at ", address, " and could not attach again within its lease of ",
          absl::FormatDuration(after), ", so the node was ended; last error: ", last)));
    } else {
      End(absl::UnavailableError(absl::StrCat("cannot attach to the coordinator at ", address,
                                              " within ", absl::FormatDuration(after), "; ",
                                              WhatToDo(last_error_), "; last error: ", last)));
    }
  });
}

void CoordinatorLink::Dial() {
  if (ended_) return;
  auto channel = MakeCoordinatorChannel(options_.endpoint);
  channel_ = channel;
  attach_stub_ = stub_ = v1::Coordinator::NewStub(channel);
  const absl::StatusOr<HostPort> target = ParseHostPort(options_.endpoint.address);
  const uint16_t port = target.ok() ? target->port : 0;
  dial_cancelled_ = std::make_shared<std::atomic<bool>>(false);
  auto dial = [this, port, channel, relay = ReachOrStartRelay(), cancelled = dial_cancelled_,
               mailbox = loop_->mailbox(), alive = std::weak_ptr<bool>(alive_)]() mutable {
    std::string local;
    if (relay.valid()) {
      absl::StatusOr<std::string> greeting = ReadGreeting(relay.get(), kMaxDial, *cancelled);
      if (greeting.ok()) {
        local = *std::move(greeting);
      } else {
        relay.reset();
      }
    }
    if (!relay.valid() && WaitConnected(channel.get(), *cancelled)) local = LocalHostTowards(port);
    mailbox->Post([this, alive, local, relay = std::move(relay)]() mutable {
      if (!alive.expired()) OnDialled(local, std::move(relay));
    });
  };
  absl::StatusOr<Thread> thread = Thread::Start("coord-dial", std::move(dial));
  if (!thread.ok()) {
    Retry(thread.status());
    return;
  }
  dialler_ = *std::move(thread);
  dialling_ = true;
}

UniqueFd CoordinatorLink::ReachOrStartRelay() {
  if (options_.start_relay == nullptr || !relay_works_) return UniqueFd();
  absl::StatusOr<RelayEnds> relay = ReachRelay(RelayName(options_.endpoint));
  absl::Status status = relay.status();
  if (relay.ok() && relay->listening.valid()) {
    status = options_.start_relay(std::move(relay->listening));
  }
  if (status.ok()) return std::move(relay->connection);
  MILLRACE_LOG(WARNING) << "no connection is shared with other agents of this host: "
                        << status.message();
  return UniqueFd();
}

void CoordinatorLink::OnDialled(const std::string& local_host, UniqueFd relay) {
  dialling_ = false;
  if (ended_) return;
  if (std::exchange(redial_, false)) {
    if (paused_) {
      dial_when_resumed_ = true;
    } else {
      Dial();
    }
    return;
  }
  // One that failed is not tried again: the coordinator itself says best what is wrong.
  relay_works_ = relayed_ = relay.valid();
  if (relayed_) attach_stub_ = v1::Coordinator::NewStub(MakeRelayChannel(std::move(relay)));
  if (local_host.empty()) {
    // A call on the failed channel tells why; nothing is sent.
    StartStream();
    timer_ =
        loop_->After(kFailFast, [this] { Reattach(absl::UnavailableError("cannot connect")); });
    return;
  }
  absl::StatusOr<v1::Register> hello = callbacks_.make_register(local_host);
  if (ended_) return;
  if (!hello.ok()) {
    End(hello.status());
    return;
  }
  StartStream();
  v1::AgentMessage message;
  *message.mutable_register_() = *std::move(hello);
  stream_->Send(std::move(message));
  timer_ = loop_->After(options_.register_timeout, [this] {
    Reattach(absl::DeadlineExceededError(absl::StrCat(
        "no answer to Register within ", absl::FormatDuration(options_.register_timeout))));
  });
}

void CoordinatorLink::StartStream() {
  const uint64_t generation = ++generation_;
  const std::weak_ptr<bool> alive = alive_;
  stream_ =
      AttachCall::Start(attach_stub_.get(), options_.endpoint.token, loop_->mailbox(),
                        {.on_message =
                             [this, alive, generation](const v1::CoordinatorMessage& message) {
                               if (alive.expired() || generation != generation_ || ended_) return;
                               if (message.has_registered()) {
                                 OnRegistered(message.registered());
                               } else {
                                 callbacks_.on_message(message);
                               }
                             },
                         .on_done =
                             [this, alive, generation](const absl::Status& status) {
                               if (alive.expired() || generation != generation_ || ended_) return;
                               OnStreamDone(status);
                             }});
}

void CoordinatorLink::OnRegistered(const v1::Registered& registered) {
  if (registered_) return;  // a coordinator that answers twice
  loop_->Cancel(&timer_);
  loop_->Cancel(&give_up_timer_);
  registered_ = ever_registered_ = true;
  backoff_ = kFirstBackoff;
  last_error_ = absl::OkStatus();
  if (registered.has_lease()) {
    lease_ =
        std::clamp(DurationFromProto(registered.lease()), absl::Milliseconds(10), absl::Hours(24));
  }
  absl::Duration interval = absl::Seconds(1);
  if (registered.has_heartbeat_interval()) {
    interval = std::clamp(DurationFromProto(registered.heartbeat_interval()),
                          absl::Milliseconds(10), absl::Hours(1));
  }
  {
    MutexLock lock(&heartbeat_mu_);
    heartbeat_stream_ = stream_;
  }
  if (!heartbeats_.joinable()) StartHeartbeats(interval);
  callbacks_.on_registered(registered);
  if (finishing_ && !ended_) Finish();
}

void CoordinatorLink::StartHeartbeats(absl::Duration interval) {
  heartbeat_stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const int interval_ms = static_cast<int>(absl::ToInt64Milliseconds(interval));
  heartbeats_ = Thread("heartbeat", [this, interval_ms] {
    // poll() counts monotonic time: a jump of the date must not cost the lease.
    pollfd stop{.fd = heartbeat_stop_.get(), .events = POLLIN, .revents = 0};
    while (poll(&stop, 1, interval_ms) == 0) {
      std::shared_ptr<AttachCall> stream;
      {
        MutexLock lock(&heartbeat_mu_);
        stream = heartbeat_stream_;
      }
      if (stream != nullptr) stream->SendHeartbeat();
    }
  });
}

bool CoordinatorLink::Send(v1::AgentMessage message, bool droppable) {
  return registered_ && stream_->Send(std::move(message), droppable);
}

void CoordinatorLink::Reattach(const absl::Status& why) {
  if (ended_ || stream_ == nullptr) return;
  reattach_why_ = why;
  stream_->Cancel();
}

void CoordinatorLink::SetAddress(const std::string& address) {
  if (ended_ || address == options_.endpoint.address) return;
  options_.endpoint.address = address;
  backoff_ = kFirstBackoff;
  if (dialling_) {
    redial_ = true;
    dial_cancelled_->store(true);
  } else if (stream_ != nullptr) {
    Reattach(absl::UnavailableError(absl::StrCat("the coordinator is at ", address, " now")));
  } else if (timer_ != EventLoop::kNoTimer && !paused_) {  // the next dial
    loop_->Cancel(&timer_);
    Dial();
  }
}

void CoordinatorLink::Finish() {
  if (ended_) return;
  finishing_ = true;
  if (!registered_) return;
  stream_->Finish();
  StartFinishTimer();
}

void CoordinatorLink::StartFinishTimer() {
  loop_->Cancel(&timer_);
  timer_ = loop_->After(kFinishTimeout, [this] {
    if (paused_) {
      StartFinishTimer();
    } else {
      End(absl::OkStatus());
    }
  });
}

void CoordinatorLink::OnStreamDone(const absl::Status& done) {
  const bool was_registered = std::exchange(registered_, false);
  if (relayed_ && !was_registered) relay_works_ = false;
  loop_->Cancel(&timer_);
  stream_.reset();
  {
    MutexLock lock(&heartbeat_mu_);
    heartbeat_stream_.reset();
  }
  absl::Status status = done;
  // A coordinator that ends its cluster has words of its own for it.
  if (IsEndOfServerAlone(status)) status = absl::UnavailableError("the coordinator's server ended");
  if (!reattach_why_.ok()) {
    status = std::exchange(reattach_why_, absl::OkStatus());
    status = absl::UnavailableError(status.message());
  } else if (finishing_ && was_registered && (status.ok() || absl::IsCancelled(status))) {
    End(absl::OkStatus());
    return;
  } else if (status.ok()) {
    status = absl::CancelledError("the coordinator closed the stream");
  }
  if (IsFinalAttachError(status.code())) {
    End(ExplainAttachError(status, options_.endpoint.address));
    return;
  }
  if (was_registered) {
    MILLRACE_LOG(WARNING) << "lost the coordinator at " << options_.endpoint.address << " ("
                          << status.message() << "); attaching again within "
                          << absl::FormatDuration(lease_);
    StartGiveUpTimer(lease_);
    callbacks_.on_lost(status);
    if (ended_) return;
  }
  Retry(status);
}

void CoordinatorLink::SetPaused(bool paused) {
  if (ended_ || paused_ == paused) return;
  paused_ = paused;
  if (paused) {
    loop_->Cancel(&give_up_timer_);
    return;
  }
  if (registered_) return;
  StartGiveUpTimer(ever_registered_ ? lease_ : options_.connect_timeout);
  if (std::exchange(dial_when_resumed_, false)) Dial();
}

void CoordinatorLink::Retry(const absl::Status& why) {
  last_error_ = why;
  if (paused_) {
    dial_when_resumed_ = true;
    return;
  }
  // +-20 %, so that the agents of a cluster do not come back all at once.
  const double jitter = 0.8 + 0.4 * static_cast<double>(RandomU64() % 1000) / 1000.0;
  timer_ = loop_->After(backoff_ * jitter, [this] { Dial(); });
  backoff_ = std::min(backoff_ * 1.6, kMaxBackoff);
}

void CoordinatorLink::End(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  loop_->Cancel(&timer_);
  loop_->Cancel(&give_up_timer_);
  registered_ = false;
  if (dial_cancelled_ != nullptr) dial_cancelled_->store(true);
  if (stream_ != nullptr) stream_->Cancel();
  callbacks_.on_end(status);
}

}  // namespace millrace
