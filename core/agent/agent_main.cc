// millrace-agent: a slot of a cluster and its node, a coordinator, or a gateway to one, each driven
// by a parent process.

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/agent/agent.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/loop/exit_codes.h"
#include "core/agent/loop/guard.h"
#include "core/agent/modes/coordinator_mode.h"
#include "core/agent/modes/gateway_mode.h"
#include "core/agent/modes/listen_mode.h"
#include "core/agent/modes/relay_mode.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "core/base/version.h"
#include "core/base/version_line.h"
#include "core/metrics/metrics_server.h"
#include "core/net/grpc_log.h"
#include "core/net/local_interfaces.h"
#include "core/net/socket_address.h"
#include "core/process/descriptor_limit.h"
#include "core/process/standard_streams.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr char kHelp[] = R"(millrace-agent: Millrace on a host, controlled by a parent process.

  millrace-agent agent --parent=stdin        takes one slot of a cluster and runs its node
  millrace-agent agent --listen HOST:PORT --secret-dir DIR|--secret-file FILE [--advertise HOST]
                                             waits for a driver to adopt it, one after another
  millrace-agent coordinator --parent=stdin  a cluster's coordinator, for a driver in any language
  millrace-agent gateway --parent=stdin      connects a process that feeds with a coordinator
  millrace-agent relay --parent=stdin        the connection that agents of a host share, who start it
  millrace-agent --help | --version

The parent writes requests to stdin, one JSON object per line, and reads replies and events from
stdout; logs go to stderr. End of file on stdin ends everything at once. A coordinator has a session
of its own, so that an interrupt at its parent's terminal or notebook does not end it; --new-session
gives an agent or a gateway one too.

  agent        {"id": 1, "method": "start", "params": {
                   "coordinator": {"address": "host:port", "ca_pem": "...",
                                   "identity_pem": "...", "token": "..."},
                   "executor_id": 0}}
               {"id": 2, "method": "stop", "params": {"reason": "enough", "now": false}}
  coordinator  {"id": 1, "method": "start", "params": {
                   "num_executors": 4, "num_ps": 1, "program": "/opt/app/train"}}
               {"id": 2, "method": "wait_running", "params": {}}
  gateway      {"id": 1, "method": "start", "params": {"coordinator": {...}}}
               {"id": 2, "method": "lookup", "params": {"feed": "f1", "partition": 0}}

With --listen, the agent is controlled over TLS by a cluster's driver that has the same secret
(`millrace agent-secret` makes one; it may be replaced at any time). HOST is this host's address,
0.0.0.0 or [::]; the default port is 7077. Its nodes are announced under that host, or under
--advertise: a host, address, interface or network. See docs/hosts.md and docs/kubernetes.md.

  --metrics-port N             with --listen: answer Prometheus there (0: any free port) in numbers
                               about this agent, its slot and its nodes
  --metrics-address A          an address of this host instead of 127.0.0.1; any that other machines
                               reach needs TLS, and a token or certificates of callers
  --metrics-certificate FILE, --metrics-key FILE
                               TLS: PEM, as programs that serve have them
  --metrics-scrape-token FILE  callers must bring the token in its first line
  --metrics-client-ca FILE     callers must have a certificate of one of these

Exit codes:
  0  it ended as asked; an agent: its node finished or was stopped
  1  an agent: its node failed; the event {"state": "failed"} says how
  2  the command line is wrong
  3  it could not do its part; the event "error" says why

Environment:
  MILLRACE_LOG   error, warning (default), info or debug: what is logged to stderr
  TMPDIR         where an agent keeps the node's files if `start` names no runtime_dir

SIGTERM, SIGINT and SIGHUP stop a node as `stop` does, and a second one kills it; they end a
coordinator or gateway. SIGTSTP pauses a node, and SIGCONT lets it continue.
docs/control_protocol.md describes the conversations.
)";

int Usage(const std::string& problem) {
  std::fprintf(
      stderr,
      "millrace-agent: %s\n"
      "usage: millrace-agent agent|coordinator|gateway --parent=stdin   (--help says more)\n",
      problem.c_str());
  return kExitCommandLine;
}

// An option that takes a value, and where that goes.
struct MetricsFlag {
  const char* name;
  std::string MetricsServerOptions::*value;
};
constexpr char kMetricsPort[] = "--metrics-port";
constexpr MetricsFlag kMetricsFlags[] = {
    {"--metrics-address", &MetricsServerOptions::address},
    {"--metrics-scrape-token", &MetricsServerOptions::token_file},
    {"--metrics-certificate", &MetricsServerOptions::certificate_file},
    {"--metrics-key", &MetricsServerOptions::key_file},
    {"--metrics-client-ca", &MetricsServerOptions::client_ca_file},
};

