// Runs hello_node on four nodes of this machine, in InputMode DIRECT: nobody feeds them.
//
//   ./bazelw run //examples/hello

#include <cstdio>
#include <memory>
#include <string>

#include "examples/runfiles.h"
#include "millrace/cluster.h"
#include "millrace/status_macros.h"

namespace {

absl::Status Main() {
  millrace::ClusterOptions options;
  options.num_executors = 4;
  options.master_node = "chief";
  options.observer.on_output = [](const millrace::NodeOutput& output) {
    for (const std::string& line : output.lines) {
      std::printf("%-9s %s\n", std::string(output.node).c_str(), line.c_str());
    }
  };
  millrace::LocalLauncher launcher;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<millrace::Cluster> cluster,
      millrace::Cluster::Run(
          launcher,
          millrace::NodeProgram::File(millrace::examples::Runfile("examples/hello/hello_node")),
          options));
  return cluster->Shutdown();
}

}  // namespace

int main() {
  const absl::Status status = Main();
  if (!status.ok()) std::fprintf(stderr, "hello: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
