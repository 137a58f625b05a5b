#include "core/agent/agent_harness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/process/process.h"

namespace millrace {
namespace {

constexpr absl::Duration kWait = absl::Seconds(40);

int PollIn(int fd, absl::Time deadline) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  const int64_t left_ms = absl::ToInt64Milliseconds(deadline - absl::Now());
  return poll(&ready, 1, static_cast<int>(left_ms < 0 ? 0 : left_ms));
}

}  // namespace

std::string TestFile(absl::string_view name) {
  return JoinPath(JoinPath(EnvOr("TEST_SRCDIR", "."), EnvOr("TEST_WORKSPACE", "millrace")),
                  absl::StrCat("core/agent/", name));
}

bool WaitGone(pid_t pid, absl::Duration timeout) {
  const UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return !fd.valid() || PollIn(fd.get(), absl::Now() + timeout) > 0;
}

AgentHarness::AgentHarness(const std::vector<std::string>& args,
                           const std::vector<std::string>& extra_env)
    : AgentHarness("millrace-agent", args, extra_env) {}

AgentHarness::AgentHarness(absl::string_view program, const std::vector<std::string>& args,
                           const std::vector<std::string>& extra_env) {
  int in[2];
  int out[2];
  MILLRACE_CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
  stderr_file_.reset(memfd_create("stderr", MFD_CLOEXEC));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, stderr_file_.get(), 2);
  std::vector<std::string> texts = {TestFile(program)};
  texts.insert(texts.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  std::vector<std::string> env_texts(extra_env);
  for (char** entry = environ; *entry != nullptr; ++entry) env_texts.emplace_back(*entry);
  std::vector<char*> env;
  for (std::string& text : env_texts) env.push_back(text.data());
  env.push_back(nullptr);
  const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), env.data());
  MILLRACE_CHECK(error == 0) << "cannot spawn " << argv[0] << ": " << error;
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  stdin_.reset(in[1]);
  stdout_.reset(out[0]);
}

AgentHarness::~AgentHarness() {
  if (reaped_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void AgentHarness::Send(absl::string_view line) {
  const std::string bytes = absl::StrCat(line, "\n");
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = write(stdin_.get(), bytes.data() + sent, bytes.size() - sent);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

void AgentHarness::Start(const Json& params) {
  Send(DumpJson(Json{{"id", "start"}, {"method", "start"}, {"params", params}}));
}

Json AgentHarness::ReadLine() {
  const absl::Time deadline = absl::Now() + kWait;
  for (;;) {
    const auto line = reader_.Next();
    if (!line.ok()) return Json();
    if (line->has_value()) {
      seen_.emplace_back(**line);
      const auto parsed = ParseJson(**line);
      return parsed.ok() ? *parsed : Json(std::string(**line));
    }
    char buffer[4096];
    if (PollIn(stdout_.get(), deadline) <= 0) return Json();
    const ssize_t got = read(stdout_.get(), buffer, sizeof(buffer));
    if (got <= 0) return Json();
    reader_.Append({buffer, static_cast<size_t>(got)});
  }
}

Json AgentHarness::ReadEvent(absl::string_view event) {
  for (Json line = ReadLine(); !line.is_null(); line = ReadLine()) {
    if (line.is_object() && line.value("event", "") == event) return line;
  }
  return Json();
}

Json AgentHarness::ReadState(absl::string_view state) {
  for (Json line = ReadEvent("state"); !line.is_null(); line = ReadEvent("state")) {
    if (line.value("state", "") == state) return line;
  }
  return Json();
}

Json AgentHarness::ReadReply() {
  for (Json line = ReadLine(); !line.is_null(); line = ReadLine()) {
    if (line.is_object() && line.contains("id")) return line;
  }
  return Json();
}

int AgentHarness::WaitExit() {
  if (!WaitGone(pid_, kWait)) return -1000;
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) return -1001;
  reaped_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string AgentHarness::stderr_text() {
  std::string text(1 << 20, '\0');
  const ssize_t got = pread(stderr_file_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(got < 0 ? 0 : got));
  return text;
}

}  // namespace millrace
