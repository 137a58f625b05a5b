#include "core/agent/modes/adopt_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>  // grpc::Server::Shutdown takes a time_point
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/net/connection_acceptor.h"
#include "core/net/session_tickets.h"
#include "core/proto/adopt.grpc.pb.h"
#include "core/proto/grpc_acceptor.h"
#include "core/proto/grpc_status.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// A CA certificate and a token are the largest that a driver sends.
constexpr int kMaxReceiveBytes = 256 << 10;
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr int kMaxStreamsPerConnection = 4;
constexpr int kHandshakeTimeoutMs = 20'000;
// A hold ends with its driver, also where that one's host has vanished.
constexpr int kKeepaliveTimeMs = 6'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kMinPingIntervalMs = 5'000;
constexpr std::chrono::milliseconds kShutdownGrace(500);

// What all calls have in common. Outlives the server.
struct Shared {
  const std::string token;
  const std::shared_ptr<EventLoop::Mailbox> mailbox;
  const AdoptServer::Callbacks callbacks;
};

class Reactor final : public grpc::ServerBidiReactor<v1::AdoptRequest, v1::AdoptEvent>,
                      public AdoptStream {
 public:
  static Reactor* Create(grpc::CallbackServerContext* context, std::shared_ptr<const Shared> shared,
                         const absl::Status& admitted) {
    std::shared_ptr<Reactor> reactor(new Reactor(PeerHost(context->peer()), std::move(shared)));
    reactor->self_ = reactor;
    if (admitted.ok()) {
      reactor->StartRead(&reactor->incoming_);
    } else {
      reactor->Close(admitted);
    }
    return reactor.get();
  }

  // AdoptStream:
  void Send(v1::AdoptEvent event) override {
    {
      MutexLock lock(&mu_);
      if (close_.has_value()) return;
      queue_.push_back(std::move(event));
    }
    Pump();
  }
  void Close(const absl::Status& status) override {
    {
      MutexLock lock(&mu_);
      if (!close_.has_value()) close_ = status;
    }
    Pump();
  }
  const std::string& peer_host() const override { return peer_host_; }

  // ServerBidiReactor:
  void OnReadDone(bool ok) override {
    if (!ok) {
      Close(absl::OkStatus());  // half-closed: what is queued still goes out
      return;
    }
    const bool first = !std::exchange(held_, held_ || incoming_.has_hold());
    if (incoming_.has_hold() != first) {
      Close(absl::InvalidArgumentError(
          "Hold is the first message of an Adopt stream, and only that"));
      return;
    }
    shared_->mailbox->Post(
        [shared = shared_, self = self_, request = std::exchange(incoming_, {})] {
          shared->callbacks.on_request(self, request);
        });
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(&mu_);
      writing_ = false;
      queue_.pop_front();
      if (!ok && !close_.has_value()) close_ = absl::CancelledError("the stream broke");
      if (!ok) queue_.clear();
    }
    Pump();
  }
  void OnCancel() override { Close(absl::CancelledError("the call was cancelled")); }
  void OnDone() override {
    if (held_) {
      shared_->mailbox->Post([shared = shared_, self = self_] { shared->callbacks.on_gone(self); });
    }
    const std::shared_ptr<Reactor> last = std::move(self_);
  }

 private:
  Reactor(std::string peer_host, std::shared_ptr<const Shared> shared)
      : peer_host_(std::move(peer_host)), shared_(std::move(shared)) {}

  void Pump() {
    const v1::AdoptEvent* event = nullptr;
    std::optional<absl::Status> end;
    {
      MutexLock lock(&mu_);
      if (writing_ || finished_) return;
      if (!queue_.empty()) {
        writing_ = true;
        event = &queue_.front();
      } else if (close_.has_value()) {
        finished_ = true;
        end = close_;
      }
    }
    if (event != nullptr) StartWrite(event);
    if (end.has_value()) Finish(ToGrpcStatus(*end));
  }

  const std::string peer_host_;
  const std::shared_ptr<const Shared> shared_;
  std::shared_ptr<Reactor> self_;  // until OnDone
  v1::AdoptRequest incoming_;      // reads are one at a time
  bool held_ = false;              // of the reads: Hold has come

  Mutex mu_;
  std::deque<v1::AdoptEvent> queue_ ABSL_GUARDED_BY(mu_);  // front: in progress while writing_
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> close_ ABSL_GUARDED_BY(mu_);
};

