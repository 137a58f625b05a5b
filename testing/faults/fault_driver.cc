// A driver to be killed: it runs a cluster up to a phase, says "phase <name>" once it is in it, and
// stays there.
//
//   fault_driver --phase=feeding --node=fault_node
//
//   start      one slot's agent never comes: Run waits for it (needs FLAKY_AGENT, see
//   flaky_agent.cc) running    all nodes run, nothing is fed feeding    Train of rows that do not
//   end inference  Inference of rows that do not end, after a Train shutdown   Shutdown waits for
//   nodes that do not end

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "millrace/status_macros.h"
#include "testing/faults/cluster_log.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

struct Flags {
  std::string phase;
  std::string node;
  std::string agent;
  std::string working_dir;
};

[[noreturn]] void Stay(const std::string& phase) {
  std::printf("phase %s\n", phase.c_str());
  std::fflush(stdout);
  while (true) ::pause();
}

ClusterOptions MakeOptions(const Flags& flags) {
  ClusterOptions options;
  options.num_executors = 4;
  options.num_ps = 1;
  options.master_node = "chief";
  options.input_mode = InputMode::kFeed;
  options.node.working_dir = flags.working_dir;
  options.progress = false;
  options.failure.stop_grace = absl::Hours(1);
  return options;
}

// Called on the cluster's thread: the main thread goes on meanwhile, inside the phase.
void AnnouncePhase(const std::string& phase, ClusterLog* log, ClusterOptions* options) {
  log->Listen(options);
  if (phase == "start") {
    options->observer.on_slot = [](const SlotStatus& slot) {
      if (slot.state == SlotState::kRegistered) Stay("start");
    };
    return;
  }
  const std::string word = phase == "feeding"     ? "fed"
                           : phase == "inference" ? "inferring"
                                                  : "stopping";
  options->observer.on_output = [phase, word,
                                 heard = options->observer.on_output](const NodeOutput& output) {
    heard(output);
    for (const std::string& line : output.lines) {
      if (output.node != "ps:0" && line == word) Stay(phase);
    }
  };
}

absl::Status Main(const Flags& flags) {
  ClusterOptions options = MakeOptions(flags);
  const auto log = std::make_unique<ClusterLog>();
  AnnouncePhase(flags.phase, log.get(), &options);
  LocalLauncher launcher({.agent_path = flags.agent});
  NodeProgram program = NodeProgram::File(flags.node);
  if (flags.phase == "shutdown") program.Args({"--fault=ignores_stop"});
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Cluster> cluster,
                            Cluster::Run(launcher, program, options));
  if (flags.phase == "running") Stay("running");
  if (flags.phase == "feeding") {
    return cluster->Train(EndlessSource(4)).status();
  }
  if (flags.phase == "inference") {
    MILLRACE_RETURN_IF_ERROR(cluster->Train(RowSource(100, 4), {.end_of_feed = true}).status());
    MILLRACE_ASSIGN_OR_RETURN(InferenceResult result,
                              cluster->Inference(std::make_shared<EndlessSource>(4)));
    return result.ForEach([](int, const RecordBatch&) { return absl::OkStatus(); });
  }
  // Programs that have not said hello yet would be ended by SIGTERM.
  for (const char* node : {"chief:0", "worker:0", "worker:1"}) {
    if (!log->WaitForLine(node, "started")) return absl::DeadlineExceededError(node);
  }
  return cluster->Shutdown({.grace = absl::Milliseconds(1)});
}

}  // namespace
}  // namespace millrace::faults

int main(int argc, char** argv) {
  millrace::faults::Flags flags;
  CLI::App app("A driver to be killed, for the tests of this folder.");
  app.add_option("--phase", flags.phase, "where it stays")->required();
  app.add_option("--node", flags.node, "the node program")->required();
  app.add_option("--agent", flags.agent, "the agent; default: millrace-agent");
  app.add_option("--working_dir", flags.working_dir, "where the nodes run");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = millrace::faults::Main(flags);
  std::fprintf(stderr, "fault_driver: %s\n", status.ToString().c_str());
  return 1;
}
