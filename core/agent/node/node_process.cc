#include "core/agent/node/node_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "core/process/descriptor_limit.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kTermToKill = absl::Seconds(1);

enum class Stage : int { kChdir = 1, kDescriptors = 2, kExec = 3 };

// What the child writes into the exec pipe when it fails.
struct Failure {
  int stage;
  int error;
};

// Everything the child needs, made before fork: after it only async-signal-safe calls are allowed.
struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* env;
  const char* working_dir;  // nullptr: stay
  int stdin_fd;
  int stdout_fd;
  int stderr_fd;
  const int* inherited;  // descriptors, all of them >= lowest_free
  int inherited_count;
  int result_fd;
  int lowest_free;  // 3 + inherited_count
  pid_t parent;
};

[[noreturn]] void Fail(const ChildPlan& plan, Stage stage) {
  const Failure failure{static_cast<int>(stage), errno};
  (void)!write(plan.result_fd, &failure, sizeof(failure));
  _exit(127);
}

// Marks every descriptor from `first` close-on-exec, so that the result pipe lives until exec.
void CloseOnExecFrom(int first) {
#ifdef SYS_close_range
  constexpr unsigned kCloseRangeCloexec = 1u << 2;
  if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0u, kCloseRangeCloexec) == 0) return;
#endif
  // Linux before 5.11.
  long limit = sysconf(_SC_OPEN_MAX);
  if (limit < 0 || limit > 65536) limit = 65536;
  for (int fd = first; fd < limit; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  }
}

void ResetSignals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);  // the agent died before the line above
  ResetSignals();
  if (dup2(plan.stdin_fd, 0) < 0 || dup2(plan.stdout_fd, 1) < 0 || dup2(plan.stderr_fd, 2) < 0) {
    Fail(plan, Stage::kDescriptors);
  }
  for (int i = 0; i < plan.inherited_count; ++i) {
    if (dup2(plan.inherited[i], NodeProcess::kFirstInheritedFd + i) < 0) {
      Fail(plan, Stage::kDescriptors);
    }
  }
  CloseOnExecFrom(plan.lowest_free);
  RestoreDescriptorLimit();
  if (plan.working_dir != nullptr && chdir(plan.working_dir) != 0) Fail(plan, Stage::kChdir);
  execve(plan.program, plan.argv, plan.env);
  Fail(plan, Stage::kExec);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// A copy of `fd` with a number of at least `lowest`, so that dup2 onto low numbers cannot hit it.
absl::StatusOr<UniqueFd> MoveUp(int fd, int lowest) {
  UniqueFd moved(fcntl(fd, F_DUPFD_CLOEXEC, lowest));
  if (!moved.valid()) return absl::ErrnoToStatus(errno, "cannot duplicate a descriptor");
  return moved;
}

size_t LargestBytes(const std::vector<std::string>& strings) {
  size_t largest = 0;
  for (const std::string& text : strings) largest = std::max(largest, text.size());
  return largest;
}

