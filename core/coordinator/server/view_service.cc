#include "core/coordinator/server/view_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/coordinator/server/view_reactor.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/grpc_status.h"
#include "core/proto/time_proto.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace millrace {
namespace {

constexpr uint32_t kMaxLogLines = 1000;
constexpr uint32_t kMaxKeys = 10'000;
constexpr size_t kMaxReasonBytes = 1024;
constexpr absl::Duration kDefaultInterval = absl::Seconds(1);

template <typename Message>
absl::Status Parse(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ByteBuffer copy(bytes);  // shares the slices; the reader wants it mutable
  grpc::ProtoBufferReader reader(&copy);
  if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("not a ", message->GetTypeName()));
}

grpc::ServerUnaryReactor* Done(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

std::string Reason(const std::string& reason) {
  return reason.empty() ? "no reason given" : EscapeControls(Ellipsize(reason, kMaxReasonBytes));
}

absl::StatusOr<absl::Duration> CheckWatch(const v1::WatchRequest& request) {
  if (!v1::WatchLevel_IsValid(request.level())) {
    return absl::InvalidArgumentError(
        absl::StrCat("WatchRequest.level ", static_cast<int>(request.level()), " is unknown"));
  }
  if (request.log_lines() > kMaxLogLines) {
    return absl::InvalidArgumentError(absl::StrCat(
        "WatchRequest.log_lines is ", request.log_lines(), ": at most ", kMaxLogLines));
  }
  const absl::Duration interval =
      request.has_interval() ? DurationFromProto(request.interval()) : kDefaultInterval;
  if (interval < WatchHub::kLeastInterval || interval > absl::Hours(1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "WatchRequest.interval is ", absl::FormatDuration(interval), ": must be 20 ms to 1 h"));
  }
  return interval;
}

// The answer of a get that waits: the control plane writes it like a message to an agent.
// Ownership: keeps itself alive until OnDone; the control plane holds a reference while the get
// waits.
class KvWait final : public grpc::ServerUnaryReactor, public AttachStream {
 public:
  static std::shared_ptr<KvWait> Create(OperatorControl* operators, LiveCalls* calls,
                                        v1::KvReply* reply) {
    std::shared_ptr<KvWait> wait(new KvWait(operators, calls, reply));
    wait->self_ = wait;
    return wait;
  }

  void Begin(const v1::KvRequest& request) {
    const uint64_t id = operators_->Kv(request, self_);
    bool over = false;
    {
      MutexLock lock(&mu_);
      id_ = id;
      over = finished_;
    }
    if (over) operators_->EndKv(id);
  }

  // AttachStream:
  void Enqueue(const grpc::ByteBuffer& message) override {
    v1::CoordinatorMessage parsed;
    const absl::Status ok = Parse(message, &parsed);
    MutexLock lock(&mu_);
    if (answered_) return;
    answered_ = true;
    if (!ok.ok()) {
      status_ = ok;
    } else if (parsed.kv().has_error()) {
      status_ = FromErrorProto(parsed.kv().error());
    } else {
      value_ = parsed.kv().value();
    }
  }
  void Close(const absl::Status& status) override {
    MutexLock lock(&mu_);
    if (answered_) return;
    answered_ = true;
    status_ = status;
  }
  void Flush() override {
    absl::Status status;
    uint64_t id = 0;
    {
      MutexLock lock(&mu_);
      if (!answered_ || finished_) return;
      finished_ = true;
      status = status_;
      id = id_;
      if (status.ok()) reply_->set_value(value_);
    }
    if (id != 0) operators_->EndKv(id);
    Finish(ToGrpcStatus(status));
  }

  // ServerUnaryReactor:
  void OnCancel() override {
    Close(absl::CancelledError("the call was cancelled"));
    Flush();
  }
  void OnDone() override {
    uint64_t id = 0;
    {
      MutexLock lock(&mu_);
      id = id_;
    }
    if (id != 0) operators_->EndKv(id);
    LiveCalls* const calls = calls_;
    const std::shared_ptr<KvWait> self = std::move(self_);
    calls->End();
  }

