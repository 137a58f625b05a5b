// A driver that a test kills: takes the cluster of a state folder over if there is one, and begins
// it otherwise, and waits for its end.
//
//   resume_test_driver FOLDER SECRET_FILE LEASE_MS MAX_RESTARTS OWN_HOST ADDRESS,... PROGRAM ARG...
//
// Says on stdout "new ID" or "resumed ID" when all nodes run, "failure of NODE" if one failed, and
// at the end "ended with CODE: MESSAGE".

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"
#include "millrace/node_program.h"
#include "millrace/status_macros.h"
#include "resolver/scripted_resolver.h"

namespace millrace {
namespace {

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

absl::Status Drive(const std::vector<std::string>& args) {
  const std::vector<std::string> addresses = absl::StrSplit(args[5], ',');
  MILLRACE_ASSIGN_OR_RETURN(ClusterSpec members, ClusterSpec::Create({{"worker", addresses}}));
  ScriptedResolver resolver(std::move(members));
  AdoptingLauncher launcher(
      resolver, {.secret = {.file = args[1]}, .bind_address = args[4], .driver_host = args[4]});
  ClusterOptions options;
  options.num_executors = static_cast<int>(addresses.size());
  options.reservation_timeout = absl::Seconds(60);
  options.failure.restart.max_restarts = std::atoi(args[3].c_str());
  options.failure.restart.initial_backoff = absl::Milliseconds(50);
  options.cluster_file = false;
  options.resume.state_folder = args[0];
  options.resume.lease = absl::Milliseconds(std::atoi(args[2].c_str()));
  options.observer.on_failure = [](const NodeFailure& failure) {
    Say(absl::StrCat("failure of ", failure.role.ToString()));
  };
  NodeProgram program = NodeProgram::Path(args[6]);
  program.Args({args.begin() + 7, args.end()});
  MILLRACE_ASSIGN_OR_RETURN(const bool resume, Cluster::CanResume(args[0]));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Cluster> cluster,
                            resume ? Cluster::Resume(launcher, program, options)
                                   : Cluster::Run(launcher, program, options));
  Say(absl::StrCat(resume ? "resumed " : "new ", cluster->cluster_id()));
  return cluster->Shutdown();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 7) return 64;
  const absl::Status status = millrace::Drive(args);
  millrace::Say(
      absl::StrCat("ended with ", absl::StatusCodeToString(status.code()), ": ", status.message()));
  return status.ok() ? 0 : 1;
}
