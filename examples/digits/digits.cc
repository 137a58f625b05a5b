// The main job: starts a cluster of five native nodes on this machine (a parameter server, a chief,
// an evaluator, two workers), feeds it the UCI digits, trains, brings the predictions for the
// held-out fifth back row for row, and shuts down.
//
//   ./bazelw run //examples/digits
//   ./bazelw run //examples/digits -- --strategy=allreduce      no ps: every rank holds the weights
//   ./bazelw run //examples/hosts                          on agents that listen on other hosts

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "examples/digits/digits_data.h"
#include "examples/digits/equal_parameters.h"
#include "examples/runfiles.h"
#include "millrace/batch.h"
#include "millrace/cluster.h"
#include "millrace/resolver.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"

namespace millrace::examples {
namespace {

struct Flags {
  std::string strategy = "ps";
  int workers = 2;
  int epochs = 40;
  int partitions = 8;
  int hidden = 128;
  int batch = 64;
  float learning_rate = 0.006f;
  uint64_t seed = 0;
  std::string data;
  std::string node;
  std::string log_dir;
  std::string members;
  std::string secret;
  int max_restarts = 0;
};

// "[ 1.234 s] text", since the program's start.
void Say(const std::string& text) {
  static const absl::Time start = absl::Now();
  std::printf("[%6.3f s] %s\n", absl::ToDoubleSeconds(absl::Now() - start), text.c_str());
  std::fflush(stdout);
}

bool HasPs(const Flags& flags) { return flags.strategy == "ps"; }

ClusterOptions OptionsFrom(const Flags& flags, EqualParameters* equal) {
  ClusterOptions options;
  options.num_ps = HasPs(flags) ? 1 : 0;
  options.num_executors = options.num_ps + 2 + flags.workers;  // chief, evaluator
  options.master_node = "chief";
  options.eval_node = true;
  options.input_mode = InputMode::kFeed;
  options.log_dir = flags.log_dir;
  options.failure.restart.max_restarts = flags.max_restarts;
  if (options.num_ps > 0) options.failure.restart_by_job["ps"] = {};  // its memory is the model
  options.observer.on_output = [equal](const NodeOutput& output) {
    for (const std::string& line : output.lines) {
      if (const std::string text = equal->Take(output.node, line); !text.empty()) Say(text);
    }
  };
  options.observer.on_metric = [print = HasPs(flags)](absl::string_view node,
                                                      absl::string_view name, int64_t step,
                                                      double value) {
    if (print && name == "loss") Say(absl::StrFormat("%s: step %d, loss %.3f", node, step, value));
  };
  return options;
}

// Where the nodes run: this machine, or the agents that a resolver names.
struct Place {
  std::unique_ptr<ClusterResolver> resolver;
  std::unique_ptr<Launcher> launcher;
};

absl::StatusOr<Place> MakePlace(const Flags& flags) {
  Place place;
  if (flags.members.empty()) {
    place.launcher = std::make_unique<LocalLauncher>();
    return place;
  }
  MILLRACE_ASSIGN_OR_RETURN(place.resolver, ResolverFromJson(flags.members));
  place.launcher = std::make_unique<AdoptingLauncher>(
      *place.resolver, AdoptingLauncherOptions{.secret = {.file = flags.secret}});
  return place;
}

absl::StatusOr<std::unique_ptr<Cluster>> Start(Launcher& launcher, const Flags& flags,
                                               int64_t epoch_rows, EqualParameters* equal) {
  Say(absl::StrCat("starting ", HasPs(flags) ? "1 ps, " : "", "1 chief, 1 evaluator, ",
                   flags.workers, " workers"));
  NodeProgram program = NodeProgram::File(flags.node);
  program.Args({absl::StrCat("--strategy=", flags.strategy),
                absl::StrCat("--epoch_rows=", epoch_rows), absl::StrCat("--data=", flags.data),
                absl::StrCat("--hidden=", flags.hidden), absl::StrCat("--batch=", flags.batch),
                absl::StrCat("--seed=", flags.seed),
                absl::StrCat("--learning_rate=", flags.learning_rate)});
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Cluster> cluster,
                            Cluster::Run(launcher, program, OptionsFrom(flags, equal)));
  Say(absl::StrCat("running: ", cluster->cluster_spec().AsText()));
  return cluster;
}

absl::Status Train(Cluster& cluster, const Flags& flags, const RecordBatch& rows) {
  Say(absl::StrCat("training: ", rows.num_rows(), " rows in ", flags.partitions, " partitions, ",
                   flags.epochs, " epochs"));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<MemorySource> source,
                            MemorySource::Split(rows, flags.partitions));
  MILLRACE_ASSIGN_OR_RETURN(
      const TrainResult result,
      cluster.Train(*source, {.num_epochs = flags.epochs, .end_of_feed = true}));
  const double seconds = absl::ToDoubleSeconds(result.elapsed);
  Say(absl::StrFormat("trained on %d rows in %.2f s: %.0f rows/s", result.rows, seconds,
                      static_cast<double>(result.rows) / seconds));
  return absl::OkStatus();
}