// What exec's errno means for the person who named the program.
absl::Status ExecError(const NodeProcess::Options& options, int error) {
  const std::string what =
      absl::StrCat("cannot run \"", options.program, "\" on host ", LocalHostname(), ": ");
  const std::string full = JoinPath(options.working_dir, options.program);
  struct stat info = {};
  const bool exists = stat(full.c_str(), &info) == 0;
  switch (error) {
    case ENOENT:
      if (exists) {
        return absl::NotFoundError(absl::StrCat(
            what,
            "the file exists, but the interpreter it names (its \"#!\" line, or the dynamic "
            "loader of a program for another system) does not"));
      }
      return absl::NotFoundError(
          absl::StrCat(what, "no such file; ship it with the job or install it on every host"));
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(what, "a part of the path is no folder"));
    case EACCES:
      if (exists && S_ISDIR(info.st_mode)) {
        return absl::PermissionDeniedError(
            absl::StrCat(what, "it is a folder; name the program in it"));
      }
      if (exists && (info.st_mode & 0111) == 0) {
        return absl::PermissionDeniedError(
            absl::StrCat(what, "it is not executable; run chmod +x ", full));
      }
      return absl::PermissionDeniedError(absl::StrCat(
          what,
          "permission denied; run chmod +x on it, let this user search its folders, and see "
          "that the file system is not mounted noexec"));
    case ENOEXEC:
      return absl::InvalidArgumentError(absl::StrCat(
          what,
          "no executable format; it is for another machine, or a script without \"#!\" line"));
    case E2BIG:
      return absl::InvalidArgumentError(
          absl::StrCat(what, "arguments and environment are too large (the largest argument has ",
                       LargestBytes(options.argv), " bytes, the largest variable ",
                       LargestBytes(options.env), "; Linux allows 131071 each)"));
    case ETXTBSY:
      return absl::UnavailableError(absl::StrCat(what, "it is open for writing"));
    default:
      return absl::ErrnoToStatus(error, absl::StrCat(what, "exec failed"));
  }
}

absl::Status LaunchError(const NodeProcess::Options& options, const Failure& failure) {
  if (failure.stage == static_cast<int>(Stage::kChdir)) {
    return absl::ErrnoToStatus(
        failure.error, absl::StrCat("cannot enter the working directory \"", options.working_dir,
                                    "\" on host ", LocalHostname()));
  }
  if (failure.stage == static_cast<int>(Stage::kDescriptors)) {
    return absl::ErrnoToStatus(failure.error, "cannot set up the node's descriptors");
  }
  return ExecError(options, failure.error);
}

}  // namespace

absl::StatusOr<std::string> ResolveProgram(absl::string_view program, absl::string_view working_dir,
                                           absl::string_view path) {
  if (program.empty()) return absl::InvalidArgumentError("the node program has no name");
  if (absl::StrContains(program, "/")) return std::string(program);
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    std::string candidate = JoinPath(folder, program);
    const std::string from_here = JoinPath(working_dir, candidate);
    struct stat info = {};
    if (stat(from_here.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        access(from_here.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return absl::NotFoundError(
      absl::StrCat("cannot run \"", Ellipsize(EscapeControls(program), 300), "\" on host ",
                   LocalHostname(), ": PATH has no such program; name it with its folder (\"./",
                   program, "\" for the working directory)"));
}

NodeProcess::NodeProcess(EventLoop* loop, ChildReaper* reaper, Callbacks callbacks)
    : loop_(loop), reaper_(reaper), callbacks_(std::move(callbacks)) {}

NodeProcess::~NodeProcess() {
  loop_->Cancel(&stop_timer_);
  if (exec_result_.valid()) loop_->Unwatch(exec_result_.get());
  if (pid_ > 0) {
    SignalGroup(SIGKILL);
    reaper_->Unregister(pid_);
  }
}

absl::Status NodeProcess::Launch(const Options& options) {
  MILLRACE_CHECK(launched_pid_ == 0) << "launched twice";
  options_ = options;
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "cannot open /dev/null");
  MILLRACE_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  MILLRACE_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  MILLRACE_ASSIGN_OR_RETURN(Pipe result, MakePipe());

  const int lowest_free = kFirstInheritedFd + static_cast<int>(options.inherited_fds.size());
  std::vector<UniqueFd> moved;
  std::vector<int> inherited;
  for (const int fd : options.inherited_fds) {
    MILLRACE_ASSIGN_OR_RETURN(UniqueFd copy, MoveUp(fd, lowest_free));
    inherited.push_back(copy.get());
    moved.push_back(std::move(copy));
  }
  // These are moved up too, in case the agent was started with low descriptors closed.
  MILLRACE_ASSIGN_OR_RETURN(
      const UniqueFd stdin_fd,
      MoveUp(options.stdin_fd >= 0 ? options.stdin_fd : null.get(), lowest_free));
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd stdout_fd, MoveUp(out.write.get(), lowest_free));
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd stderr_fd, MoveUp(err.write.get(), lowest_free));
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd result_fd, MoveUp(result.write.get(), lowest_free));
  result.write.reset();

  const std::vector<char*> argv = Pointers(options.argv);
  const std::vector<char*> env = Pointers(options.env);
  const ChildPlan plan{
      .program = options.program.c_str(),
      .argv = argv.data(),
      .env = env.data(),
      .working_dir = options.working_dir.empty() ? nullptr : options.working_dir.c_str(),
      .stdin_fd = stdin_fd.get(),
      .stdout_fd = stdout_fd.get(),
      .stderr_fd = stderr_fd.get(),
      .inherited = inherited.data(),
      .inherited_count = static_cast<int>(inherited.size()),
      .result_fd = result_fd.get(),
      .lowest_free = lowest_free,
      .parent = getpid(),
  };
  // No signal may run the agent's handlers in the child.
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  const pid_t pid = fork();
  if (pid == 0) RunChild(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (pid < 0) return absl::ErrnoToStatus(fork_error, "cannot fork");

  setpgid(pid, pid);  // as the child does: whoever comes first
  pid_ = launched_pid_ = pid;
  stdout_ = std::move(out.read);
  stderr_ = std::move(err.read);
  for (const UniqueFd* fd : {&stdout_, &stderr_, &result.read}) {
    fcntl(fd->get(), F_SETFL, fcntl(fd->get(), F_GETFL) | O_NONBLOCK);
  }
  exec_result_ = std::move(result.read);
  reaper_->Register(pid, [this](const ExitStatus& status) { OnChange(status); });
  return loop_->Watch(exec_result_.get(), EPOLLIN, [this](uint32_t) { FinishExec(); });
}

