// millrace-agent: the process that takes a slot of a cluster and runs a node in it.

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/agent/agent.h"
#include "core/agent/child_reaper.h"
#include "core/agent/event_loop.h"
#include "core/agent/guard.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace millrace {
namespace {

constexpr char kVersion[] = "0.1.0";

constexpr char kHelp[] = R"(millrace-agent: takes one slot of a Millrace cluster and runs its node program.

  millrace-agent agent --parent=stdin    speak JSON Lines with the parent process
  millrace-agent --help | --version

The parent writes requests to stdin, one JSON object a line, and reads replies and
events from stdout; logs go to stderr. End of file on stdin ends agent and node.

  {"id": 1, "method": "start", "params": {
      "coordinator": {"address": "host:port", "ca_pem": "...", "token": "..."},
      "executor_id": 0}}
  {"id": 2, "method": "stop", "params": {"reason": "enough", "now": false}}
  {"id": 3, "method": "status", "params": {}}

Exit codes:
  0  the node finished, or was stopped as asked
  1  the node failed; the event {"state": "failed"} says how
  2  the command line is wrong
  3  the agent could not do its part; the event "error" says why

Environment:
  MILLRACE_LOG   error, warning (default), info or debug: what is logged on stderr
  TMPDIR         where the agent keeps the node's files if `start` names no runtime_dir

SIGTERM, SIGINT and SIGHUP stop the node as `stop` does; the second one kills it.
docs/control_protocol.md describes the conversation.
)";

int Usage(const std::string& problem) {
  std::fprintf(stderr,
               "millrace-agent: %s\n"
               "usage: millrace-agent agent --parent=stdin   (--help says more)\n",
               problem.c_str());
  return kExitCommandLine;
}

// The exit code, or -1: go on and run the agent.
int ParseCommandLine(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--help" || arg == "-h" || arg == "help") {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (arg == "--version") {
      std::printf("millrace-agent %s (agent protocol 1, coordinator protocol 1)\n", kVersion);
      return 0;
    }
  }
  if (args.empty()) return Usage("say what to do");
  if (args[0] != "agent") {
    return Usage(absl::StrCat("unknown command \"", EscapeControls(args[0]),
                              "\"; this program knows \"agent\""));
  }
  bool parent_stdin = false;
  for (size_t i = 1; i < args.size(); ++i) {
    const bool split = args[i] == "--parent" && i + 1 < args.size() && args[i + 1] == "stdin";
    if (args[i] != "--parent=stdin" && !split) {
      return Usage(absl::StrCat("unknown argument \"", EscapeControls(args[i]),
                                "\"; the only one is --parent=stdin"));
    }
    if (split) ++i;
    parent_stdin = true;
  }
  if (!parent_stdin) return Usage("\"agent\" needs --parent=stdin");
  return -1;
}

// Descriptors 0, 1 and 2 are open afterwards, so that no other file gets their numbers.
void OpenStandardStreams() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

absl::StatusOr<UniqueFd> BlockTerminationSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot create a signalfd");
  return fd;
}

absl::StatusOr<int> RunAgent() {
  Agent::Options options{.version = kVersion};
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.push_back(*entry);
  // After the node's environment was copied: getaddrinfo() of a static program needs the very glibc
  // it was linked with, c-ares needs nothing.
  setenv("GRPC_DNS_RESOLVER", "ares", 1);
  // A host's configuration may name OpenSSL modules to load, which a static program cannot.
  setenv("OPENSSL_CONF", "/dev/null", 1);

  // The guard first: it is a fork of a process that has one thread and no state yet.
  absl::StatusOr<Guard> guard = Guard::Start();
  if (!guard.ok()) return guard.status();
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd signals, BlockTerminationSignals());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ChildReaper> reaper,
                            ChildReaper::Create(loop.get()));
  reaper->Register(guard->pid(), [](const ExitStatus&) {});

  Agent agent(loop.get(), reaper.get(), &*guard, std::move(options));
  MILLRACE_RETURN_IF_ERROR(loop->Watch(signals.get(), EPOLLIN, [&](uint32_t) {
    signalfd_siginfo info;
    while (read(signals.get(), &info, sizeof(info)) == sizeof(info)) {
      agent.OnTerminationSignal(static_cast<int>(info.ssi_signo));
    }
  }));
  agent.Start();
  loop->Run();
  const int exit_code = agent.Cleanup();
  // Not by return: a log file on a disk that hangs must not keep the process.
  std::fflush(nullptr);
  _exit(exit_code);
}

int Main(int argc, char** argv) {
  const int exit_code = ParseCommandLine({argv + 1, argv + argc});
  if (exit_code >= 0) return exit_code;
  OpenStandardStreams();
  const absl::StatusOr<int> result = RunAgent();
  if (!result.ok()) {
    std::fprintf(stderr, "millrace-agent: %s\n", std::string(result.status().message()).c_str());
    return kExitAgentFailed;
  }
  return *result;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
