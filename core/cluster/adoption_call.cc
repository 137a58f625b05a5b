#include "core/cluster/adoption_call.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/proto/grpc_status.h"

namespace millrace {
namespace {

constexpr int kMaxEventBytes = 1 << 20;
// A connection that is not there by then is not coming: a firewall that drops packets.
constexpr int kConnectTimeoutMs = 5'000;
// A host that vanished sends no reset. Agents allow a ping each 5 s.
constexpr int kKeepaliveMs = 6'000;
constexpr int kKeepaliveTimeoutMs = 5'000;

bool Mentions(absl::string_view text, std::initializer_list<absl::string_view> words) {
  for (const absl::string_view word : words) {
    if (absl::StrContains(text, word)) return true;
  }
  return false;
}

}  // namespace

absl::Status ExplainAdoptError(const absl::Status& status, absl::string_view address) {
  const absl::string_view text = status.message();
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return status;
    case absl::StatusCode::kUnavailable:
      break;
    case absl::StatusCode::kUnimplemented:
      return absl::FailedPreconditionError(
          absl::StrCat("what listens on ", address, " is no agent that can be adopted: ", text));
    case absl::StatusCode::kUnauthenticated:
      return absl::UnauthenticatedError(absl::StrCat(
          "the agent at ", address, " refused this driver: ", text, "; give both the same secret"));
    case absl::StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(
          absl::StrCat("the agent at ", address, " is taken: ", text));
    default:
      return absl::Status(status.code(), absl::StrCat("the agent at ", address, ": ", text));
  }
  if (Mentions(text, {"CERTIFICATE_VERIFY_FAILED", "certificate verify failed",
                      "is not in peer certificate"})) {
    return absl::PermissionDeniedError(absl::StrCat(
        "what listens on ", address,
        " does not have the certificate of the agents' secret: it has another secret, or is "
        "another program; nothing was sent to it"));
  }
  if (Mentions(text, {"WRONG_VERSION_NUMBER", "wrong version number", "packet length too long"})) {
    return absl::FailedPreconditionError(
        absl::StrCat("what listens on ", address, " speaks no TLS: it is no agent"));
  }
  if (Mentions(text, {"Connection refused"})) {
    return absl::UnavailableError(
        absl::StrCat("nobody listens on ", address,
                     " (connection refused): is `millrace-agent agent --listen` running there?"));
  }
  if (Mentions(text, {"Handshake read failed"})) {
    return absl::UnavailableError(absl::StrCat(
        "no word from what listens on ", address,
        ", though it takes connections: is it an agent, and does nothing in between (a proxy, a "
        "firewall) hold them up?"));
  }
  if (Mentions(text, {"Timeout", "timed out", "timeout", "Deadline", "No route", "unreachable",
                      "tcp handshaker shutdown"})) {
    return absl::UnavailableError(
        absl::StrCat("no answer from ", address, " in ", kConnectTimeoutMs / 1000,
                     " s: is the port open between the driver and that host? (", text, ")"));
  }
  return absl::UnavailableError(absl::StrCat("cannot reach the agent at ", address, ": ", text));
}

AdoptionCall::AdoptionCall(std::string address, Callbacks callbacks)
    : address_(std::move(address)), callbacks_(std::move(callbacks)) {}

std::shared_ptr<AdoptionCall> AdoptionCall::Start(const std::string& address,
                                                  const AgentSecret& secret, const v1::Hold& hold,
                                                  Callbacks callbacks) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = secret.certificate_pem;
  tls.pem_private_key = secret.key_pem;
  tls.pem_cert_chain = secret.certificate_pem;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(kAgentCertificateName);
  arguments.SetMaxReceiveMessageSize(kMaxEventBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // the stream is silent for hours

  std::shared_ptr<AdoptionCall> call(new AdoptionCall(address, std::move(callbacks)));
  call->self_ = call;
  call->channel_ = grpc::CreateCustomChannel(absl::StrCat("dns:///", address),
                                             grpc::SslCredentials(tls), arguments);
  call->stub_ = v1::AgentHost::NewStub(call->channel_);
  call->context_.AddMetadata("authorization", absl::StrCat("Bearer ", secret.token));
  call->stub_->async()->Adopt(&call->context_, call.get());
  call->AddMultipleHolds(2);  // reads and writes are started from outside of reactions
  call->StartRead(&call->incoming_);
  call->StartCall();
  v1::AdoptRequest request;
  *request.mutable_hold() = hold;
  call->Send(std::move(request));
  return call;
}

void AdoptionCall::Send(v1::AdoptRequest request) {
  {
    MutexLock lock(&mu_);
    if (closed_) return;
    queue_.push_back(std::move(request));
  }
  Pump();
}

void AdoptionCall::Pump() {
  const v1::AdoptRequest* request = nullptr;
  {
    MutexLock lock(&mu_);
    if (writing_ || released_) return;
    if (closed_) {
      released_ = true;
    } else if (!queue_.empty()) {
      writing_ = true;
      request = &queue_.front();
    } else {
      return;
    }
  }
  if (request != nullptr) {
    StartWrite(request);
  } else {
    RemoveHold();
  }
}

void AdoptionCall::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mu_);
    writing_ = false;
    queue_.pop_front();
    if (!ok) closed_ = true;
  }
  Pump();
}

void AdoptionCall::OnReadDone(bool ok) {
  if (ok) {
    callbacks_.on_event(incoming_);
    incoming_.Clear();
    StartRead(&incoming_);
    return;
  }
  {
    MutexLock lock(&mu_);
    closed_ = true;
  }
  Pump();
  RemoveHold();
}

void AdoptionCall::OnDone(const grpc::Status& status) {
  const absl::Status result =
      status.ok() ? absl::OkStatus() : ExplainAdoptError(FromGrpcStatus(status), address_);
  const Callbacks callbacks = std::move(callbacks_);
  callbacks.on_done(result, std::move(self_));  // this object may be gone now
}

}  // namespace millrace
