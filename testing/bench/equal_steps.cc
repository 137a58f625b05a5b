// What a step costs where all ranks get equally many batches. See README.md.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/feed_shapes.h"
#include "testing/bench/four_nodes.h"

namespace millrace::bench {
namespace {

constexpr char kShape[] = "f32x64";
constexpr int kNodes = 2;
constexpr int kPartitions = 32;
constexpr int64_t kPartitionRows = 65'536;  // 16 MiB
constexpr int64_t kBatchRows = 256;         // as bench_node asks for

// Nanoseconds of a step: as the slowest node had it, from its first batch to its last.
absl::Status Once(const NodePaths& paths, const PartitionedSource& source, const std::string& equal,
                  Samples* ns) {
  Mutex mu;
  double slowest = 0;
  ClusterOptions options;
  options.num_executors = kNodes;
  options.input_mode = InputMode::kFeed;
  options.progress = false;
  options.observer.on_metric = [&](absl::string_view, absl::string_view name, int64_t,
                                   double value) {
    if (name != "ns_per_step") return;
    MutexLock lock(&mu);
    slowest = std::max(slowest, value);
  };
  NodeProgram program = NodeProgram::File(paths.node);
  program.Args({"--steps", equal});
  LocalLauncher launcher({.agent_path = paths.agent});
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Cluster> cluster,
                            Cluster::Run(launcher, program, std::move(options)));
  MILLRACE_ASSIGN_OR_RETURN(const TrainResult result,
                            cluster->Train(source, {.end_of_feed = true}));
  MILLRACE_RETURN_IF_ERROR(cluster->Shutdown());
  if (result.rows + result.dropped_rows != kPartitions * kPartitionRows || slowest == 0) {
    return absl::InternalError(absl::StrCat("rows are missing: ", result.rows));
  }
  ns->Add(slowest);
  return absl::OkStatus();
}

absl::Status Main(const BenchFlags& flags, BenchReport* report) {
  const NodePaths paths = NodePaths::FromRunfiles();
  const std::vector<RecordBatch> partition = {FindFeedShape(kShape)->Make(kPartitionRows)};
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MemorySource> source,
      MemorySource::Create(std::vector<std::vector<RecordBatch>>(kPartitions, partition)));
  Samples none;
  Samples equal;
  Samples warm_up;
  MILLRACE_RETURN_IF_ERROR(Once(paths, *source, "none", &warm_up));
  for (int i = 0; i < flags.repetitions; ++i) {
    MILLRACE_RETURN_IF_ERROR(Once(paths, *source, "none", &none));
    MILLRACE_RETURN_IF_ERROR(Once(paths, *source, "drop", &equal));
  }
  BenchTable table({"ns per step", "median", "min", "max"});
  table.AddSamples("ranks take what they get", none);
  table.AddSamples("ranks end together", equal);
  report->Add(table, absl::StrCat(kNodes, " nodes, ", kPartitions, " partitions of ",
                                  kPartitionRows, " rows of 64 float32, batches of ", kBatchRows,
                                  " rows; the programs do nothing with them"));
  report->Add(Figure{.name = "equal_step",
                     .unit = "ns",
                     .ours = equal.Median(),
                     .ref = none.Median(),
                     .ref_is = "the same without equal",
                     .goal = RatioAtMost(1.1)});
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::BenchFlags flags;
  flags.repetitions = 5;
  CLI::App app("What a step costs where all ranks get equally many batches.");
  flags.AddTo(&app);
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report("equal_steps: a step that all ranks take together", flags);
  return report.Finish(millrace::bench::Main(flags, &report));
}
