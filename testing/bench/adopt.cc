// Clusters on agents that listen: adopted and running against the same number started here; a
// member that was replaced until its node runs again; the feed over CURVE against bare libzmq's.
// See README.md.

#include <signal.h>
#include <stdlib.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/launch/agent_secret.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster.h"
#include "millrace/cluster_spec.h"
#include "millrace/launcher.h"
#include "millrace/local_launcher.h"
#include "millrace/node_program.h"
#include "millrace/status_macros.h"
#include "resolver/scripted_resolver.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/four_nodes.h"
#include "testing/child_process.h"
#include "testing/listening_agent.h"

namespace millrace::bench {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(120);
// What an API takes to make a pod again: longer than a restart's backoff.
constexpr absl::Duration kUntilNamed = absl::Milliseconds(1500);

struct Flags : BenchFlags {
  int agents = 100;
  int replacements = 5;
  bool feed = true;
};

AdoptingLauncherOptions AdoptOptions(const std::string& secret) {
  AdoptingLauncherOptions options;
  options.secret.file = secret;
  options.poll_interval = absl::Milliseconds(5);  // as good as pushed
  return options;
}

ClusterOptions Options(int nodes) {
  ClusterOptions options;
  options.num_executors = nodes;
  options.cluster_file = false;
  options.progress = false;
  options.reservation_timeout = kLongest;
  return options;
}

NodeProgram Sleeper() {
  NodeProgram program = NodeProgram::Path("sleep");
  program.Args({"3600"});
  return program;
}

absl::Status RunOnce(Launcher& launcher, int nodes, Samples* wall_ms) {
  const absl::Time start = absl::Now();
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Cluster> cluster,
                            Cluster::Run(launcher, Sleeper(), Options(nodes)));
  wall_ms->Add(absl::Now() - start);
  return absl::OkStatus();
}

absl::Status Start(const Flags& flags, const std::string& secret, BenchReport* report) {
  std::vector<std::unique_ptr<ListeningAgent>> agents;
  ClusterSpec::TaskList addresses;
  for (int i = 0; i < flags.agents; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(auto agent, ListeningAgent::Start("127.0.0.2", secret));
    addresses.push_back(agent->address());
    agents.push_back(std::move(agent));
  }
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, ClusterSpec::Create({{"worker", addresses}}));
  ScriptedResolver resolver(spec);
  Samples local_ms;
  Samples adopted_ms;
  Samples warm_up;
  LocalLauncher local({.agent_path = NodePaths::FromRunfiles().agent});
  for (int i = 0; i < flags.repetitions + 1; ++i) {
    AdoptingLauncher adopting(resolver, AdoptOptions(secret));
    MILLRACE_RETURN_IF_ERROR(RunOnce(local, flags.agents, i == 0 ? &warm_up : &local_ms));
    MILLRACE_RETURN_IF_ERROR(RunOnce(adopting, flags.agents, i == 0 ? &warm_up : &adopted_ms));
  }
  BenchTable table({"", "median", "min", "max"});
  table.AddSamples("adopted: wall ms", adopted_ms);
  table.AddSamples("LocalLauncher: wall ms", local_ms);
  report->Add(table, absl::StrCat("Cluster::Run of ", flags.agents, " nodes that sleep; ",
                                  flags.repetitions, " repetitions after one to warm up"));
  report->Add(Figure{.name = absl::StrCat("adopt_", flags.agents),
                     .unit = "ms",
                     .ours = adopted_ms.Median(),
                     .ref = local_ms.Median(),
                     .ref_is = "the same number through LocalLauncher",
                     .goal = RatioAtMost(1.5)});
  return absl::OkStatus();
}

// Until the slot runs with this attempt.
absl::Status WaitRunning(const Cluster& cluster, int executor_id, uint32_t attempt) {
  const absl::Time deadline = absl::Now() + kLongest;
  while (absl::Now() < deadline) {
    const SlotStatus slot = cluster.Status().slots[executor_id];
    if (slot.attempt >= attempt && slot.state == SlotState::kRunning) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(1));
  }
  return absl::DeadlineExceededError("the replaced node does not run");
}