using ServiceBase = v1::AgentHost::WithCallbackMethod_Adopt<v1::AgentHost::Service>;

class Service final : public ServiceBase {
 public:
  using ServiceBase::Adopt;  // the generated overload for the synchronous API

  Service(std::shared_ptr<const Shared> shared, ConnectionAcceptor* acceptor)
      : shared_(std::move(shared)), acceptor_(acceptor) {}

  grpc::ServerBidiReactor<v1::AdoptRequest, v1::AdoptEvent>* Adopt(
      grpc::CallbackServerContext* context) override {
    const absl::Status admitted = Admit(*context);
    if (admitted.ok()) {
      acceptor_->Admitted(context->peer());
    } else {
      shared_->mailbox->Post([shared = shared_, peer = context->peer(), admitted] {
        shared->callbacks.on_refused(peer, admitted);
      });
    }
    return Reactor::Create(context, shared_, admitted);
  }

 private:
  absl::Status Admit(const grpc::CallbackServerContext& context) const {
    const auto [first, last] = context.client_metadata().equal_range("authorization");
    // Twice the key: whichever one is meant, it is no driver of ours.
    if (first == last || std::next(first) != last) {
      return absl::UnauthenticatedError("the call has no token of an agents' secret");
    }
    const absl::string_view given(first->second.data(), first->second.size());
    if (SecureEquals(absl::StrCat("Bearer ", shared_->token), given)) return absl::OkStatus();
    return absl::UnauthenticatedError(
        "the token is not that of this agent's secret: another secret, or one that was replaced");
  }

  const std::shared_ptr<const Shared> shared_;
  ConnectionAcceptor* const acceptor_;
};

class GrpcAdoptServer final : public AdoptServer {
 public:
  GrpcAdoptServer(std::shared_ptr<const Shared> shared,
                  std::unique_ptr<ConnectionAcceptor> acceptor)
      : acceptor_(std::move(acceptor)), service_(std::move(shared), acceptor_.get()) {}
  ~GrpcAdoptServer() override {
    acceptor_->Stop();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  }

  absl::Status Listen(const AgentSecret& secret) {
    StopSessionTickets();
    // A stranger's handshake ends before the first byte of HTTP/2 is looked at.
    grpc::SslServerCredentialsOptions tls(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = secret.certificate_pem;
    tls.pem_key_cert_pairs.push_back({secret.key_pem, secret.certificate_pem});
    grpc::ServerBuilder builder;
    ConnectionAcceptor::Handler handler = AcceptForGrpc(grpc::SslServerCredentials(tls), &builder);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kMinPingIntervalMs);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("gRPC did not make a server");
    acceptor_->Start(std::move(handler));
    return absl::OkStatus();
  }

  int port() const override { return acceptor_->port(); }

 private:
  const std::unique_ptr<ConnectionAcceptor> acceptor_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::string PeerHost(const std::string& grpc_peer) {
  const std::string peer = absl::StrReplaceAll(grpc_peer, {{"%5B", "["}, {"%5D", "]"}});
  const size_t start = peer.find(':');
  const size_t end = peer.rfind(':');
  if (!absl::StartsWith(peer, "ipv") || start == end) return "";
  std::string host = peer.substr(start + 1, end - start - 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  // An IPv4 peer of a socket for both.
  if (absl::StartsWith(host, "::ffff:") && absl::StrContains(host, ".")) host.erase(0, 7);
  return host;
}

absl::StatusOr<std::unique_ptr<AdoptServer>> AdoptServer::Start(
    const HostPort& address, const AgentSecret& secret, std::shared_ptr<EventLoop::Mailbox> mailbox,
    Callbacks callbacks) {
  MILLRACE_ASSIGN_OR_RETURN(
      auto acceptor,
      ConnectionAcceptor::Listen({.address = address, .thread_name = "adopt-accept"}));
  auto server = std::make_unique<GrpcAdoptServer>(
      std::make_shared<const Shared>(
          Shared{secret.token, std::move(mailbox), std::move(callbacks)}),
      std::move(acceptor));
  const absl::Status listening = server->Listen(secret);
  if (!listening.ok()) return listening;
  return server;
}

}  // namespace millrace
