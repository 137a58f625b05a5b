// The node program of examples/digits: one program, and which of the four parts of the cluster it
// plays is the cluster's choice.
//
//   ps         holds the weights and applies gradients (gRPC service Parameters); strategy ps only
//   chief, worker
//              take rows from their data feed, compute gradients on weights pulled from the ps, or
//              on weights of their own that an all-reduce keeps equal; after training they answer
//              inference rows
//   evaluator  scores the newest weights, of the ps or of the chief, on rows it reads itself

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
#include "examples/digits/allreduce_training.h"
#include "examples/digits/digits_data.h"
#include "examples/digits/mlp.h"
#include "examples/digits/parameter_client.h"
#include "examples/digits/parameter_server.h"
#include "millrace/batch_builder.h"
#include "millrace/cluster_server.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace::examples {
namespace {

struct Flags {
  std::string strategy = "ps";
  int hidden = 128;
  uint64_t seed = 0;
  int batch = 64;
  float learning_rate = 0.006f;
  int64_t epoch_rows = 1;
  std::string data;
  int evaluate_every = 50;  // updates
};

// A C++ driver feeds fixed_size_list<float32>[64]; Spark has arrays of any size, list<float32>.
absl::StatusOr<Images> ImagesOf(const Batch& batch) {
  if (batch.at("x").type().id() != TypeId::kList) {
    return Images{batch.column<float>("x").data(), batch.num_rows(), kPixels};
  }
  const ListColumn lists = batch.list("x");
  for (size_t row = 0; row < lists.size(); ++row) {
    if (lists.length(row) != kPixels) {
      return absl::InvalidArgumentError(absl::StrCat("an image of ", lists.length(row), " pixels"));
    }
  }
  return Images{lists.elements().values<float>().data() + lists.offset(0), batch.num_rows(),
                kPixels};
}

absl::Status Serve(NodeContext& ctx, const Flags& flags) {
  Mlp model(flags.hidden);
  model.Initialize(flags.seed);
  ParameterServer service(std::move(model), flags.learning_rate);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ClusterServer> server,
                            StartClusterServer(ctx, {&service}));
  ctx.WaitForStop();
  return absl::OkStatus();
}

// Leaves in `model` what it trained to.
absl::Status TrainWithPs(NodeContext& ctx, const Flags& flags, Mlp* model) {
  MILLRACE_ASSIGN_OR_RETURN(ParameterClient ps, ParameterClient::Connect(ctx, "ps"));
  Eigen::VectorXf gradient;
  std::unique_ptr<DataFeed> feed =
      ctx.GetDataFeed({.input_mapping = {{"image", "x"}, {"label", "y"}}});
  for (int step = 1; !feed->ShouldStop(); ++step) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(flags.batch));
    if (batch.empty()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> version,
                              ps.Pull(0, absl::Seconds(30), model));
    MILLRACE_ASSIGN_OR_RETURN(const Images images, ImagesOf(batch));
    const float loss = model->Loss(images, batch.column<int64_t>("y"), &gradient);
    // The last batch may have few rows, which say little.
    gradient *= static_cast<float>(batch.num_rows()) / static_cast<float>(flags.batch);
    MILLRACE_RETURN_IF_ERROR(ps.Push(gradient, version.value_or(0)));
    if (step % 50 == 0) ctx.ReportMetric("loss", step, loss);
  }
  return ps.Pull(0, absl::Seconds(30), model).status();
}

// The same; `published` is what the evaluator reads from the chief.
absl::Status TrainTogether(NodeContext& ctx, const Flags& flags, ParameterServer* published,
                           Mlp* model) {
  model->Initialize(flags.seed);
  AllReduceTraining training{
      .batch = flags.batch, .learning_rate = flags.learning_rate, .epoch_rows = flags.epoch_rows};
  training.on_step = [&ctx, published](int64_t steps, const Mlp& now) {
    if (ctx.is_chief()) published->Publish(now.values(), steps);
  };
  return TrainByAllReduce(ctx, training, model);
}

absl::Status Infer(NodeContext& ctx, const Flags& flags, const Mlp& model) {
  std::unique_ptr<DataFeed> feed =
      ctx.GetDataFeed({.train_mode = false, .input_mapping = {{"id", "id"}, {"image", "x"}}});
  while (!feed->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(flags.batch));
    if (batch.empty()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const Images images, ImagesOf(batch));
    BatchBuilder results;
    results.AddColumn("id", batch.column<int64_t>("id"));
    results.AddColumn("prediction", model.Predict(images));
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch rows, results.Build());
    MILLRACE_RETURN_IF_ERROR(feed->BatchResults(rows));
  }
  return absl::OkStatus();
}

absl::Status Evaluate(NodeContext& ctx, const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(ParameterClient server,
                            ParameterClient::Connect(ctx, flags.strategy == "ps" ? "ps" : "chief"));
  MILLRACE_ASSIGN_OR_RETURN(const DigitsData data, ReadDigits(flags.data));
  MILLRACE_ASSIGN_OR_RETURN(const Batch rows,
                            Batch::Create(data.held_out, {{"image", "x"}, {"label", "y"}}));
  MILLRACE_ASSIGN_OR_RETURN(const Images images, ImagesOf(rows));
  const std::span<const int64_t> labels = rows.column<int64_t>("y");
  Mlp model(flags.hidden);
  int64_t next = flags.evaluate_every;
  for (int evaluation = 1; !ctx.stop_requested();) {
    // In short waits, so that the end of the cluster is noticed.
    absl::StatusOr<std::optional<int64_t>> version =
        server.Pull(next, absl::Milliseconds(200), &model);
    // Who serves ends together with this node, or a little before: its end may be seen here first.
    if (!version.ok() && ctx.WaitForStop(absl::Seconds(5))) break;
    MILLRACE_RETURN_IF_ERROR(version);
    if (!version->has_value()) continue;
    const float accuracy = Accuracy(model.Predict(images), labels);
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
  if (ctx.job_name() == "evaluator") return Evaluate(ctx, flags);
  Mlp model(flags.hidden);
  if (flags.strategy == "ps") {
    MILLRACE_RETURN_IF_ERROR(TrainWithPs(ctx, flags, &model));
    return Infer(ctx, flags, model);
  }
  ParameterServer published(model, flags.learning_rate);
  std::unique_ptr<ClusterServer> server;
  if (ctx.is_chief()) {
    MILLRACE_ASSIGN_OR_RETURN(server, StartClusterServer(ctx, {&published}));
  }
  MILLRACE_RETURN_IF_ERROR(TrainTogether(ctx, flags, &published, &model));
  return Infer(ctx, flags, model);
}

}  // namespace
}  // namespace millrace::examples

int main(int argc, char** argv) {
  millrace::examples::Flags flags;
  CLI::App app("Node program of examples/digits; examples/digits/digits starts it.");
  app.add_option("--data", flags.data, "digits.csv, for the evaluator")->required();
  app.add_option("--strategy", flags.strategy, "ps or allreduce")
      ->check(CLI::IsMember({"ps", "allreduce"}));
  app.add_option("--hidden", flags.hidden, "units of the hidden layer");
  app.add_option("--seed", flags.seed, "of the first weights");
  app.add_option("--batch", flags.batch, "rows per gradient");
  app.add_option("--learning_rate", flags.learning_rate, "of Adam");
  app.add_option("--epoch_rows", flags.epoch_rows,
                 "with allreduce: rows of all nodes between two hashes")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return millrace::RunNode(argc, argv, [&flags](millrace::NodeContext& ctx) {
    return millrace::examples::Main(ctx, flags);
  });
}
