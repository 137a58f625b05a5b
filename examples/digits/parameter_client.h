// The service Parameters, seen from the nodes that call it.
#ifndef EXAMPLES_DIGITS_PARAMETER_CLIENT_H_
#define EXAMPLES_DIGITS_PARAMETER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/digits/digits.grpc.pb.h"
#include "examples/digits/mlp.h"
#include "millrace/cluster_server.h"
#include "millrace/status_macros.h"

namespace millrace::examples {

class ParameterClient {
 public:
  // `job`:0 serves.
  static absl::StatusOr<ParameterClient> Connect(NodeContext& ctx, absl::string_view job) {
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, ConnectToNode(ctx, job, 0));
    return ParameterClient(Parameters::NewStub(channel));
  }

  // Waits for at least `min_version`; nullopt if `timeout` passed before. Returns the version.
  absl::StatusOr<std::optional<int64_t>> Pull(int64_t min_version, absl::Duration timeout,
                                              Mlp* model) {
    PullRequest request;
    request.set_min_version(min_version);
    Weights weights;
    const grpc::Status status = Call(timeout, [&](grpc::ClientContext* context) {
      return stub_->Pull(context, request, &weights);
    });
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return std::nullopt;
    if (!status.ok()) return FromGrpc("pulling weights", status);
    if (weights.values_size() != model->values().size()) {
      return absl::InvalidArgumentError(absl::StrCat("the server has ", weights.values_size(),
                                                     " weights, this node ",
                                                     model->values().size()));
    }
    model->values() =
        Eigen::Map<const Eigen::VectorXf>(weights.values().data(), weights.values_size());
    return weights.version();
  }

  // `version`: of the weights that Pull() brought for it. Returns the version after this update.
  absl::StatusOr<int64_t> Push(const Eigen::VectorXf& gradient, int64_t version) {
    Gradient request;
    request.mutable_values()->Add(gradient.begin(), gradient.end());
    request.set_version(version);
    PushReply reply;
    const grpc::Status status = Call(absl::Seconds(30), [&](grpc::ClientContext* context) {
      return stub_->Push(context, request, &reply);
    });
    if (!status.ok()) return FromGrpc("pushing a gradient", status);
    return reply.version();
  }

 private:
  explicit ParameterClient(std::unique_ptr<Parameters::Stub> stub) : stub_(std::move(stub)) {}

  template <typename F>
  static grpc::Status Call(absl::Duration timeout, const F& call) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);  // nodes come up together
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    return call(&context);
  }

  static absl::Status FromGrpc(const char* what, const grpc::Status& status) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        absl::StrCat(what, ": ", status.error_message()));
  }

  std::unique_ptr<Parameters::Stub> stub_;
};

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_PARAMETER_CLIENT_H_
