// The relay that this agent starts for all agents of its host (core/agent/modes/relay_mode.h).

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "core/agent/agent.h"
#include "core/base/json.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kListeningFd = 3;

// Between fork and exec: async-signal-safe calls only. Every other descriptor of the agent is
// close-on-exec. The relay outlives this agent, as long as there are others.
[[noreturn]] void RunChild(int in, int listening, int null, char* const* argv, char* const* env) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // What is meant for the agent's process group, or its terminal, is not for the relay.
  (void)setsid();
  if (dup2(in, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) _exit(127);
  if (listening == kListeningFd) {
    fcntl(listening, F_SETFD, 0);
  } else if (dup2(listening, kListeningFd) < 0) {
    _exit(127);
  }
  execve(argv[0], argv, env);
  _exit(127);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::Status Agent::StartRelay(UniqueFd listening) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string self, SelfExecutablePath());
  const std::vector<std::string> args = {self, "relay", "--parent=stdin"};
  const CoordinatorEndpoint& endpoint = params_.coordinator;
  const std::string request = DumpJson(Json{{"coordinator",
                                             {{"address", endpoint.address},
                                              {"ca_pem", endpoint.ca_pem},
                                              {"identity_pem", endpoint.identity_pem},
                                              {"token", endpoint.token}}}});
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  const UniqueFd in(ends[0]);
  const UniqueFd out(ends[1]);
  // A pipe holds 64 KiB: one write takes it, before anybody reads.
  fcntl(out.get(), F_SETFL, O_NONBLOCK);
  if (write(out.get(), request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
    return absl::ErrnoToStatus(errno, "writing what a relay is to do");
  }
  const UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "cannot open /dev/null");
  const std::vector<char*> argv = Pointers(args);
  const std::vector<char*> env = Pointers(options_.environment);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  if (pid == 0) RunChild(in.get(), listening.get(), null.get(), argv.data(), env.data());
  // Known, so that it never counts as an orphan of the node.
  reaper_->Register(pid, [](const ExitStatus&) {});
  return absl::OkStatus();
}

}  // namespace millrace
