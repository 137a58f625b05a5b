#include "core/launch/piped_child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "millrace/status_macros.h"

extern char** environ;

namespace millrace {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr int kInherited = 3;  // the child's number of `more`

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe");
  return std::make_pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

void SetNonBlocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// In a process group of its own, with default signal dispositions and an empty mask, whatever the
// driver's are.
absl::StatusOr<pid_t> SpawnProcess(const std::string& path, const std::vector<std::string>& args,
                                   int in, int out, int err, int more,
                                   const std::vector<std::string>* environment) {
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> entries;
  if (environment != nullptr) {
    for (const std::string& entry : *environment)
      entries.push_back(const_cast<char*>(entry.c_str()));
    entries.push_back(nullptr);
  }

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  if (more >= 0) posix_spawn_file_actions_adddup2(&files, more, kInherited);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, path.c_str(), &files, &attributes, argv.data(),
                                  environment == nullptr ? environ : entries.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("starting ", path));
  return pid;
}

}  // namespace

absl::StatusOr<PipedChild> PipedChild::Spawn(const std::string& path,
                                             const std::vector<std::string>& args,
                                             const std::vector<std::string>* environment,
                                             int more) {
  PipedChild child;
  MILLRACE_ASSIGN_OR_RETURN(auto in, MakePipe());
  MILLRACE_ASSIGN_OR_RETURN(auto out, MakePipe());
  MILLRACE_ASSIGN_OR_RETURN(auto err, MakePipe());
  // Where none of the child's descriptors comes to stand before it is copied.
  UniqueFd copy;
  if (more >= 0) {
    copy.reset(::fcntl(more, F_DUPFD_CLOEXEC, kInherited + 1));
    if (!copy.valid()) return absl::ErrnoToStatus(errno, "duplicating a descriptor");
  }
  MILLRACE_ASSIGN_OR_RETURN(child.pid, SpawnProcess(path, args, in.first.get(), out.second.get(),
                                                    err.second.get(), copy.get(), environment));
  // By the kernel's number: glibc has a name for it since 2.36, and the wheel asks for less.
  child.pid_fd.reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
  if (!child.pid_fd.valid()) return absl::ErrnoToStatus(errno, "opening a process descriptor");
  child.in = std::move(in.second);
  child.out = std::move(out.first);
  child.err = std::move(err.first);
  SetNonBlocking(child.out.get());
  SetNonBlocking(child.err.get());
  return child;
}

void PipedChild::Signal(int signal) const {
  if (pid_fd.valid()) syscall(SYS_pidfd_send_signal, pid_fd.get(), signal, nullptr, 0);
}

ExitStatus PipedChild::Reap() const {
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(P_PIDFD, static_cast<id_t>(pid_fd.get()), &info, WEXITED);
  } while (result != 0 && errno == EINTR);
  // ECHILD: the driver ignores SIGCHLD, or reaps all children itself.
  if (result != 0) return {};
  return ExitStatusFromWaitId(info.si_code, info.si_status);
}

bool ReadAvailable(int fd, LineReader* lines) {
  char buffer[kReadBytes];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n > 0) {
      lines->Append(absl::string_view(buffer, static_cast<size_t>(n)));
      if (static_cast<size_t>(n) < sizeof(buffer)) return true;
    } else if (n == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

}  // namespace millrace