// Checks that every row came back once, in order, and returns the share that is right.
absl::StatusOr<double> Infer(Cluster& cluster, const Flags& flags, const RecordBatch& rows) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MemorySource> source,
                            MemorySource::Split(rows, flags.partitions));
  MILLRACE_ASSIGN_OR_RETURN(InferenceResult result, cluster.Inference(std::move(source)));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<RecordBatch> batches, result.Collect());
  MILLRACE_ASSIGN_OR_RETURN(const RecordBatch returned, RecordBatch::Concat(batches));
  MILLRACE_ASSIGN_OR_RETURN(const Batch sent, Batch::Create(rows));
  MILLRACE_ASSIGN_OR_RETURN(const Batch got, Batch::Create(returned));
  const std::span<const int64_t> sent_ids = sent.column<int64_t>("id");
  const std::span<const int64_t> got_ids = got.column<int64_t>("id");
  if (!std::equal(sent_ids.begin(), sent_ids.end(), got_ids.begin(), got_ids.end())) {
    return absl::DataLossError(
        absl::StrCat("the results' ids are not those of the ", rows.num_rows(), " rows, in order"));
  }
  Say(absl::StrCat("predicted ", returned.num_rows(), " held-out rows: each once, in order"));
  return Accuracy(got.column<int64_t>("prediction"), sent.column<int64_t>("label"));
}

absl::Status Main(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const DigitsData data, ReadDigits(flags.data));
  EqualParameters equal(1 + flags.workers);
  MILLRACE_ASSIGN_OR_RETURN(const Place place, MakePlace(flags));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Cluster> cluster,
                            Start(*place.launcher, flags, data.train.num_rows(), &equal));
  MILLRACE_RETURN_IF_ERROR(Train(*cluster, flags, data.train));
  MILLRACE_ASSIGN_OR_RETURN(const double accuracy, Infer(*cluster, flags, data.held_out));
  MILLRACE_RETURN_IF_ERROR(cluster->Shutdown());
  Say("shut down");
  if (!HasPs(flags)) MILLRACE_RETURN_IF_ERROR(equal.Check(flags.epochs));
  std::printf("accuracy: %.2f\n", accuracy);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::examples

int main(int argc, char** argv) {
  using millrace::examples::Runfile;
  millrace::examples::Flags flags;
  flags.data = Runfile("examples/digits/digits.csv");
  flags.node = Runfile("examples/digits/digits_node");
  CLI::App app("Trains a digit classifier on a cluster of native nodes on this machine.");
  app.option_defaults()->always_capture_default();
  app.add_option("--strategy", flags.strategy, "how nodes share weights")
      ->check(CLI::IsMember({"ps", "allreduce"}));
  app.add_option("--workers", flags.workers, "workers beside the chief")->check(CLI::Range(0, 64));
  app.add_option("--epochs", flags.epochs, "how often the data is fed")->check(CLI::PositiveNumber);
  app.add_option("--partitions", flags.partitions, "of the data")->check(CLI::Range(1, 1437));
  app.add_option("--hidden", flags.hidden, "units of the hidden layer")->check(CLI::Range(1, 4096));
  app.add_option("--batch", flags.batch, "rows per gradient; with allreduce, of all nodes together")
      ->check(CLI::Range(1, 100000));
  app.add_option("--learning_rate", flags.learning_rate, "of Adam")->check(CLI::PositiveNumber);
  app.add_option("--seed", flags.seed, "of the first weights");
  app.add_option("--log_dir", flags.log_dir, "where nodes' output is kept (default: nowhere)");
  app.add_option("--members", flags.members,
                 "a resolver as JSON, whose members are agents that listen: {\"type\": \"static\", "
                 "\"cluster_spec\": {...}} (default: this machine)");
  app.add_option("--secret", flags.secret, "with --members: the file that the agents were given");
  app.add_option("--max-restarts", flags.max_restarts, "of a node that fails, the ps excepted")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--data", flags.data, "digits.csv");
  app.add_option("--node", flags.node, "the node program");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = millrace::examples::Main(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "digits: %s: %s\n", absl::StatusCodeToString(status.code()).c_str(),
               std::string(status.message()).c_str());
  return 1;
}
