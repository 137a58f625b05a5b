#include "core/agent/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/line_reader.h"
#include "core/base/thread.h"

namespace millrace {
namespace {

void CloseAllBut(int keep) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3 && null >= 0; ++fd) dup2(null, fd);
#ifdef SYS_close_range
  syscall(SYS_close_range, 3u, static_cast<unsigned>(keep - 1), 0u);
  syscall(SYS_close_range, static_cast<unsigned>(keep + 1), ~0u, 0u);
#endif
}

[[noreturn]] void RunGuard(int orders) {
  setpgid(0, 0);
  SetCurrentThreadName("millrace-guard");
  // Signals of a shutdown are for the agent; the guard ends when the agent has.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  CloseAllBut(orders);
  pid_t group = 0;
  std::vector<std::string> paths;
  LineReader lines;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(orders, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    lines.Append({buffer, static_cast<size_t>(got)});
    for (auto line = lines.Next(); line.ok() && line->has_value(); line = lines.Next()) {
      absl::string_view text = **line;
      if (text == "dismiss") _exit(0);
      if (absl::StartsWith(text, "p ")) paths.emplace_back(text.substr(2));
      if (absl::StartsWith(text, "g ") && !absl::SimpleAtoi(text.substr(2), &group)) group = 0;
    }
  }
  if (group > 1) killpg(group, SIGKILL);
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) (void)remove(path->c_str());
  _exit(0);
}

}  // namespace

absl::StatusOr<Guard> Guard::Start() {
  // A socket rather than a pipe, for MSG_NOSIGNAL.
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ErrnoToStatus(errno, "cannot create a socket for the guard");
  }
  UniqueFd agent_end(fds[0]);
  const UniqueFd guard_end(fds[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot fork the guard");
  if (pid == 0) {
    agent_end.reset();
    RunGuard(guard_end.get());
  }
  return Guard(std::move(agent_end), pid);
}

void Guard::Order(const std::string& line) {
  if (!orders_.valid()) return;
  // A few hundred bytes in all fit the socket's buffer, so this does not block.
  (void)!send(orders_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Guard::SetGroup(pid_t group) { Order(absl::StrCat("g ", group, "\n")); }

void Guard::AddPath(absl::string_view path) {
  if (!absl::StrContains(path, "\n")) Order(absl::StrCat("p ", path, "\n"));
}

void Guard::Dismiss() {
  if (!orders_.valid()) return;
  Order("dismiss\n");
  orders_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace millrace
