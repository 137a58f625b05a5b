#include "resolver/kubernetes/client/exec_credential.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"
#include "millrace/status_macros.h"

extern char** environ;

namespace millrace {
namespace {

constexpr size_t kMaxOutputBytes = size_t{1} << 20;
constexpr size_t kErrorTailBytes = 512;

absl::Status Refused(const ExecPlugin& plugin, absl::string_view why) {
  return absl::UnauthenticatedError(
      absl::StrCat("the credential plugin ", EscapeControls(plugin.command), " ", why));
}

std::string ExecInfo(const ExecPlugin& plugin) {
  Json info = {{"apiVersion", plugin.api_version},
               {"kind", "ExecCredential"},
               {"spec", {{"interactive", false}}}};
  if (!plugin.cluster_info.empty()) {
    if (absl::StatusOr<Json> cluster = ParseJson(plugin.cluster_info); cluster.ok()) {
      info["spec"]["cluster"] = *std::move(cluster);
    }
  }
  return DumpJson(info);
}

std::vector<std::string> Environment(const ExecPlugin& plugin) {
  std::vector<std::string> environment;
  std::set<std::string> names = {"KUBERNETES_EXEC_INFO"};
  for (const auto& [name, value] : plugin.env) {
    environment.push_back(absl::StrCat(name, "=", value));
    names.insert(name);
  }
  environment.push_back(absl::StrCat("KUBERNETES_EXEC_INFO=", ExecInfo(plugin)));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!names.contains(text.substr(0, text.find('=')))) environment.push_back(text);
  }
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A child with a process group of its own; killed and reaped by the destructor.
class Child {
 public:
  static absl::StatusOr<Child> Start(const ExecPlugin& plugin) {
    std::array<std::array<int, 2>, 2> pipes;
    Child child;
    std::array<UniqueFd, 2> write_ends;
    for (int i = 0; i < 2; ++i) {
      if (pipe2(pipes[i].data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
      (i == 0 ? child.out_ : child.err_) = UniqueFd(pipes[i][0]);
      write_ends[i] = UniqueFd(pipes[i][1]);
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, write_ends[0].get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, write_ends[1].get(), STDERR_FILENO);
    // Not every descriptor of a program is marked to end with exec.
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    // Our threads block signals; the child must not.
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::vector<std::string> words = {plugin.command};
    words.insert(words.end(), plugin.args.begin(), plugin.args.end());
    std::vector<std::string> environment = Environment(plugin);
    const int error = posix_spawnp(&child.pid_, plugin.command.c_str(), &actions, &attributes,
                                   Pointers(words).data(), Pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      child.pid_ = -1;
      return absl::ErrnoToStatus(error, "start");
    }
    child.pid_fd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0)));
    if (!child.pid_fd_.valid()) return absl::ErrnoToStatus(errno, "pidfd_open");
    fcntl(child.out_.get(), F_SETFL, O_NONBLOCK);
    fcntl(child.err_.get(), F_SETFL, O_NONBLOCK);
    return child;
  }

  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        pid_fd_(std::move(other.pid_fd_)),
        out_(std::move(other.out_)),
        err_(std::move(other.err_)) {}
  Child& operator=(Child&&) = delete;

  ~Child() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    Reap();
  }

  // How it ended, or nullopt if somebody else has reaped it.
  std::optional<ExitStatus> Reap() {
    int status = 0;
    pid_t reaped;
    do {
      reaped = waitpid(pid_, &status, 0);
    } while (reaped < 0 && errno == EINTR);
    pid_ = -1;
    if (reaped < 0) return std::nullopt;
    return ExitStatusFromWait(status);
  }

  [[nodiscard]] int pid_fd() const { return pid_fd_.get(); }
  UniqueFd& out() { return out_; }
  UniqueFd& err() { return err_; }

 private:
  Child() = default;

  pid_t pid_ = -1;
  UniqueFd pid_fd_;
  UniqueFd out_;
  UniqueFd err_;
};

