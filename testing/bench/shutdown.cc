// From the call of Shutdown until every process of the cluster is gone. See README.md.

#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "millrace/local_launcher.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/four_nodes.h"
#include "testing/faults/rows.h"

namespace millrace::bench {
namespace {

struct Measured {
  Samples wall_ms;
  Samples cpu_ms;
};

// Orphans become children of this process (see main), so none is left when there is none to wait
// for.
void WaitForAll() {
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) continue;
}

absl::Status OnceOurs(const NodePaths& paths, Measured* measured) {
  LocalLauncher launcher({.agent_path = paths.agent});
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Cluster> cluster, StartFourNodes(launcher, paths));
  // A node runs since its exec; one that has read rows is also through with its own start.
  MILLRACE_RETURN_IF_ERROR(cluster->Train(faults::RowSource(10'000, 8)).status());
  const absl::Duration cpu_before = SelfCpuTime();
  const absl::Time start = absl::Now();
  const absl::Status status = cluster->Shutdown();
  WaitForAll();
  measured->wall_ms.Add(absl::Now() - start);
  measured->cpu_ms.Add(SelfCpuTime() - cpu_before);
  return status;
}

absl::Status OnceBare(const NodePaths& paths, Measured* measured) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<FourProcesses> four, FourProcesses::Start(paths.node));
  const absl::Duration cpu_before = SelfCpuTime();
  const absl::Time start = absl::Now();
  four->End();
  measured->wall_ms.Add(absl::Now() - start);
  measured->cpu_ms.Add(SelfCpuTime() - cpu_before);
  return absl::OkStatus();
}

absl::Status Main(const BenchFlags& flags, BenchReport* report) {
  const NodePaths paths = NodePaths::FromRunfiles();
  Measured ours;
  Measured bare;
  Measured warm_up;
  MILLRACE_RETURN_IF_ERROR(OnceOurs(paths, &warm_up));
  for (int i = 0; i < flags.repetitions; ++i) {
    MILLRACE_RETURN_IF_ERROR(OnceOurs(paths, &ours));
    MILLRACE_RETURN_IF_ERROR(OnceBare(paths, &bare));
  }
  BenchTable table({"", "median", "min", "max"});
  table.AddSamples("cluster: wall ms", ours.wall_ms);
  table.AddSamples("cluster: cpu ms of the driver", ours.cpu_ms);
  table.AddSamples("bare processes: wall ms", bare.wall_ms);
  table.AddSamples("bare processes: cpu ms of the parent", bare.cpu_ms);
  report->Add(
      table,
      absl::StrCat("Shutdown of a ps, a chief and two workers that have been fed, until every "
                   "process is reaped; ",
                   flags.repetitions, " repetitions after one to warm up"));
  report->AddNote("TensorFlowOnSpark 2.2.5 on Spark 3.5, measured on 2 cores: 5,300-5,700 ms\n");
  report->Add(Figure{.name = "shutdown",
                     .unit = "ms",
                     .ours = ours.wall_ms.Median(),
                     .ref = bare.wall_ms.Median(),
                     .ref_is = "closing the sockets of four processes and reaping them",
                     .goal = AtMost(200)});
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::BenchFlags flags;
  CLI::App app("How long a cluster of four nodes takes to end.");
  flags.AddTo(&app);
  CLI11_PARSE(app, argc, argv);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  millrace::bench::BenchReport report("shutdown: from the call until every process is gone", flags);
  return report.Finish(millrace::bench::Main(flags, &report));
}
