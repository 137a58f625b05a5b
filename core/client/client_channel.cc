#include "core/client/client_channel.h"

#include <chrono>  // grpc::ClientContext takes a time_point

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/peer_version.h"
#include "core/base/version.h"
#include "core/net/socket_address.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace millrace {
namespace {

// A coordinator whose host vanished sends no reset: only an unanswered ping shows it. Coordinators
// allow a ping each 5 s.
constexpr int kKeepaliveMs = 6'000;
constexpr int kKeepaliveTimeoutMs = 5'000;

bool IsCertificateError(absl::string_view text) {
  return absl::StrContains(text, "CERTIFICATE_VERIFY_FAILED") ||
         absl::StrContains(text, "certificate verify failed") ||
         absl::StrContains(text, "Peer name millrace is not in peer certificate");
}

bool IsNoTls(absl::string_view text) {
  return absl::StrContains(text, "WRONG_VERSION_NUMBER") ||
         absl::StrContains(text, "wrong version number");
}

}  // namespace

absl::Status CheckEndpoint(const std::string& address, const std::string& ca_pem,
                           const std::string& identity_pem) {
  if (absl::StatusOr<HostPort> parsed = ParseHostPort(address); !parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the coordinator's address: ", parsed.status().message()));
  }
  if (!absl::StrContains(ca_pem, "BEGIN CERTIFICATE")) {
    return absl::InvalidArgumentError("the cluster's CA certificate is missing or no PEM");
  }
  if (!absl::StrContains(identity_pem, "BEGIN CERTIFICATE") ||
      !absl::StrContains(identity_pem, "PRIVATE KEY-----")) {
    return absl::InvalidArgumentError(
        "the identity is missing or no PEM: a client certificate of the cluster with its key");
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> MakeClientChannel(const std::string& address,
                                                 const std::string& ca_pem,
                                                 const std::string& identity_pem,
                                                 int max_message_bytes) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = ca_pem;
  // Each reader takes its own kind of block out of the text.
  tls.pem_private_key = identity_pem;
  tls.pem_cert_chain = identity_pem;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("millrace");
  arguments.SetMaxReceiveMessageSize(max_message_bytes);
  // A fresh connection for each channel, which fails for reasons of its own.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A proxy that the environment names is for the web, not for the cluster.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  return grpc::CreateCustomChannel(absl::StrCat("dns:///", address), grpc::SslCredentials(tls),
                                   arguments);
}

void PrepareCall(const std::string& token, absl::Duration timeout, grpc::ClientContext* context) {
  context->AddMetadata("authorization", absl::StrCat("Bearer ", token));
  context->AddMetadata(kVersionMetadata, kMillraceVersion);
  if (timeout < absl::Hours(1'000'000)) {
    context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout));
  }
}

absl::Status FromCallStatus(const grpc::Status& status, const std::string& address) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.error_message();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  switch (code) {
    case absl::StatusCode::kUnavailable:
      if (IsCertificateError(text)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "what listens on ", address,
            " does not have the certificate of this cluster: the cluster has ended and another "
            "one took its port, or the address is wrong"));
      }
      if (IsNoTls(text)) {
        return absl::FailedPreconditionError(
            absl::StrCat("what listens on ", address, " speaks no TLS: it is no coordinator"));
      }
      return absl::UnavailableError(absl::StrCat("cannot reach the coordinator at ", address, ": ",
                                                 text, "; has its driver ended?"));
    case absl::StatusCode::kDeadlineExceeded:
      // What the coordinator itself says is over is an answer.
      if (!absl::StartsWith(text, "Deadline Exceeded")) return absl::DeadlineExceededError(text);
      return absl::DeadlineExceededError(
          absl::StrCat("no answer from the coordinator at ", address, " in time: ", text));
    case absl::StatusCode::kUnimplemented:
      // What a gRPC server says of a service that it does not have; a reason of its own stands.
      if (!text.empty() && !absl::StrContains(text, "ethod not found")) {
        return absl::UnimplementedError(text);
      }
      return absl::UnimplementedError(
          absl::StrCat("what listens on ", address,
                       " speaks another version of Millrace's protocol than this program (",
                       kMillraceVersion, "): use the release that its driver uses"));
    default:
      return absl::Status(code, text);
  }
}

LiveContexts::Entry::Entry(LiveContexts* all, grpc::ClientContext* context)
    : all_(all), context_(context) {
  MutexLock lock(&all_->mu_);
  all_->contexts_.insert(context_);
  if (all_->cancelled_) status_ = absl::CancelledError("the client was cancelled");
}

LiveContexts::Entry::~Entry() {
  MutexLock lock(&all_->mu_);
  all_->contexts_.erase(context_);
}

void LiveContexts::CancelAll() {
  MutexLock lock(&mu_);
  cancelled_ = true;
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
}

bool LiveContexts::cancelled() const {
  MutexLock lock(&mu_);
  return cancelled_;
}

}  // namespace millrace
