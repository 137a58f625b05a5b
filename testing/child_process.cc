#include "testing/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 declares these for C only
}

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

extern char** environ;

namespace millrace {
namespace {

// Returns false once `deadline` has passed.
bool WaitReadable(int fd, absl::Time deadline) {
  while (true) {
    const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
    const absl::Duration capped = std::min(left, absl::Hours(1));
    pollfd poll_fd{fd, POLLIN, 0};
    const int wait_ms = static_cast<int>(absl::ToInt64Milliseconds(capped + absl::Milliseconds(1)));
    if (::poll(&poll_fd, 1, wait_ms) > 0) return true;
    if (left == absl::ZeroDuration()) return false;
  }
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& args, int out) {
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("starting ", args[0]));
  return pid;
}

}  // namespace

std::string RunfilePath(absl::string_view path) {
  std::string root = EnvOr("TEST_SRCDIR", EnvOr("RUNFILES_DIR", ""));
  if (root.empty()) root = absl::StrCat(SelfExecutablePath().value_or(""), ".runfiles");
  return absl::StrCat(root, "/millrace/", path);
}

ChildProcess::ChildProcess(pid_t pid, UniqueFd pid_fd, UniqueFd out)
    : pid_(pid), pid_fd_(std::move(pid_fd)), out_(std::move(out)) {}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& argv) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe");
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  MILLRACE_ASSIGN_OR_RETURN(const pid_t pid, Spawn(argv, write_end.get()));
  UniqueFd pid_fd(::pidfd_open(pid, 0));
  const int error = errno;
  std::unique_ptr<ChildProcess> child(
      new ChildProcess(pid, std::move(pid_fd), std::move(read_end)));
  if (!child->pid_fd_.valid()) return absl::ErrnoToStatus(error, "opening a process descriptor");
  return child;
}

ChildProcess::~ChildProcess() {
  if (reaped_) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<std::string> ChildProcess::WaitForLine(absl::string_view prefix,
                                                      absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<absl::string_view> line, reader_.Next());
      if (!line.has_value()) break;
      if (absl::StartsWith(*line, prefix)) return std::string(*line);
      lines_.emplace_back(*line);
    }
    if (!WaitReadable(out_.get(), deadline)) {
      return absl::DeadlineExceededError(absl::StrCat("no line '", prefix, "' in ",
                                                      absl::FormatDuration(timeout), ", but:\n",
                                                      absl::StrJoin(lines_, "\n")));
    }
    char buffer[4096];
    const ssize_t n = ::read(out_.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return absl::OutOfRangeError(absl::StrCat("the end instead of a line '", prefix,
                                                "', after:\n", absl::StrJoin(lines_, "\n")));
    }
    reader_.Append(absl::string_view(buffer, static_cast<size_t>(n)));
  }
}

void ChildProcess::Kill(int signal) const {
  if (!reaped_) ::kill(pid_, signal);
}

absl::StatusOr<ExitStatus> ChildProcess::Wait(absl::Duration timeout) {
  if (!WaitReadable(pid_fd_.get(), absl::Now() + timeout)) {
    return absl::DeadlineExceededError(
        absl::StrCat("process ", pid_, " still runs after ", absl::FormatDuration(timeout)));
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "waiting for a child");
  }
  reaped_ = true;
  return ExitStatusFromWait(status);
}

}  // namespace millrace