absl::Status Replace(const Flags& flags, const std::string& secret, BenchReport* report) {
  MILLRACE_ASSIGN_OR_RETURN(const auto first, ListeningAgent::Start("127.0.0.2", secret));
  MILLRACE_ASSIGN_OR_RETURN(auto second, ListeningAgent::Start("127.0.0.3", secret));
  MILLRACE_ASSIGN_OR_RETURN(
      const ClusterSpec spec,
      ClusterSpec::Create(
          {{"worker", ClusterSpec::TaskList{first->address(), second->address()}}}));
  ScriptedResolver resolver(spec);
  AdoptingLauncher launcher(resolver, AdoptOptions(secret));
  ClusterOptions options = Options(2);
  options.failure.restart.max_restarts = flags.replacements + 1;
  options.failure.quarantine.failures = 1000;  // all agents are on one host here
  // Runs that end at once are what a pod that is replaced again and again has.
  options.failure.restart.max_backoff = options.failure.restart.initial_backoff;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Cluster> cluster,
                            Cluster::Run(launcher, Sleeper(), options));
  Samples named_ms;
  Samples killed_ms;
  for (int i = 0; i < flags.replacements; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(auto next,
                              ListeningAgent::Start(absl::StrCat("127.0.0.", 4 + i), secret));
    const absl::Time killed = absl::Now();
    second->process().Kill(SIGTERM);
    absl::SleepFor(kUntilNamed);
    const absl::Time named = absl::Now();
    ClusterSpec moved = spec;
    MILLRACE_RETURN_IF_ERROR(moved.SetTask("worker", 1, next->address()));
    resolver.Answer(moved);
    MILLRACE_RETURN_IF_ERROR(WaitRunning(*cluster, 1, static_cast<uint32_t>(i + 1)));
    named_ms.Add(absl::Now() - named);
    killed_ms.Add(absl::Now() - killed);
    second = std::move(next);
  }
  BenchTable table({"", "median", "min", "max"});
  table.AddSamples("named until running: ms", named_ms);
  table.AddSamples("deleted until running: ms", killed_ms);
  report->Add(table, absl::StrCat("a member is ended, and ", absl::FormatDuration(kUntilNamed),
                                  " later the resolver names another; ", flags.replacements,
                                  " times, restarts with their default backoff of 1 s"));
  report->Add(Figure{.name = "adopt_replaced",
                     .unit = "ms",
                     .ours = named_ms.Median(),
                     .ref = std::numeric_limits<double>::quiet_NaN(),
                     .ref_is = "none: from the resolver's word until the node runs",
                     .goal = AtMost(1000)});
  return absl::OkStatus();
}

// Its figures are this program's too; they are printed as they come.
absl::Status Feed(const Flags& flags) {
  if (!flags.feed) return absl::OkStatus();
  const std::string command = absl::StrCat(RunfilePath("testing/bench/feed"),
                                           " --transports=curve --shapes=f32x784 --batch_kib=1024",
                                           " --repetitions=", flags.repetitions);
  if (::system(command.c_str()) == 0) return absl::OkStatus();
  return absl::AbortedError("//testing/bench:feed failed");
}

absl::Status Main(const Flags& flags, BenchReport* report) {
  MILLRACE_ASSIGN_OR_RETURN(const TempDir folder, TempDir::Create("adopt"));
  MILLRACE_ASSIGN_OR_RETURN(const AgentSecret secret, MakeAgentSecret());
  const std::string path = JoinPath(folder.path(), "secret.json");
  MILLRACE_RETURN_IF_ERROR(WriteAgentSecretFile(path, secret));
  MILLRACE_RETURN_IF_ERROR(Start(flags, path, report));
  return Replace(flags, path, report);
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Flags flags;
  flags.repetitions = 5;
  CLI::App app("Clusters on agents that listen.");
  flags.AddTo(&app);
  app.add_option("--agents", flags.agents, "that are adopted at once")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--replacements", flags.replacements, "of a member")
      ->check(CLI::Range(1, 200))
      ->capture_default_str();
  app.add_option("--feed", flags.feed, "also run //testing/bench:feed over CURVE")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report("adopt: clusters on agents that listen", flags);
  const int code = report.Finish(millrace::bench::Main(flags, &report));
  if (code != 0) return code;
  return millrace::bench::Feed(flags).ok() ? 0 : 1;
}