struct CommandLine {
  std::string mode;
  bool parent_stdin = false;
  bool new_session = false;
  std::string listen;
  ListenOptions listen_options;
  std::string metrics_port;      // as it was given; empty: it was not
  std::string metrics_flag;      // the last of the other flags of metrics
  MetricsServerOptions metrics;  // what they said
};

constexpr uint16_t kListenPort = 7077;

// "--name=value" or "--name value".
bool TakeValue(const std::vector<std::string>& args, absl::string_view name, size_t* i,
               std::string* value) {
  if (args[*i] == name && *i + 1 < args.size()) {
    *value = args[++*i];
    return true;
  }
  absl::string_view rest = args[*i];
  if (!absl::ConsumePrefix(&rest, name) || !absl::ConsumePrefix(&rest, "=")) return false;
  *value = std::string(rest);
  return true;
}

bool TakeMetricsFlag(const std::vector<std::string>& args, size_t* i, CommandLine* line) {
  for (const MetricsFlag& flag : kMetricsFlags) {
    if (!TakeValue(args, flag.name, i, &(line->metrics.*flag.value))) continue;
    line->metrics_flag = flag.name;
    return true;
  }
  return TakeValue(args, kMetricsPort, i, &line->metrics_port);
}

absl::Status FinishMetrics(CommandLine* line) {
  if (line->metrics_port.empty()) {
    if (line->metrics_flag.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(line->metrics_flag, " goes with ", kMetricsPort));
  }
  if (!absl::SimpleAtoi(line->metrics_port, &line->metrics.port) || line->metrics.port < 0 ||
      line->metrics.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMetricsPort, ": \"", EscapeControls(line->metrics_port), "\" is no port, 0 to 65535"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckServed(line->metrics, "--metrics-"));
  line->listen_options.metrics = line->metrics;
  return absl::OkStatus();
}

absl::Status FinishListen(CommandLine* line) {
  ListenOptions& options = line->listen_options;
  if (line->mode != "agent") {
    return absl::InvalidArgumentError(
        absl::StrCat("only \"agent\" takes --listen and its options"));
  }
  if (line->listen.empty()) {
    return absl::InvalidArgumentError("a secret and metrics are for --listen HOST:PORT");
  }
  absl::StatusOr<HostPort> address = ParseHostPort(line->listen);
  if (!address.ok()) address = ParseHostPort(absl::StrCat(line->listen, ":", kListenPort));
  if (!address.ok()) return ParseHostPort(line->listen).status();
  options.address = *address;
  if (options.secret.file.empty() == options.secret.dir.empty()) {
    return absl::InvalidArgumentError(
        "--listen needs the agents' secret: --secret-dir DIR or --secret-file FILE, which "
        "`millrace "
        "agent-secret` makes");
  }
  if (!options.advertise.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(options.advertise, ResolveAdvertisedHost(options.advertise));
  }
  options.parent_stdin = line->parent_stdin;
  return FinishMetrics(line);
}

// The exit code, or -1: go on and run what `line` says.
int ParseCommandLine(const std::vector<std::string>& args, CommandLine* line) {
  for (const std::string& arg : args) {
    if (arg == "--help" || arg == "-h" || arg == "help") {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (arg == "--version") {
      std::puts(VersionLine("millrace-agent",
                            "agent protocol 1, coordinator protocol 2, adopt protocol 1")
                    .c_str());
      return 0;
    }
  }
  if (args.empty()) return Usage("say what to do");
  line->mode = args[0];
  if (line->mode != "agent" && line->mode != "coordinator" && line->mode != "gateway" &&
      line->mode != "relay") {
    return Usage(absl::StrCat("unknown command \"", EscapeControls(args[0]),
                              "\"; this program knows \"agent\", \"coordinator\" and \"gateway\""));
  }
  ListenOptions& listen = line->listen_options;
  for (size_t i = 1; i < args.size(); ++i) {
    std::string parent;
    if (TakeValue(args, "--parent", &i, &parent) && parent == "stdin") {
      line->parent_stdin = true;
    } else if (args[i] == "--new-session") {
      line->new_session = true;
    } else if (!TakeValue(args, "--listen", &i, &line->listen) &&
               !TakeValue(args, "--secret-file", &i, &listen.secret.file) &&
               !TakeValue(args, "--secret-dir", &i, &listen.secret.dir) &&
               !TakeValue(args, "--advertise", &i, &listen.advertise) &&
               !TakeMetricsFlag(args, &i, line)) {
      return Usage(absl::StrCat("unknown argument \"", EscapeControls(args[i]),
                                "\"; there are --parent=stdin, --new-session, --listen, "
                                "--secret-dir, --secret-file, --advertise and --metrics-..."));
    }
  }
  if (!line->listen.empty() || !listen.secret.empty() || !listen.advertise.empty() ||
      !line->metrics_port.empty() || !line->metrics_flag.empty()) {
    const absl::Status status = FinishListen(line);
    return status.ok() ? -1 : Usage(std::string(status.message()));
  }
  if (!line->parent_stdin) return Usage(absl::StrCat("\"", args[0], "\" needs --parent=stdin"));
  return -1;
}

constexpr int kNodeStdinFd = 3;
constexpr int kTerminationSignals[] = {SIGTERM, SIGINT, SIGHUP};

// A descriptor that tells of `kTerminationSignals` and of `more`.
absl::StatusOr<UniqueFd> BlockSignals(std::initializer_list<int> more = {}) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kTerminationSignals) sigaddset(&set, number);
  for (const int number : more) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot create a signalfd");
  return fd;
}

