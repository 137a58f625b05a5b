#include "core/agent/loop/child_reaper.h"

#include <dirent.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// The pids of all children of this process, from /proc/self/task/*/children. Empty on a kernel
// without CONFIG_PROC_CHILDREN.
std::vector<pid_t> ListChildren() {
  std::vector<pid_t> pids;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return pids;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const auto text = ReadFile(absl::StrCat("/proc/self/task/", entry->d_name, "/children"));
    if (!text.ok()) continue;
    for (const absl::string_view word :
         absl::StrSplit(*text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
      pid_t pid = 0;
      if (absl::SimpleAtoi(word, &pid) && pid > 0) pids.push_back(pid);
    }
  }
  closedir(tasks);
  return pids;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildReaper>> ChildReaper::Create(EventLoop* loop) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  // A parent may have left SIGCHLD ignored; then children would vanish without a status.
  signal(SIGCHLD, SIG_DFL);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) {
    return absl::InternalError("cannot block SIGCHLD");
  }
  UniqueFd signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return absl::ErrnoToStatus(errno, "cannot create a signalfd");
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return absl::ErrnoToStatus(errno, "cannot become a child subreaper");
  }
  const int fd = signals.get();
  auto reaper = std::unique_ptr<ChildReaper>(new ChildReaper(loop, std::move(signals)));
  MILLRACE_RETURN_IF_ERROR(
      loop->Watch(fd, EPOLLIN, [self = reaper.get()](uint32_t) { self->Reap(); }));
  return reaper;
}

ChildReaper::ChildReaper(EventLoop* loop, UniqueFd signals)
    : loop_(loop), signals_(std::move(signals)) {}

ChildReaper::~ChildReaper() { loop_->Unwatch(signals_.get()); }

void ChildReaper::Register(pid_t pid, Callback callback) {
  children_[pid] = std::make_shared<Callback>(std::move(callback));
}

int ChildReaper::KillOrphans() {
  int killed = 0;
  for (const pid_t pid : ListChildren()) {
    if (children_.contains(pid)) continue;
    if (kill(pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

void ChildReaper::EndOrphans(absl::Duration timeout) {
  constexpr absl::Duration kPause = absl::Milliseconds(5);
  const absl::Duration deadline = RealClock()->SteadyNow() + timeout;
  while (KillOrphans() > 0 && RealClock()->SteadyNow() < deadline) {
    absl::SleepFor(kPause);
    Reap();
  }
}

void ChildReaper::Reap() {
  signalfd_siginfo unused;
  while (read(signals_.get(), &unused, sizeof(unused)) > 0) {
  }
  constexpr int kStates = WEXITED | WSTOPPED | WCONTINUED;
  for (;;) {
    // Looked at first and taken after the callback, which may still need the pid (see Register).
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, kStates | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    const ExitStatus status = ExitStatusFromWaitId(info.si_code, info.si_status);
    const auto found = children_.find(info.si_pid);
    if (found != children_.end()) {
      const std::shared_ptr<Callback> callback = found->second;
      if (status.ended()) children_.erase(found);
      (*callback)(status);
    }
    siginfo_t taken = {};
    const int which = status.ended()                                ? WEXITED
                      : status.kind == ExitStatus::Kind::kContinued ? WCONTINUED
                                                                    : WSTOPPED;
    if (waitid(P_PID, static_cast<id_t>(info.si_pid), &taken, which | WNOHANG) != 0 &&
        errno == ECHILD) {
      continue;
    }
  }
}

}  // namespace millrace
