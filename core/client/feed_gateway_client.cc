#include "core/client/feed_gateway_client.h"

#include <utility>

#include "core/client/client_channel.h"
#include "core/proto/feed_gateway.grpc.pb.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

class GrpcFeedGatewayClient final : public FeedGatewayClient {
 public:
  explicit GrpcFeedGatewayClient(FeedGatewayOptions options)
      : options_(std::move(options)),
        stub_(v1::FeedGateway::NewStub(
            MakeClientChannel(options_.address, options_.ca_pem, options_.identity_pem))) {}

  absl::StatusOr<v1::LookupReply> Lookup(const v1::LookupRequest& request) override {
    return Call<v1::LookupReply>([&](grpc::ClientContext* context, v1::LookupReply* reply) {
      return stub_->Lookup(context, request, reply);
    });
  }
  absl::StatusOr<v1::CauseReply> Cause(const v1::CauseRequest& request) override {
    return Call<v1::CauseReply>([&](grpc::ClientContext* context, v1::CauseReply* reply) {
      return stub_->Cause(context, request, reply);
    });
  }
  absl::Status Report(const v1::ReportRequest& request) override {
    return Call<v1::ReportReply>([&](grpc::ClientContext* context, v1::ReportReply* reply) {
             return stub_->Report(context, request, reply);
           })
        .status();
  }
  absl::Status Announce(const v1::AnnounceRequest& request) override {
    return Call<v1::AnnounceReply>([&](grpc::ClientContext* context, v1::AnnounceReply* reply) {
             return stub_->Announce(context, request, reply);
           })
        .status();
  }
  absl::StatusOr<v1::PaceReply> Pace(const v1::PaceRequest& request) override {
    return Call<v1::PaceReply>([&](grpc::ClientContext* context, v1::PaceReply* reply) {
      return stub_->Pace(context, request, reply);
    });
  }
  absl::StatusOr<v1::AgentGoneReply> AgentGone(const v1::AgentGoneRequest& request) override {
    return Call<v1::AgentGoneReply>([&](grpc::ClientContext* context, v1::AgentGoneReply* reply) {
      return stub_->AgentGone(context, request, reply);
    });
  }
  void Cancel() override { contexts_.CancelAll(); }

 private:
  template <typename Reply, typename Method>
  absl::StatusOr<Reply> Call(Method method) {
    grpc::ClientContext context;
    PrepareCall(options_.agent_token, options_.timeout, &context);
    const LiveContexts::Entry entry(&contexts_, &context);
    MILLRACE_RETURN_IF_ERROR(entry.status());
    Reply reply;
    MILLRACE_RETURN_IF_ERROR(FromCallStatus(method(&context, &reply), options_.address));
    return reply;
  }

  const FeedGatewayOptions options_;
  const std::unique_ptr<v1::FeedGateway::Stub> stub_;
  LiveContexts contexts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FeedGatewayClient>> FeedGatewayClient::Connect(
    FeedGatewayOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckEndpoint(options.address, options.ca_pem, options.identity_pem));
  if (options.agent_token.empty()) return absl::InvalidArgumentError("there is no agent token");
  return std::make_unique<GrpcFeedGatewayClient>(std::move(options));
}

}  // namespace millrace