// Reads what is there; closes `fd` at its end.
void Drain(UniqueFd& fd, std::string* text) {
  char buffer[16 << 10];
  while (fd.valid()) {
    const ssize_t count = read(fd.get(), buffer, sizeof(buffer));
    if (count > 0) {
      text->append(buffer, static_cast<size_t>(count));
      if (text->size() > kMaxOutputBytes) return;
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      fd.reset();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

struct Ended {
  std::string out;
  std::string err;
  std::optional<ExitStatus> exit;
};

absl::StatusOr<Ended> Run(const ExecPlugin& plugin, absl::Duration timeout,
                          const std::stop_token& stop) {
  const absl::Duration deadline = RealClock()->SteadyNow() + timeout;
  const UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  const std::stop_callback on_stop(stop, [fd = wake.get()] { (void)eventfd_write(fd, 1); });
  absl::StatusOr<Child> child = Child::Start(plugin);
  if (!child.ok()) {
    return Refused(plugin, absl::StrCat("cannot be run: ", child.status().message(),
                                        plugin.install_hint.empty() ? "" : "; ",
                                        Ellipsize(FirstLine(plugin.install_hint), 300)));
  }
  Ended ended;
  for (;;) {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    const absl::Duration left = deadline - RealClock()->SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "the credential plugin ", EscapeControls(plugin.command), " has not ended within ",
          absl::FormatDuration(timeout), " and was killed; it must not wait for a person"));
    }
    std::array<pollfd, 4> fds = {{{child->pid_fd(), POLLIN, 0},
                                  {wake.get(), POLLIN, 0},
                                  {child->out().get(), POLLIN, 0},
                                  {child->err().get(), POLLIN, 0}}};
    const int64_t wait_ms = absl::ToInt64Milliseconds(std::min(left, absl::Minutes(1))) + 1;
    if (poll(fds.data(), fds.size(), static_cast<int>(wait_ms)) < 0 && errno != EINTR) {
      return absl::ErrnoToStatus(errno, "poll");
    }
    Drain(child->out(), &ended.out);
    Drain(child->err(), &ended.err);
    if (std::max(ended.out.size(), ended.err.size()) > kMaxOutputBytes) {
      return Refused(plugin, absl::StrCat("printed more than ", kMaxOutputBytes, " bytes"));
    }
    if ((fds[0].revents & POLLIN) != 0) break;  // what it left behind may hold the pipes open
  }
  Drain(child->out(), &ended.out);
  Drain(child->err(), &ended.err);
  ended.exit = child->Reap();
  return ended;
}

absl::StatusOr<ExecCredential> ParseExecCredential(const ExecPlugin& plugin, const Json& object) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string kind, GetStringOr(object, "kind", ""));
  MILLRACE_ASSIGN_OR_RETURN(const std::string version, GetStringOr(object, "apiVersion", ""));
  if (kind != "ExecCredential" || version != plugin.api_version) {
    return absl::InvalidArgumentError(absl::StrCat("kind ExecCredential of ", plugin.api_version,
                                                   " expected, found \"", kind, "\" of \"", version,
                                                   "\""));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Json* status, GetObject(object, "status"));
  ExecCredential credential;
  MILLRACE_ASSIGN_OR_RETURN(credential.token, GetStringOr(*status, "token", "", "status"));
  MILLRACE_ASSIGN_OR_RETURN(credential.client_certificate_pem,
                            GetStringOr(*status, "clientCertificateData", "", "status"));
  MILLRACE_ASSIGN_OR_RETURN(credential.client_key_pem,
                            GetStringOr(*status, "clientKeyData", "", "status"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string expires,
                            GetStringOr(*status, "expirationTimestamp", "", "status"));
  if (credential.client_certificate_pem.empty() != credential.client_key_pem.empty()) {
    return absl::InvalidArgumentError(
        "status.clientCertificateData and status.clientKeyData come together or not at all");
  }
  if (credential.token.empty() && credential.client_certificate_pem.empty()) {
    return absl::InvalidArgumentError("status holds neither a token nor a client certificate");
  }
  std::string error;
  if (!expires.empty() &&
      !absl::ParseTime(absl::RFC3339_full, expires, &credential.expires, &error)) {
    return absl::InvalidArgumentError("status.expirationTimestamp is no time of RFC 3339");
  }
  return credential;
}

}  // namespace

absl::StatusOr<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, absl::Duration timeout,
                                             std::stop_token stop) {
  MILLRACE_ASSIGN_OR_RETURN(const Ended ended, Run(plugin, timeout, stop));
  if (ended.exit.has_value() && !ended.exit->ok()) {
    absl::string_view tail = absl::StripAsciiWhitespace(ended.err);
    if (tail.size() > kErrorTailBytes) tail.remove_prefix(tail.size() - kErrorTailBytes);
    return Refused(plugin, absl::StrCat("failed (", DescribeExit(*ended.exit), ")",
                                        tail.empty() ? "" : ": ", EscapeControls(tail)));
  }
  // What it printed may hold a secret: it is never quoted.
  const absl::StatusOr<Json> object = ParseJson(ended.out);
  if (!object.ok())
    return Refused(plugin, "printed no ExecCredential, but something that is not JSON");
  absl::StatusOr<ExecCredential> credential = ParseExecCredential(plugin, *object);
  if (!credential.ok()) {
    return Refused(plugin, absl::StrCat("printed no valid ExecCredential: ",
                                        EscapeControls(credential.status().message())));
  }
  return credential;
}

}  // namespace millrace
