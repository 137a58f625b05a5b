#include "testing/bench/four_nodes.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/node_program.h"
#include "millrace/status_macros.h"
#include "testing/child_process.h"

extern char** environ;

namespace millrace::bench {

NodePaths NodePaths::FromRunfiles() {
  return {.agent = RunfilePath("core/agent/millrace-agent"),
          .node = RunfilePath("testing/bench/bench_node")};
}

absl::StatusOr<std::unique_ptr<Cluster>> StartFourNodes(Launcher& launcher, const NodePaths& paths,
                                                        ClusterOptions options) {
  options.num_executors = 4;
  options.num_ps = 1;
  options.master_node = "chief";
  options.input_mode = InputMode::kFeed;
  options.progress = false;
  return Cluster::Run(launcher, NodeProgram::File(paths.node), std::move(options));
}

absl::StatusOr<std::unique_ptr<FourProcesses>> FourProcesses::Start(const std::string& node) {
  std::unique_ptr<FourProcesses> four(new FourProcesses());
  for (int i = 0; i < 4; ++i) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return absl::ErrnoToStatus(errno, "making a socketpair");
    }
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, theirs.get(), STDIN_FILENO);
    std::string bare = "--bare";
    char* const argv[] = {const_cast<char*>(node.c_str()), bare.data(), nullptr};
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, node.c_str(), &files, nullptr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("starting ", node));
    four->processes_.push_back({pid, std::move(ours)});
  }
  for (const Process& process : four->processes_) {
    char hello = 0;
    if (::read(process.socket.get(), &hello, 1) != 1) {
      return absl::UnavailableError(absl::StrCat(node, " --bare did not say hello"));
    }
  }
  return four;
}

void FourProcesses::KillOne() {
  const Process victim = std::move(processes_.back());
  processes_.pop_back();
  ::kill(victim.pid, SIGKILL);
  ::waitpid(victim.pid, nullptr, 0);
}

void FourProcesses::End() {
  for (Process& process : processes_) process.socket.reset();
  for (const Process& process : processes_) ::waitpid(process.pid, nullptr, 0);
  processes_.clear();
}

}  // namespace millrace::bench
