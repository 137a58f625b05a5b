// From the exec of a driver until its four nodes run. See README.md.

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/four_nodes.h"
#include "testing/child_process.h"

namespace millrace::bench {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(60);

struct Measured {
  Samples wall_ms;
  Samples cpu_ms;  // of driver, agents and nodes, their end included
};

absl::Status Once(const std::string& agent, const std::string& node, Measured* measured) {
  const absl::Duration cpu_before = ChildrenCpuTime();
  const absl::Time start = absl::Now();
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ChildProcess> driver,
      ChildProcess::Start({RunfilePath("testing/bench/start_driver"), agent, node}));
  MILLRACE_RETURN_IF_ERROR(driver->WaitForLine("running", kLongest).status());
  const absl::Duration wall = absl::Now() - start;
  MILLRACE_ASSIGN_OR_RETURN(const ExitStatus exit, driver->Wait(kLongest));
  if (!exit.ok()) return absl::AbortedError("the driver failed");
  measured->wall_ms.Add(wall);
  measured->cpu_ms.Add(ChildrenCpuTime() - cpu_before);
  return absl::OkStatus();
}

absl::Status Main(const BenchFlags& flags, BenchReport* report) {
  const NodePaths paths = NodePaths::FromRunfiles();
  Measured ours;
  Measured bare;
  Measured warm_up;
  MILLRACE_RETURN_IF_ERROR(Once(paths.agent, paths.node, &warm_up));
  // In turns: what else happens on the machine falls on both.
  for (int i = 0; i < flags.repetitions; ++i) {
    MILLRACE_RETURN_IF_ERROR(Once(paths.agent, paths.node, &ours));
    MILLRACE_RETURN_IF_ERROR(Once("-", paths.node, &bare));
  }
  BenchTable table({"", "median", "min", "max"});
  table.AddSamples("cluster: wall ms", ours.wall_ms);
  table.AddSamples("cluster: cpu ms, with its end", ours.cpu_ms);
  table.AddSamples("bare processes: wall ms", bare.wall_ms);
  table.AddSamples("bare processes: cpu ms, with their end", bare.cpu_ms);
  report->Add(table, absl::StrCat("exec of a driver until a ps, a chief and two workers run; ",
                                  flags.repetitions, " repetitions after one to warm up"));
  report->AddNote(
      "TensorFlowOnSpark 2.2.5 on Spark 3.5, measured on 2 cores: 5,000-9,500 ms at first, "
      "then 1,000 ms\n");
  report->Add(Figure{.name = "start",
                     .unit = "ms",
                     .ours = ours.wall_ms.Median(),
                     .ref = bare.wall_ms.Median(),
                     .ref_is = "exec of a process that execs four and hears each say hello",
                     .goal = AtMost(300)});
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::BenchFlags flags;
  CLI::App app("How long a cluster of four nodes takes to start.");
  flags.AddTo(&app);
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report("start: from the exec of a driver until its four nodes run",
                                      flags);
  return report.Finish(millrace::bench::Main(flags, &report));
}
