// From the SIGKILL of a node that is being fed until the driver has the error. See README.md.

#include <signal.h>

#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "millrace/local_launcher.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/four_nodes.h"
#include "testing/faults/rows.h"

namespace millrace::bench {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(60);
constexpr absl::string_view kVictim = "worker:1";

pid_t PidOf(const Cluster& cluster, absl::string_view node) {
  for (const SlotStatus& slot : cluster.Status().slots) {
    if (slot.role.ToString() == node) return static_cast<pid_t>(slot.node_pid);
  }
  return 0;
}

absl::Status OnceOurs(const NodePaths& paths, absl::Duration after, Samples* wall_ms) {
  Notification fed;
  ClusterOptions options;
  options.observer.on_metric = [&fed](absl::string_view node, absl::string_view, int64_t, double) {
    if (node == kVictim && !fed.HasBeenNotified()) fed.Notify();
  };
  LocalLauncher launcher({.agent_path = paths.agent});
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Cluster> cluster,
                            StartFourNodes(launcher, paths, std::move(options)));
  const pid_t victim = PidOf(*cluster, kVictim);
  absl::Time killed;
  Thread killer("killer", [&] {
    if (!fed.WaitForNotificationWithTimeout(kLongest) || victim <= 0) return;
    absl::SleepFor(after);  // in the middle of it, and not always at the same place
    killed = absl::Now();
    ::kill(victim, SIGKILL);
  });
  const absl::Status status = cluster->Train(faults::EndlessSource(8)).status();
  const absl::Time returned = absl::Now();
  killer.Join();
  if (!absl::IsAborted(status) || !absl::StrContains(status.message(), kVictim) ||
      !absl::StrContains(status.message(), "SIGKILL")) {
    return absl::InternalError(
        absl::StrCat("Train should name ", kVictim, " and SIGKILL: ", status.ToString()));
  }
  wall_ms->Add(returned - killed);
  return absl::OkStatus();
}

absl::Status OnceBare(const NodePaths& paths, Samples* wall_ms) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<FourProcesses> four, FourProcesses::Start(paths.node));
  const absl::Time start = absl::Now();
  four->KillOne();
  wall_ms->Add(absl::Now() - start);
  return absl::OkStatus();
}

absl::Status Main(const BenchFlags& flags, BenchReport* report) {
  const NodePaths paths = NodePaths::FromRunfiles();
  Samples ours;
  Samples bare;
  Samples warm_up;
  MILLRACE_RETURN_IF_ERROR(OnceOurs(paths, absl::ZeroDuration(), &warm_up));
  for (int i = 0; i < flags.repetitions; ++i) {
    MILLRACE_RETURN_IF_ERROR(OnceOurs(paths, absl::Milliseconds(5) * (i % 10), &ours));
    MILLRACE_RETURN_IF_ERROR(OnceBare(paths, &bare));
  }
  BenchTable table({"", "median", "min", "max"});
  table.AddSamples("cluster: ms until Train returns", ours);
  table.AddSamples("bare process: ms until reaped", bare);
  table.AddRow({"TensorFlowOnSpark 2.2.5, feed_timeout=10: ms", "75000", "-", "-"});
  table.AddRow({"TensorFlowOnSpark 2.2.5, feed_timeout=20: ms", "125000", "-", "-"});
  report->Add(table, absl::StrCat("SIGKILL of ", kVictim,
                                  ", one of three fed nodes of four, while rows "
                                  "stream in; ",
                                  flags.repetitions, " repetitions after one to warm up"));
  report->AddNote(
      "TensorFlowOnSpark's figures: measured on Spark 3.5 and 2 cores, one run each "
      "(5 x feed_timeout + 25 s)\n");
  report->Add(Figure{.name = "failure",
                     .unit = "ms",
                     .ours = ours.Median(),
                     .ref = 75'000,
                     .ref_is = "TensorFlowOnSpark 2.2.5 with feed_timeout=10, as measured once",
                     .goal = AtMost(200)});
  report->Add(Figure{.name = "failure_over_bare",
                     .unit = "ms",
                     .ours = ours.Median(),
                     .ref = bare.Median(),
                     .ref_is = "SIGKILL of a bare process until its parent has reaped it",
                     .goal = AtMost(200)});
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::BenchFlags flags;
  CLI::App app("How long a driver takes to hear that a node was killed.");
  flags.AddTo(&app);
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report(
      "failure: from the SIGKILL of a node to the error at the driver", flags);
  return report.Finish(millrace::bench::Main(flags, &report));
}
