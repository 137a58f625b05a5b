#include "testing/compatibility/recording_proxy.h"

#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/base/peer_version.h"
#include "core/base/thread.h"
#include "core/coordinator/fake_agent.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/operator.grpc.pb.h"
#include "core/proto/watch.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"
#include "millrace/status_macros.h"
#include "testing/compatibility/local_server.h"

namespace millrace::compatibility {
namespace {

// The calls so far. Thread-safe.
class Notes {
 public:
  size_t Begin(absl::string_view method) {
    MutexLock lock(&mu_);
    calls_.push_back({.method = absl::StrCat("millrace.v1.", method)});
    return calls_.size() - 1;
  }
  template <typename Message>
  void Add(size_t call, bool from_client, const Message& message) {
    MutexLock lock(&mu_);
    calls_[call].messages.push_back({from_client, message.SerializeAsString()});
  }
  grpc::Status End(size_t call, const grpc::Status& status) {
    MutexLock lock(&mu_);
    calls_[call].end =
        absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
    return status;
  }
  std::vector<RecordedCall> Take() {
    MutexLock lock(&mu_);
    return {calls_.begin(), calls_.end()};
  }

 private:
  Mutex mu_;
  std::deque<RecordedCall> calls_ ABSL_GUARDED_BY(mu_);
};

std::unique_ptr<grpc::ClientContext> Onwards(const grpc::ServerContext& from) {
  auto to = grpc::ClientContext::FromServerContext(from);  // cancelled with it
  for (const char* key : {"authorization", kVersionMetadata}) {
    const auto [first, last] = from.client_metadata().equal_range(key);
    for (auto value = first; value != last; ++value) {
      to->AddMetadata(key, std::string(value->second.data(), value->second.size()));
    }
  }
  return to;
}

template <typename Stub, typename Request, typename Reply>
grpc::Status Unary(Notes* notes, absl::string_view method, const grpc::ServerContext& context,
                   Stub* stub,
                   grpc::Status (Stub::*call)(grpc::ClientContext*, const Request&, Reply*),
                   const Request& request, Reply* reply) {
  const size_t note = notes->Begin(method);
  notes->Add(note, true, request);
  const grpc::Status status = (stub->*call)(Onwards(context).get(), request, reply);
  if (status.ok()) notes->Add(note, false, *reply);
  return notes->End(note, status);
}

template <typename Stub, typename Request, typename Reply>
grpc::Status Streaming(
    Notes* notes, absl::string_view method, const grpc::ServerContext& context, Stub* stub,
    std::unique_ptr<grpc::ClientReader<Reply>> (Stub::*call)(grpc::ClientContext*, const Request&),
    const Request& request, grpc::ServerWriter<Reply>* writer) {
  const size_t note = notes->Begin(method);
  notes->Add(note, true, request);
  const auto onwards = Onwards(context);
  const auto reader = (stub->*call)(onwards.get(), request);
  Reply reply;
  while (reader->Read(&reply)) {
    notes->Add(note, false, reply);
    writer->Write(reply);
  }
  return notes->End(note, reader->Finish());
}

class GrpcRecordingProxy final : public RecordingProxy,
                                 private v1::Coordinator::Service,
                                 private v1::ClusterView::Service,
                                 private v1::ClusterControl::Service {
 public:
  explicit GrpcRecordingProxy(const Coordinator& to)
      : agents_(v1::Coordinator::NewStub(
            MakeAgentChannel(to.address(), to.ca_pem(), to.agent_identity_pem()))),
        view_(v1::ClusterView::NewStub(
            MakeAgentChannel(to.address(), to.ca_pem(), to.viewer_identity_pem()))),
        control_(v1::ClusterControl::NewStub(
            MakeAgentChannel(to.address(), to.ca_pem(), to.viewer_identity_pem()))) {}

  absl::Status Listen() {
    MILLRACE_ASSIGN_OR_RETURN(
        server_, LocalServer::Start({static_cast<v1::Coordinator::Service*>(this),
                                     static_cast<v1::ClusterView::Service*>(this),
                                     static_cast<v1::ClusterControl::Service*>(this)}));
    return absl::OkStatus();
  }

  const std::string& address() const override { return server_->address(); }
  const std::string& ca_pem() const override { return server_->ca_pem(); }
  std::vector<RecordedCall> TakeCalls() override { return notes_.Take(); }

 private:
  grpc::Status Attach(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>* agent) override {
    const size_t note = notes_.Begin("Coordinator/Attach");
    const auto onwards = Onwards(*context);
    const auto coordinator = agents_->Attach(onwards.get());
    Thread up("proxy", [&] {
      v1::AgentMessage message;
      while (agent->Read(&message)) {
        notes_.Add(note, true, message);
        coordinator->Write(message);
      }
      coordinator->WritesDone();
    });
    v1::CoordinatorMessage message;
    while (coordinator->Read(&message)) {
      notes_.Add(note, false, message);
      agent->Write(message);
    }
    const grpc::Status status = coordinator->Finish();
    if (!status.ok()) context->TryCancel();  // so that the thread ends
    up.Join();
    return notes_.End(note, status);
  }
  grpc::Status FetchProgram(grpc::ServerContext* context, const v1::FetchProgramRequest* request,
                            grpc::ServerWriter<v1::ProgramChunk>* writer) override {
    return Streaming(&notes_, "Coordinator/FetchProgram", *context, agents_.get(),
                     &v1::Coordinator::Stub::FetchProgram, *request, writer);
  }
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::ClusterStatus* reply) override {
    return Unary(&notes_, "Coordinator/GetStatus", *context, agents_.get(),
                 &v1::Coordinator::Stub::GetStatus, *request, reply);
  }
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchUpdate>* writer) override {
    return Streaming(&notes_, "ClusterView/Watch", *context, view_.get(),
                     &v1::ClusterView::Stub::Watch, *request, writer);
  }
  grpc::Status ReadLogs(grpc::ServerContext* context, const v1::ReadLogsRequest* request,
                        grpc::ServerWriter<v1::LogBatch>* writer) override {
    return Streaming(&notes_, "ClusterView/ReadLogs", *context, view_.get(),
                     &v1::ClusterView::Stub::ReadLogs, *request, writer);
  }
  grpc::Status StopCluster(grpc::ServerContext* context, const v1::StopClusterRequest* request,
                           v1::StopClusterReply* reply) override {
    return Unary(&notes_, "ClusterControl/StopCluster", *context, control_.get(),
                 &v1::ClusterControl::Stub::StopCluster, *request, reply);
  }
  grpc::Status RestartNode(grpc::ServerContext* context, const v1::RestartNodeRequest* request,
                           v1::RestartNodeReply* reply) override {
    return Unary(&notes_, "ClusterControl/RestartNode", *context, control_.get(),
                 &v1::ClusterControl::Stub::RestartNode, *request, reply);
  }
  grpc::Status Kv(grpc::ServerContext* context, const v1::KvRequest* request,
                  v1::KvReply* reply) override {
    return Unary(&notes_, "ClusterControl/Kv", *context, control_.get(),
                 &v1::ClusterControl::Stub::Kv, *request, reply);
  }
  grpc::Status ListKeys(grpc::ServerContext* context, const v1::ListKeysRequest* request,
                        v1::ListKeysReply* reply) override {
    return Unary(&notes_, "ClusterControl/ListKeys", *context, control_.get(),
                 &v1::ClusterControl::Stub::ListKeys, *request, reply);
  }

  const std::unique_ptr<v1::Coordinator::Stub> agents_;
  const std::unique_ptr<v1::ClusterView::Stub> view_;
  const std::unique_ptr<v1::ClusterControl::Stub> control_;
  Notes notes_;
  std::unique_ptr<LocalServer> server_;  // last: its calls use the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordingProxy>> RecordingProxy::Start(
    const Coordinator& coordinator) {
  auto proxy = std::make_unique<GrpcRecordingProxy>(coordinator);
  MILLRACE_RETURN_IF_ERROR(proxy->Listen());
  return proxy;
}

}  // namespace millrace::compatibility