 private:
  KvWait(OperatorControl* operators, LiveCalls* calls, v1::KvReply* reply)
      : operators_(operators), calls_(calls), reply_(reply) {
    calls_->Begin();
  }

  OperatorControl* const operators_;
  LiveCalls* const calls_;
  v1::KvReply* const reply_;
  std::shared_ptr<KvWait> self_;  // until OnDone
  Mutex mu_;
  uint64_t id_ ABSL_GUARDED_BY(mu_) = 0;
  bool answered_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::string value_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

// ---- ClusterView --------------------------------------------------------------------------------

grpc::ServerWriteReactor<grpc::ByteBuffer>* ViewService::Watch(grpc::CallbackServerContext* context,
                                                               const grpc::ByteBuffer* request) {
  const std::shared_ptr<ViewReactor> reactor = ViewReactor::Create(hub_, calls_);
  ViewReactor* const result = reactor.get();
  v1::WatchRequest watch;
  absl::Status status = gate_->Admit(*context, "Watch", {TokenKind::kViewer, TokenKind::kOperator});
  if (status.ok()) status = Parse(*request, &watch);
  absl::StatusOr<absl::Duration> interval = absl::ZeroDuration();
  if (status.ok()) {
    interval = CheckWatch(watch);
    status = interval.status();
  }
  if (!status.ok()) {
    reactor->End(status);
    return result;
  }
  const ViewCursor cursor = view_->Resume({.level = watch.level(),
                                           .log_lines = watch.log_lines(),
                                           .resume_after = watch.resume_after(),
                                           .incarnation = watch.incarnation()});
  reactor->Begin([&](uint64_t id) { return hub_->AddWatch(id, reactor, cursor, *interval); });
  return result;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ViewService::ReadLogs(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const std::shared_ptr<ViewReactor> reactor = ViewReactor::Create(hub_, calls_);
  ViewReactor* const result = reactor.get();
  v1::ReadLogsRequest read;
  absl::Status status =
      gate_->Admit(*context, "ReadLogs", {TokenKind::kViewer, TokenKind::kOperator});
  if (status.ok()) status = Parse(*request, &read);
  for (const int id : read.executor_ids()) {
    if (status.ok() && (id < 0 || id >= view_->num_slots())) {
      status = absl::NotFoundError(
          absl::StrCat("no executor ", id, ": the cluster has 0 to ", view_->num_slots() - 1));
    }
  }
  if (status.ok() && read.lines() > kMaxLogLines) {
    status = absl::InvalidArgumentError(
        absl::StrCat("ReadLogsRequest.lines is ", read.lines(), ": at most ", kMaxLogLines));
  }
  if (!status.ok()) {
    reactor->End(status);
    return result;
  }
  LogCursor cursor = view_->BeginLogs({read.executor_ids().begin(), read.executor_ids().end()},
                                      read.lines(), read.follow());
  reactor->Begin([&](uint64_t id) { return hub_->AddLogs(id, reactor, std::move(cursor)); });
  return result;
}

// ---- ClusterControl -----------------------------------------------------------------------------

grpc::ServerUnaryReactor* ControlService::StopCluster(grpc::CallbackServerContext* context,
                                                      const v1::StopClusterRequest* request,
                                                      v1::StopClusterReply* /*reply*/) {
  const absl::Status status = gate_->Admit(*context, "StopCluster", {TokenKind::kOperator});
  if (status.ok()) operators_->StopCluster(Reason(request->reason()), request->now());
  return Done(context, status);
}

grpc::ServerUnaryReactor* ControlService::RestartNode(grpc::CallbackServerContext* context,
                                                      const v1::RestartNodeRequest* request,
                                                      v1::RestartNodeReply* reply) {
  absl::Status status = gate_->Admit(*context, "RestartNode", {TokenKind::kOperator});
  if (status.ok()) {
    const absl::StatusOr<uint32_t> attempt =
        operators_->RestartNode(request->executor_id(), Reason(request->reason()));
    status = attempt.status();
    if (attempt.ok()) reply->set_attempt(*attempt);
  }
  return Done(context, status);
}

grpc::ServerUnaryReactor* ControlService::Kv(grpc::CallbackServerContext* context,
                                             const v1::KvRequest* request, v1::KvReply* reply) {
  const absl::Status status = gate_->Admit(*context, "Kv", {TokenKind::kOperator});
  if (!status.ok()) return Done(context, status);
  reply->set_request_id(request->request_id());
  const std::shared_ptr<KvWait> wait = KvWait::Create(operators_, calls_, reply);
  KvWait* const result = wait.get();
  wait->Begin(*request);
  return result;
}

grpc::ServerUnaryReactor* ControlService::ListKeys(grpc::CallbackServerContext* context,
                                                   const v1::ListKeysRequest* request,
                                                   v1::ListKeysReply* reply) {
  absl::Status status = gate_->Admit(*context, "ListKeys", {TokenKind::kOperator});
  if (status.ok() && (request->limit() < 1 || request->limit() > kMaxKeys)) {
    status = absl::InvalidArgumentError(
        absl::StrCat("ListKeysRequest.limit is ", request->limit(), ": must be 1 to ", kMaxKeys));
  }
  if (status.ok()) operators_->ListKeys(request->prefix(), request->limit(), reply);
  return Done(context, status);
}

// ---- FeedGateway --------------------------------------------------------------------------------

grpc::ServerUnaryReactor* GatewayService::Lookup(grpc::CallbackServerContext* context,
                                                 const v1::LookupRequest* request,
                                                 v1::LookupReply* reply) {
  absl::Status status = gate_->Admit(*context, "Lookup", {TokenKind::kAgent});
  if (status.ok()) status = feeds_->LookupPartition(*request, reply);
  return Done(context, status);
}

grpc::ServerUnaryReactor* GatewayService::Cause(grpc::CallbackServerContext* context,
                                                const v1::CauseRequest* request,
                                                v1::CauseReply* reply) {
  absl::Status status = gate_->Admit(*context, "Cause", {TokenKind::kAgent});
  if (status.ok()) status = feeds_->Cause(request->executor_id(), reply);
  return Done(context, status);
}

grpc::ServerUnaryReactor* GatewayService::Report(grpc::CallbackServerContext* context,
                                                 const v1::ReportRequest* request,
                                                 v1::ReportReply* /*reply*/) {
  absl::Status status = gate_->Admit(*context, "Report", {TokenKind::kAgent});
  if (status.ok()) status = feeds_->Report(*request);
  return Done(context, status);
}

grpc::ServerUnaryReactor* GatewayService::Announce(grpc::CallbackServerContext* context,
                                                   const v1::AnnounceRequest* request,
                                                   v1::AnnounceReply* /*reply*/) {
  absl::Status status = gate_->Admit(*context, "Announce", {TokenKind::kAgent});
  if (status.ok()) status = feeds_->Announce(request->principal(), request->curve_key());
  return Done(context, status);
}

grpc::ServerUnaryReactor* GatewayService::Pace(grpc::CallbackServerContext* context,
                                               const v1::PaceRequest* request,
                                               v1::PaceReply* reply) {
  absl::Status status = gate_->Admit(*context, "Pace", {TokenKind::kAgent});
  if (status.ok()) status = feeds_->Pace(*request, reply);
  return Done(context, status);
}

grpc::ServerUnaryReactor* GatewayService::AgentGone(grpc::CallbackServerContext* context,
                                                    const v1::AgentGoneRequest* request,
                                                    v1::AgentGoneReply* reply) {
  absl::Status status = gate_->Admit(*context, "AgentGone", {TokenKind::kAgent});
  if (status.ok()) status = agents_->AgentGone(*request, reply);
  return Done(context, status);
}

}  // namespace millrace
