#include "testing/bench/json_child.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 declares these for C only
}

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "millrace/status_macros.h"

extern char** environ;

namespace millrace::bench {
namespace {

constexpr int kEndWaitMs = 10'000;

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe");
  return std::make_pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Appends what one read gives; false at the end.
bool ReadInto(int fd, LineReader* reader) {
  char buffer[1 << 16];
  ssize_t n = 0;
  do {
    n = ::read(fd, buffer, sizeof(buffer));
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return false;
  reader->Append(absl::string_view(buffer, static_cast<size_t>(n)));
  return true;
}

}  // namespace

// ---- the parent's side --------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<JsonChild>> JsonChild::Start(const std::string& program) {
  ::signal(SIGPIPE, SIG_IGN);
  MILLRACE_ASSIGN_OR_RETURN(auto in, MakePipe());
  MILLRACE_ASSIGN_OR_RETURN(auto out, MakePipe());
  std::unique_ptr<JsonChild> child(new JsonChild());
  child->program_ = program;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in.first.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out.second.get(), STDOUT_FILENO);
  char* const argv[] = {child->program_.data(), nullptr};
  const int error = ::posix_spawn(&child->pid_, argv[0], &files, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("starting ", program));
  child->pid_fd_.reset(::pidfd_open(child->pid_, 0));
  child->in_ = std::move(in.second);
  child->out_ = std::move(out.first);
  return child;
}

absl::Status JsonChild::Send(const Json& message) {
  if (WriteAll(in_.get(), DumpJson(message) + "\n")) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(program_, " is gone"));
}

absl::StatusOr<Json> JsonChild::Receive(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<absl::string_view> line, reader_.Next());
    if (line.has_value()) {
      MILLRACE_ASSIGN_OR_RETURN(Json message, ParseJson(*line));
      MILLRACE_ASSIGN_OR_RETURN(const std::string error, GetStringOr(message, "error", ""));
      if (!error.empty()) return absl::AbortedError(absl::StrCat(program_, ": ", error));
      return message;
    }
    const absl::Duration left = deadline - absl::Now();
    pollfd fd{out_.get(), POLLIN, 0};
    if (left <= absl::ZeroDuration() ||
        ::poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(program_, " said nothing for ", absl::FormatDuration(timeout)));
    }
    if (fd.revents != 0 && !ReadInto(out_.get(), &reader_)) {
      return absl::UnavailableError(absl::StrCat(program_, " has ended"));
    }
  }
}

absl::StatusOr<Json> JsonChild::Ask(const Json& message, absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(Send(message));
  return Receive(timeout);
}

void JsonChild::End() {
  if (pid_ == 0) return;
  in_.reset();
  pollfd fd{pid_fd_.get(), POLLIN, 0};
  if (::poll(&fd, 1, kEndWaitMs) == 0) ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

// ---- the child's side ---------------------------------------------------------------------------

std::optional<Json> JsonParent::Receive() {
  while (true) {
    const absl::StatusOr<std::optional<absl::string_view>> line = reader_.Next();
    if (!line.ok()) return std::nullopt;
    if (line->has_value()) {
      absl::StatusOr<Json> message = ParseJson(**line);
      if (!message.ok()) return std::nullopt;
      return *std::move(message);
    }
    if (!ReadInto(STDIN_FILENO, &reader_)) return std::nullopt;
  }
}

void JsonParent::Send(const Json& message) { WriteAll(STDOUT_FILENO, DumpJson(message) + "\n"); }

int JsonParent::ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  Send({{"error", status.ToString()}});
  return 1;
}

void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace millrace::bench
