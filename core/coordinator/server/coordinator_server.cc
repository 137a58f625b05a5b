#include "core/coordinator/server/coordinator_server.h"

#include <chrono>  // grpc::Server::Shutdown takes a time_point
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "core/coordinator/server/call_gate.h"
#include "core/coordinator/server/view_service.h"
#include "core/coordinator/stream/host_reactor.h"
#include "core/coordinator/stream/live_calls.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/net/connection_acceptor.h"
#include "core/net/session_tickets.h"
#include "core/net/socket_address.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/grpc_acceptor.h"
#include "core/proto/grpc_status.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// What agents and readers send at most: a kv value of 1 MiB, 200 log lines of 2 KiB.
constexpr int kMaxReceiveBytes = 2 << 20;
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr int kMaxStreamsPerConnection = 64;
// A peer that does not finish its TLS handshake holds a socket and some memory no longer than this.
// The acceptor hands on so few connections at once that this is enough for each. While others wait,
// a connection that stands still is closed earlier.
constexpr int kHandshakeTimeoutMs = 60'000;
constexpr int kMinPingIntervalMs = 5'000;
constexpr std::chrono::milliseconds kShutdownGrace(500);

// The server's side of one FetchProgram. Owned by gRPC until OnDone.
class FetchReactor final : public grpc::ServerWriteReactor<v1::ProgramChunk> {
 public:
  FetchReactor(const absl::Status& admitted, ProgramSource* program, LiveCalls* calls)
      : program_(program), calls_(calls) {
    calls_->Begin();
    if (admitted.ok()) {
      Next();
    } else {
      Finish(ToGrpcStatus(admitted));
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      Next();
    } else {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke"));
    }
  }

  void OnDone() override {
    LiveCalls* const calls = calls_;
    delete this;
    calls->End();
  }

 private:
  // One read or one write is in flight at any time, and Finish ends the chain: so OnDone cannot
  // come while the program's thread still has this.
  void Next() {
    program_->Read(offset_, [this](absl::StatusOr<std::string> bytes) {
      if (!bytes.ok()) {
        Finish(ToGrpcStatus(bytes.status()));
      } else if (bytes->empty()) {
        Finish(grpc::Status::OK);
      } else {
        offset_ += static_cast<int64_t>(bytes->size());
        chunk_.set_data(*std::move(bytes));
        StartWrite(&chunk_);
      }
    });
  }

  ProgramSource* const program_;
  LiveCalls* const calls_;
  int64_t offset_ = 0;
  v1::ProgramChunk chunk_;
};

using ServiceBase =
    v1::Coordinator::WithRawCallbackMethod_Attach<v1::Coordinator::WithRawCallbackMethod_AttachHost<
        v1::Coordinator::WithCallbackMethod_FetchProgram<
            v1::Coordinator::WithCallbackMethod_GetStatus<v1::Coordinator::Service>>>>;

class Service final : public ServiceBase {
 public:
  // The generated overloads for the synchronous API, not meant to be called.
  using ServiceBase::Attach;
  using ServiceBase::AttachHost;
  using ServiceBase::FetchProgram;
  using ServiceBase::GetStatus;

  Service(const ServerOptions& options, const CallGate* gate, LiveCalls* calls)
      : options_(options), gate_(gate), calls_(calls) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Attach(
      grpc::CallbackServerContext* context) override {
    return AttachReactor::Create(context, gate_->Admit(*context, "Attach", {TokenKind::kAgent}),
                                 options_.limits, &options_.plane->agents(), calls_);
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AttachHost(
      grpc::CallbackServerContext* context) override {
    return HostReactor::Create(context, gate_->Admit(*context, "AttachHost", {TokenKind::kAgent}),
                               options_.limits, &options_.plane->agents(), calls_);
  }

  grpc::ServerWriteReactor<v1::ProgramChunk>* FetchProgram(
      grpc::CallbackServerContext* context, const v1::FetchProgramRequest* request) override {
    absl::Status status = gate_->Admit(*context, "FetchProgram", {TokenKind::kAgent});
    if (status.ok() &&
        (options_.program == nullptr || options_.program->sha256() != request->sha256())) {
      status = absl::NotFoundError("this cluster ships no program of that sha256");
    }
    return new FetchReactor(status, options_.program, calls_);
  }

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* /*request*/,
                                      v1::ClusterStatus* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const absl::Status status =
        gate_->Admit(*context, "GetStatus", {TokenKind::kViewer, TokenKind::kOperator});
    if (status.ok()) *response = ToStatusProto(options_.plane->Snapshot());
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }

