#include "core/launch/agent_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/process/descriptor_limit.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

extern char** environ;

namespace millrace {
namespace {

constexpr size_t kStderrLines = 50;
constexpr size_t kReadBytes = 64 << 10;
constexpr int kMaxRemoveRounds = 20;

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe");
  return std::make_pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

void SetNonBlocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// In a process group of its own, with default signal dispositions and an empty mask, whatever the
// driver's are.
absl::StatusOr<pid_t> SpawnProcess(const std::string& path, const std::vector<std::string>& args,
                                   int in, int out, int err,
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

// Appends what `fd` has to `lines`. Returns false at its end.
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

}  // namespace

absl::StatusOr<std::unique_ptr<AgentProcess>> AgentProcess::Spawn(
    const std::string& agent_path, const AgentTicket& ticket,
    const std::vector<std::string>* environment) {
  std::string runtime_dir = JoinPath(
      EnvOr("TMPDIR", "/tmp"),
      absl::StrCat("millrace-", ticket.cluster_id, "-", ticket.executor_id, ".", RandomHex(16)));
  std::unique_ptr<AgentProcess> agent(new AgentProcess(ticket.executor_id, std::move(runtime_dir)));
  MILLRACE_ASSIGN_OR_RETURN(auto in, MakePipe());
  MILLRACE_ASSIGN_OR_RETURN(auto out, MakePipe());
  MILLRACE_ASSIGN_OR_RETURN(auto err, MakePipe());
  MILLRACE_ASSIGN_OR_RETURN(agent->pid_,
                            SpawnProcess(agent_path, {"agent", "--parent=stdin"}, in.first.get(),
                                         out.second.get(), err.second.get(), environment));
  // By the kernel's number: glibc has a name for it since 2.36, and the wheel asks for less.
  agent->pid_fd_.reset(static_cast<int>(syscall(SYS_pidfd_open, agent->pid_, 0)));
  if (!agent->pid_fd_.valid()) return absl::ErrnoToStatus(errno, "opening a process descriptor");
  agent->in_ = std::move(in.second);
  agent->out_ = std::move(out.first);
  agent->err_ = std::move(err.first);
  SetNonBlocking(agent->out_.get());
  SetNonBlocking(agent->err_.get());
  MILLRACE_RETURN_IF_ERROR(agent->SendStart(ticket));
  return agent;
}

AgentProcess::~AgentProcess() {
  if (pid_ == 0) return;
  Kill();
  static_cast<void>(Reap());
}

absl::Status AgentProcess::SendStart(const AgentTicket& ticket) {
  Json params{{"coordinator", Json{{"address", ticket.coordinator_address},
                                   {"ca_pem", ticket.ca_pem},
                                   {"identity_pem", ticket.identity_pem},
                                   {"token", ticket.token}}},
              {"executor_id", ticket.executor_id},
              {"runtime_dir", runtime_dir_},
              // An agent takes over this process's limit, which is raised.
              {"descriptor_limit", OriginalDescriptorLimit()}};
  if (!ticket.working_dir.empty()) params["working_dir"] = ticket.working_dir;
  if (!ticket.advertise.empty()) params["advertise"] = ticket.advertise;
  const std::string line =
      DumpJson(Json{{"id", 1}, {"method", "start"}, {"params", std::move(params)}}) + "\n";
  // The pipe is empty and holds 64 KiB: one write takes it. A child that is gone already is EPIPE,
  // which its exit explains better.
  const ssize_t n = ::write(in_.get(), line.data(), line.size());
  if (n == static_cast<ssize_t>(line.size()) || (n < 0 && errno == EPIPE)) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "writing to an agent");
}

void AgentProcess::ReadOut() {
  if (!out_.valid()) return;
  const bool open = ReadAvailable(out_.get(), &out_lines_);
  while (true) {
    absl::StatusOr<std::optional<absl::string_view>> line = out_lines_.Next();
    if (!line.ok()) {
      error_ = line.status();
      Kill();
      break;
    }
    if (!line->has_value()) break;
    HandleLine(**line);
  }
  if (!open) out_.reset();
}

void AgentProcess::HandleLine(absl::string_view line) {
  const absl::StatusOr<Json> message = ParseJson(line);
  if (!message.ok() || !message->is_object()) {
    MILLRACE_LOG(WARNING) << "agent " << executor_id_ << " said what is no JSON object: " << line;
    return;
  }
  const bool refused = message->contains("error");
  const Json& error = refused ? (*message)["error"] : *message;
  if (refused || GetStringOr(*message, "event", "").value_or("") == "error") {
    error_ = absl::Status(StatusCodeFromName(GetStringOr(error, "code", "").value_or("")),
                          GetStringOr(error, "message", "").value_or(""));
  }
  if (refused) CloseStdin();  // it will never join: let it end, so that its error is told
}

void AgentProcess::ReadErr() {
  if (!err_.valid()) return;
  const bool open = ReadAvailable(err_.get(), &*err_lines_);
  while (true) {
    absl::StatusOr<std::optional<absl::string_view>> line = err_lines_->Next();
    if (!line.ok()) {
      err_lines_.emplace();  // a line over the limit: start afresh with what follows
      break;
    }
    if (!line->has_value()) break;
    HandleErrLine(**line);
  }
  if (!open) err_.reset();
}

void AgentProcess::HandleErrLine(absl::string_view line) {
  std::fprintf(stderr, "agent %d: %s\n", executor_id_, EscapeControls(line).c_str());
  stderr_tail_.emplace_back(line);
  if (stderr_tail_.size() > kStderrLines) stderr_tail_.pop_front();
}

void AgentProcess::Kill() { Signal(SIGKILL); }

void AgentProcess::Signal(int signal) {
  if (pid_fd_.valid()) syscall(SYS_pidfd_send_signal, pid_fd_.get(), signal, nullptr, 0);
}

AgentExit AgentProcess::Reap(std::optional<ExitStatus> known) {
  ExitStatus exit = known.value_or(ExitStatus());
  if (!known.has_value()) {
    siginfo_t info{};
    int result = 0;
    do {
      result = ::waitid(P_PIDFD, static_cast<id_t>(pid_fd_.get()), &info, WEXITED);
    } while (result != 0 && errno == EINTR);
    // ECHILD: the driver ignores SIGCHLD, or reaps all children itself; how the agent ended is then
    // unknown.
    if (result == 0) exit = ExitStatusFromWaitId(info.si_code, info.si_status);
  }
  ReadOut();
  ReadErr();
  // Absent where the agent removed it itself. The guard of one that was killed may be at it too,
  // which makes either fail half-way.
  std::error_code error;
  for (int round = 0; round < kMaxRemoveRounds; ++round) {
    std::filesystem::remove_all(runtime_dir_, error);
    if (!error) break;
  }
  if (error) MILLRACE_LOG(WARNING) << "cannot remove " << runtime_dir_ << ": " << error.message();
  pid_fd_.reset();
  return {.executor_id = executor_id_,
          .pid = std::exchange(pid_, 0),
          .exit = exit,
          .status = error_,
          .stderr_tail = {stderr_tail_.begin(), stderr_tail_.end()}};
}

}  // namespace millrace