void NodeProcess::FinishExec() {
  Failure failure;
  const ssize_t got = read(exec_result_.get(), &failure, sizeof(failure));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  loop_->Unwatch(exec_result_.get());
  exec_result_.reset();
  if (got == sizeof(failure)) {
    launch_failed_ = true;
    callbacks_.on_launch_failed(LaunchError(options_, failure));
    return;
  }
  callbacks_.on_started();
}

void NodeProcess::OnChange(const ExitStatus& status) {
  if (!status.ended()) {
    if (!launch_failed_) callbacks_.on_change(status);
    return;
  }
  // The zombie still holds the group's number, so this cannot hit strangers.
  SignalGroup(SIGKILL);
  pid_ = 0;
  loop_->Cancel(&stop_timer_);
  if (exec_result_.valid()) FinishExec();
  if (!launch_failed_) callbacks_.on_change(status);
}

void NodeProcess::Stop(absl::Duration grace, bool sigterm_now) {
  if (pid_ <= 0) return;
  if (sigterm_now || grace <= absl::ZeroDuration()) {
    Terminate();
    loop_->Cancel(&stop_timer_);
    stop_timer_ = loop_->After(std::max(grace, kTermToKill), [this] { Kill(); });
    return;
  }
  if (stop_timer_ != EventLoop::kNoTimer) return;
  stop_timer_ = loop_->After(grace, [this] {
    Terminate();
    stop_timer_ = loop_->After(kTermToKill, [this] { Kill(); });
  });
}

void NodeProcess::Terminate() {
  if (std::exchange(term_sent_, true)) return;
  SignalGroup(SIGTERM);
  SignalGroup(SIGCONT);  // a stopped process would see SIGTERM only after it is continued
}

void NodeProcess::Kill() { SignalGroup(SIGKILL); }

bool NodeProcess::HasEnded() const {
  if (pid_ <= 0) return launched_pid_ > 0;
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

void NodeProcess::SignalGroup(int signal) {
  if (pid_ <= 0) return;
  if (killpg(pid_, signal) != 0 && errno == ESRCH) kill(pid_, signal);
}

}  // namespace millrace
