#include "core/agent/loop/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/line_reader.h"
#include "core/base/thread.h"

namespace millrace {
namespace {

// A process may have forked while the others were looked through.
constexpr int kMaxKillRounds = 20;
constexpr int kMaxRemoveRounds = 20;

bool HasMark(absl::string_view environment, absl::string_view mark) {
  for (const absl::string_view entry : absl::StrSplit(environment, '\0')) {
    if (entry == mark) return true;
  }
  return false;
}

// Kills every process that was started with `mark`. Returns how many there were.
int KillMarked(absl::string_view mark) {
  int killed = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == getpid()) continue;
    // Empty for a zombie, unreadable for other users' processes.
    const absl::StatusOr<std::string> environment = ReadFile(entry.path().string() + "/environ");
    if (environment.ok() && HasMark(*environment, mark) && kill(pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

// Somebody else (the agent's parent) may be removing it too, which makes either fail half-way.
void RemoveTree(const std::string& path) {
  for (int round = 0; round < kMaxRemoveRounds; ++round) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error) return;
  }
}

void CloseAllBut(int keep) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3 && null >= 0; ++fd) dup2(null, fd);
#ifdef SYS_close_range
  syscall(SYS_close_range, 3u, static_cast<unsigned>(keep - 1), 0u);
  syscall(SYS_close_range, static_cast<unsigned>(keep + 1), ~0u, 0u);
#endif
}

constexpr size_t kMaxFdsInAMessage = 16;

// As read(), and takes the descriptors that come along.
ssize_t Receive(int orders, char* buffer, size_t size, std::vector<UniqueFd>* fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsInAMessage * sizeof(int))];
  iovec bytes = {.iov_base = buffer, .iov_len = size};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(orders, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
      fds->push_back(UniqueFd(fd));
    }
  }
  return got;
}

[[noreturn]] void RunGuard(int orders) {
  setpgid(0, 0);
  SetCurrentThreadName("millrace-guard");
  // Signals of a shutdown are for the agent; the guard ends when the agent has.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  CloseAllBut(orders);
  pid_t group = 0;
  std::string mark;
  std::vector<std::pair<char, std::string>> paths;  // 'p' or 't'
  std::vector<UniqueFd> received;                   // with the line "h" that is being read
  std::map<std::string, std::vector<UniqueFd>> held;
  LineReader lines;
  char buffer[4096];
  for (;;) {
    const ssize_t got = Receive(orders, buffer, sizeof(buffer), &received);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    lines.Append({buffer, static_cast<size_t>(got)});
    for (auto line = lines.Next(); line.ok() && line->has_value(); line = lines.Next()) {
      absl::string_view text = **line;
      if (text == "dismiss") _exit(0);
      if (absl::StartsWith(text, "p ") || absl::StartsWith(text, "t ")) {
        paths.emplace_back(text[0], text.substr(2));
      }
      if (absl::StartsWith(text, "h ")) {
        held[std::string(text.substr(2))] = std::exchange(received, {});
      }
      if (absl::StartsWith(text, "d ")) held.erase(std::string(text.substr(2)));
      if (absl::StartsWith(text, "m ")) mark = std::string(text.substr(2));
      if (absl::StartsWith(text, "g ") && !absl::SimpleAtoi(text.substr(2), &group)) group = 0;
    }
  }
  if (group > 1) killpg(group, SIGKILL);
  for (int round = 0; !mark.empty() && round < kMaxKillRounds && KillMarked(mark) > 0; ++round) {
  }
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    if (path->first == 't') {
      RemoveTree(path->second);
    } else {
      (void)remove(path->second.c_str());
    }
  }
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

void Guard::SetMark(absl::string_view mark) {
  if (!absl::StrContains(mark, "\n")) Order(absl::StrCat("m ", mark, "\n"));
}

void Guard::AddPath(absl::string_view path) {
  if (!absl::StrContains(path, "\n")) Order(absl::StrCat("p ", path, "\n"));
}

void Guard::AddTree(absl::string_view path) {
  if (!absl::StrContains(path, "\n")) Order(absl::StrCat("t ", path, "\n"));
}

void Guard::Hold(absl::string_view name, const std::vector<int>& fds) {
  if (!orders_.valid() || fds.empty() || fds.size() > kMaxFdsInAMessage ||
      absl::StrContains(name, "\n")) {
    return;
  }
  const std::string line = absl::StrCat("h ", name, "\n");
  iovec bytes = {.iov_base = const_cast<char*>(line.data()), .iov_len = line.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsInAMessage * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  (void)!sendmsg(orders_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Guard::Drop(absl::string_view name) {
  if (!absl::StrContains(name, "\n")) Order(absl::StrCat("d ", name, "\n"));
}

void Guard::Dismiss() {
  if (!orders_.valid()) return;
  Order("dismiss\n");
  orders_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace millrace