 private:
  const ServerOptions options_;
  const CallGate* const gate_;
  LiveCalls* const calls_;
};

class GrpcCoordinatorServer final : public CoordinatorServer {
 public:
  GrpcCoordinatorServer(const ServerOptions& options, std::unique_ptr<ConnectionAcceptor> acceptor)
      : acceptor_(std::move(acceptor)),
        gate_(options.tokens, options.recorder, acceptor_.get()),
        service_(options, &gate_, &calls_),
        view_(&gate_, options.view, options.hub, &calls_),
        control_(&gate_, &options.plane->operators(), &calls_),
        gateway_(&gate_, &options.plane->feeds(), &options.plane->agents()) {}
  ~GrpcCoordinatorServer() override { Shutdown(); }

  absl::Status Listen(const ServerOptions& options) {
    auto identity = options.ca->IssueServer();
    if (!identity.ok()) return identity.status();
    StopSessionTickets();
    // A stranger's handshake ends before the first byte of HTTP/2 is looked at.
    grpc::SslServerCredentialsOptions tls(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    // These alone, and not the CA. Each is its own root: a handshake has no chain to verify, and
    // OpenSSL finds no issuer of the server's certificate among them that it would send along.
    tls.pem_root_certs = options.client_certificates_pem;
    tls.pem_key_cert_pairs.push_back({identity->private_key_pem, identity->certificate_pem});
    grpc::ServerBuilder builder;
    ConnectionAcceptor::Handler handler = AcceptForGrpc(grpc::SslServerCredentials(tls), &builder);
    builder.RegisterService(&service_);
    builder.RegisterService(&view_);
    builder.RegisterService(&control_);
    builder.RegisterService(&gateway_);
    builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
    // Streams of small messages: probing the bandwidth would answer nearly each of them by a ping.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    // No keepalive: gRPC arms its timer again for each message that arrives, which was a tenth of
    // the processor time of 10,000 agents. Agents have heartbeats to be lost by; readers are
    // written to every few seconds, so that TCP finds the dead among them.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kMinPingIntervalMs);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("gRPC did not make a server");
    acceptor_->Start(std::move(handler));
    return absl::OkStatus();
  }

  int port() const override { return acceptor_->port(); }
  absl::Status Shortage() const override { return acceptor_->Shortage(); }

  void Shutdown() override {
    MutexLock lock(&mu_);  // held while it blocks: others have to wait for the same
    acceptor_->Stop();
    if (server_ == nullptr) return;
    // Calls that are still there after the grace are cancelled.
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    calls_.WaitForNone();
    server_.reset();
  }

 private:
  const std::unique_ptr<ConnectionAcceptor> acceptor_;
  LiveCalls calls_;
  const CallGate gate_;
  Service service_;
  ViewService view_;
  ControlService control_;
  GatewayService gateway_;
  Mutex mu_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    const ServerOptions& options) {
  ConnectionAcceptor::Options listening;
  listening.address = {options.bind_address, static_cast<uint16_t>(options.port)};
  listening.thread_name = "coord-accept";
  MILLRACE_ASSIGN_OR_RETURN(auto acceptor, ConnectionAcceptor::Listen(listening));
  auto server = std::make_unique<GrpcCoordinatorServer>(options, std::move(acceptor));
  if (absl::Status status = server->Listen(options); !status.ok()) return status;
  return server;
}

}  // namespace millrace
