// The node program of examples/digits: one program, and which of the four parts of the cluster it plays
// is the cluster's choice.
//
//   ps         holds the weights and applies gradients (gRPC service Parameters)
//   chief, worker
//              take rows from their data feed, compute gradients on weights pulled from the ps; after
//              training they answer inference rows
//   evaluator  scores the newest weights on rows it reads itself

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/node/cluster_server.h"
#include "core/node/run_node.h"
#include "examples/digits/digits.grpc.pb.h"
#include "examples/digits/digits_data.h"
#include "examples/digits/mlp.h"
#include "examples/digits/parameter_server.h"
#include "feed/batch_builder.h"

namespace millrace::examples {
namespace {

struct Flags {
  int hidden = 128;
  uint64_t seed = 0;
  int batch = 64;
  float learning_rate = 0.006f;
  std::string data;
  int evaluate_every = 50;  // updates
};

// The parameter server, seen from a worker: pulls weights into a model, pushes gradients.
class ParameterClient {
 public:
  static absl::StatusOr<ParameterClient> Connect(NodeContext& ctx) {
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, ConnectToNode(ctx, "ps", 0));
    return ParameterClient(Parameters::NewStub(channel));
  }

  // Waits for at least `min_version`; nullopt if `timeout` passed before. Returns the version.
  absl::StatusOr<std::optional<int64_t>> Pull(int64_t min_version, absl::Duration timeout, Mlp* model) {
    PullRequest request;
    request.set_min_version(min_version);
    Weights weights;
    const grpc::Status status = Call(timeout, [&](grpc::ClientContext* context) {
      return stub_->Pull(context, request, &weights);
    });
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return std::nullopt;
    if (!status.ok()) return FromGrpc("pulling weights", status);
    if (weights.values_size() != model->values().size()) {
      return absl::InvalidArgumentError(absl::StrCat("the ps has ", weights.values_size(),
                                                     " weights, this node ", model->values().size()));
    }
    model->values() = Eigen::Map<const Eigen::VectorXf>(weights.values().data(), weights.values_size());
    return weights.version();
  }

  // Returns the version after this update.
  absl::StatusOr<int64_t> Push(const Eigen::VectorXf& gradient) {
    Gradient request;
    request.mutable_values()->Add(gradient.begin(), gradient.end());
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

Images ImagesOf(const Batch& batch) { return {batch.column<float>("x").data(), batch.num_rows(), kPixels}; }

absl::Status Serve(NodeContext& ctx, const Flags& flags) {
  Mlp model(flags.hidden);
  model.Initialize(flags.seed);
  ParameterServer service(std::move(model), flags.learning_rate);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ClusterServer> server, StartClusterServer(ctx, {&service}));
  ctx.WaitForStop();
  return absl::OkStatus();
}

absl::Status Train(NodeContext& ctx, const Flags& flags, ParameterClient& ps) {
  Mlp model(flags.hidden);
  Eigen::VectorXf gradient;
  std::unique_ptr<DataFeed> feed = ctx.GetDataFeed({.input_mapping = {{"image", "x"}, {"label", "y"}}});
  for (int step = 1; !feed->ShouldStop(); ++step) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(flags.batch));
    if (batch.empty()) continue;
    MILLRACE_RETURN_IF_ERROR(ps.Pull(0, absl::Seconds(30), &model));
    const float loss = model.Loss(ImagesOf(batch), batch.column<int64_t>("y"), &gradient);
    MILLRACE_RETURN_IF_ERROR(ps.Push(gradient));
    if (step % 50 == 0) ctx.ReportMetric("loss", step, loss);
  }
  return absl::OkStatus();
}

absl::Status Infer(NodeContext& ctx, const Flags& flags, ParameterClient& ps) {
  Mlp model(flags.hidden);
  MILLRACE_RETURN_IF_ERROR(ps.Pull(0, absl::Seconds(30), &model));
  std::unique_ptr<DataFeed> feed =
      ctx.GetDataFeed({.train_mode = false, .input_mapping = {{"id", "id"}, {"image", "x"}}});
  while (!feed->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(flags.batch));
    if (batch.empty()) continue;
    BatchBuilder results;
    results.AddColumn("id", batch.column<int64_t>("id"));
    results.AddColumn("prediction", model.Predict(ImagesOf(batch)));
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch rows, results.Build());
    MILLRACE_RETURN_IF_ERROR(feed->BatchResults(rows));
  }
  return absl::OkStatus();
}

absl::Status Evaluate(NodeContext& ctx, const Flags& flags, ParameterClient& ps) {
  MILLRACE_ASSIGN_OR_RETURN(const DigitsData data, ReadDigits(flags.data));
  MILLRACE_ASSIGN_OR_RETURN(const Batch rows, Batch::Create(data.held_out, {{"image", "x"}, {"label", "y"}}));
  const std::span<const int64_t> labels = rows.column<int64_t>("y");
  Mlp model(flags.hidden);
  int64_t next = flags.evaluate_every;
  for (int evaluation = 1; !ctx.stop_requested();) {
    // In short waits, so that the end of the cluster is noticed.
    absl::StatusOr<std::optional<int64_t>> version = ps.Pull(next, absl::Milliseconds(200), &model);
    // The ps is stopped together with this node: its end may be seen here first.
    if (!version.ok() && ctx.WaitForStop(absl::Seconds(1))) break;
    MILLRACE_RETURN_IF_ERROR(version);
    if (!version->has_value()) continue;
    const float accuracy = Accuracy(model.Predict(ImagesOf(rows)), labels);
    std::printf("evaluation %d: accuracy %.3f after %ld updates\n", evaluation, accuracy,
                static_cast<long>(**version));
    std::fflush(stdout);
    ctx.ReportMetric("accuracy", **version, accuracy);
    next = **version + flags.evaluate_every;
    ++evaluation;
  }
  return absl::OkStatus();
}

absl::Status Main(NodeContext& ctx, const Flags& flags) {
  if (ctx.job_name() == "ps") return Serve(ctx, flags);
  MILLRACE_ASSIGN_OR_RETURN(ParameterClient ps, ParameterClient::Connect(ctx));
  if (ctx.job_name() == "evaluator") return Evaluate(ctx, flags, ps);
  MILLRACE_RETURN_IF_ERROR(Train(ctx, flags, ps));
  return Infer(ctx, flags, ps);
}

}  // namespace
}  // namespace millrace::examples

int main(int argc, char** argv) {
  millrace::examples::Flags flags;
  CLI::App app("Node program of examples/digits; examples/digits/digits starts it.");
  app.add_option("--data", flags.data, "digits.csv, for the evaluator")->required();
  app.add_option("--hidden", flags.hidden, "units of the hidden layer");
  app.add_option("--seed", flags.seed, "of the first weights");
  app.add_option("--batch", flags.batch, "rows per gradient");
  app.add_option("--learning_rate", flags.learning_rate, "of Adam");
  CLI11_PARSE(app, argc, argv);
  return millrace::RunNode(argc, argv, [&flags](millrace::NodeContext& ctx) {
    return millrace::examples::Main(ctx, flags);
  });
}
