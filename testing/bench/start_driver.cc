// The driver that //testing/bench:start starts: runs four nodes, says "running", ends them.
//
//   start_driver AGENT NODE      as a cluster
//   start_driver - NODE          as bare processes

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/local_launcher.h"
#include "millrace/status_macros.h"
#include "testing/bench/four_nodes.h"

namespace millrace::bench {
namespace {

void SayRunning() {
  std::puts("running");
  std::fflush(stdout);
}

absl::Status Main(const NodePaths& paths) {
  if (paths.agent == "-") {
    MILLRACE_ASSIGN_OR_RETURN(const auto four, FourProcesses::Start(paths.node));
    SayRunning();
    return absl::OkStatus();
  }
  LocalLauncher launcher({.agent_path = paths.agent});
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Cluster> cluster,
                            StartFourNodes(launcher, paths));
  SayRunning();
  return cluster->Shutdown();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const absl::Status status = millrace::bench::Main({.agent = argv[1], .node = argv[2]});
  if (status.ok()) return 0;
  std::fprintf(stderr, "start_driver: %s\n", status.ToString().c_str());
  return 1;
}