// A static program needs the very glibc it was linked with for getaddrinfo(), and cannot load the
// OpenSSL modules that a host's configuration may name. After the node's environment was copied.
void PrepareLibraries() {
  setenv("GRPC_DNS_RESOLVER", "ares", 1);
  setenv("OPENSSL_CONF", "/dev/null", 1);
}

// Runs `mode` until it ends, and does not return: whatever a disk or peer may still hold up must
// not keep the process.
template <typename Mode>
absl::Status Serve(EventLoop* loop, int signals, Mode* mode) {
  MILLRACE_RETURN_IF_ERROR(loop->Watch(signals, EPOLLIN, [&](uint32_t) {
    signalfd_siginfo info;
    while (read(signals, &info, sizeof(info)) == sizeof(info)) {
      mode->OnSignal(static_cast<int>(info.ssi_signo));
    }
  }));
  mode->Start();
  loop->Run();
  const int exit_code = mode->Cleanup();
  std::fflush(nullptr);
  _exit(exit_code);
}

absl::Status RunAgent() {
  Agent::Options options{.version = kMillraceVersion};
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.push_back(*entry);
  PrepareLibraries();
  // Where it is open, its parent may mean it for the node. Nothing else is started with it.
  if (fcntl(kNodeStdinFd, F_SETFD, FD_CLOEXEC) == 0) options.node_stdin = kNodeStdinFd;
  // The guard first: it is a fork of a process that has one thread and no state yet.
  absl::StatusOr<Guard> guard = Guard::Start();
  if (!guard.ok()) return guard.status();
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd signals, BlockSignals({SIGTSTP, SIGCONT}));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ChildReaper> reaper,
                            ChildReaper::Create(loop.get()));
  reaper->Register(guard->pid(), [](const ExitStatus&) {});
  Agent agent(loop.get(), reaper.get(), &*guard, std::move(options));
  return Serve(loop.get(), signals.get(), &agent);
}

absl::Status RunListen(ListenOptions options) {
  options.version = kMillraceVersion;
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.push_back(*entry);
  PrepareLibraries();
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd signals, BlockSignals());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ChildReaper> reaper,
                            ChildReaper::Create(loop.get()));
  ListenMode mode(loop.get(), reaper.get(), std::move(options));
  return Serve(loop.get(), signals.get(), &mode);
}

template <typename Mode>
absl::Status RunMode() {
  PrepareLibraries();
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd signals, BlockSignals());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  Mode mode(loop.get(), {.version = kMillraceVersion});
  return Serve(loop.get(), signals.get(), &mode);
}

absl::Status RunRelay() {
  PrepareLibraries();
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd signals, BlockSignals());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  RelayMode mode(loop.get(), {});
  return Serve(loop.get(), signals.get(), &mode);
}

int Main(const std::vector<std::string>& args) {
  CommandLine line;
  const int exit_code = ParseCommandLine(args, &line);
  if (exit_code >= 0) return exit_code;
  OpenStandardStreams();
  RaiseDescriptorLimit();
  if (line.listen.empty()) LogGrpcHere();  // listen mode words it itself
  // Signals that a terminal or a notebook sends to its whole process group are for the parent; a
  // process that is to end with its parent notices the end of stdin. setsid() fails only for the
  // leader of a process group, which already has a group of its own.
  if (line.new_session || line.mode == "coordinator") (void)setsid();
  absl::Status status;
  if (!line.listen.empty()) {
    status = RunListen(std::move(line.listen_options));
  } else if (line.mode == "agent") {
    status = RunAgent();
  } else if (line.mode == "coordinator") {
    status = RunMode<CoordinatorMode>();
  } else if (line.mode == "relay") {
    status = RunRelay();
  } else {
    status = RunMode<GatewayMode>();
  }
  std::fprintf(stderr, "millrace-agent: %s\n", EscapeControls(status.message()).c_str());
  return kExitAgentFailed;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main({argv + 1, argv + argc}); }
