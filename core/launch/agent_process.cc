#include "core/launch/agent_process.h"

#include <signal.h>
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
#include "core/base/peer_version.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/process/descriptor_limit.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kStderrLines = 50;
constexpr int kMaxRemoveRounds = 20;

}  // namespace

absl::StatusOr<std::unique_ptr<AgentProcess>> AgentProcess::Spawn(
    const std::string& agent_path, const AgentTicket& ticket,
    const std::vector<std::string>* environment, int node_stdin, OnCounts on_counts) {
  std::string runtime_dir = JoinPath(
      EnvOr("TMPDIR", "/tmp"),
      absl::StrCat("millrace-", ticket.cluster_id, "-", ticket.executor_id, ".", RandomHex(16)));
  std::unique_ptr<AgentProcess> agent(
      new AgentProcess(ticket.executor_id, std::move(runtime_dir), std::move(on_counts)));
  MILLRACE_ASSIGN_OR_RETURN(
      agent->child_,
      PipedChild::Spawn(agent_path, {"agent", "--parent=stdin"}, environment, node_stdin));
  MILLRACE_RETURN_IF_ERROR(agent->SendStart(ticket, node_stdin >= 0));
  return agent;
}

AgentProcess::~AgentProcess() {
  if (child_.pid == 0) return;
  Kill();
  static_cast<void>(Reap());
}

absl::Status AgentProcess::SendStart(const AgentTicket& ticket, bool node_stdin) {
  Json params{{"coordinator", Json{{"address", ticket.coordinator_address},
                                   {"ca_pem", ticket.ca_pem},
                                   {"identity_pem", ticket.identity_pem},
                                   {"token", ticket.token}}},
              {"executor_id", ticket.executor_id},
              {"runtime_dir", runtime_dir_},
              // An agent takes over this process's limit, which is raised.
              {"descriptor_limit", OriginalDescriptorLimit()}};
  if (node_stdin) params["node_stdin"] = true;
  if (on_counts_ != nullptr) params["count_events"] = true;
  if (ticket.connect_timeout > absl::ZeroDuration()) {
    params["connect_timeout_ms"] = absl::ToInt64Milliseconds(ticket.connect_timeout);
  }
  if (!ticket.working_dir.empty()) params["working_dir"] = ticket.working_dir;
  if (!ticket.advertise.empty()) params["advertise"] = ticket.advertise;
  if (ticket.share_connection) params["share_connection"] = true;
  return Request(1, "start", std::move(params));
}

void AgentProcess::SetCoordinator(const std::string& address) {
  if (!child_.in.valid()) return;  // it was asked to end
  const absl::Status sent = Request(2, "coordinator", Json{{"address", address}});
  if (!sent.ok()) MILLRACE_LOG(WARNING) << "agent " << executor_id_ << ": " << sent.message();
}

absl::Status AgentProcess::Request(int id, absl::string_view method, Json params) {
  const std::string line =
      DumpJson(Json{{"id", id}, {"method", method}, {"params", std::move(params)}}) + "\n";
  // The pipe is empty, or the agent takes what is in it, and holds 64 KiB: one write takes it. A
  // child that is gone already is EPIPE, which its exit explains better.
  const ssize_t n = ::write(child_.in.get(), line.data(), line.size());
  if (n == static_cast<ssize_t>(line.size()) || (n < 0 && errno == EPIPE)) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "writing to an agent");
}

void AgentProcess::ReadOut() {
  if (!child_.out.valid()) return;
  const bool open = ReadAvailable(child_.out.get(), &out_lines_);
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
  if (!open) child_.out.reset();
}

void AgentProcess::HandleLine(absl::string_view line) {
  const absl::StatusOr<Json> message = ParseJson(line);
  if (!message.ok() || !message->is_object()) {
    MILLRACE_LOG(WARNING) << "agent " << executor_id_ << " said what is no JSON object: " << line;
    return;
  }
  const std::string event = GetStringOr(*message, "event", "").value_or("");
  if (event == "counts" && on_counts_ != nullptr) {
    on_counts_(*message);
    return;
  }
  if (event == "ready") {
    const std::string version = GetStringOr(*message, "version", "").value_or("");
    error_ = CheckVersions({"this program", kMillraceVersion}, {"millrace-agent", version});
    if (!error_.ok()) CloseStdin();
    return;
  }
  const bool refused = message->contains("error");
  const Json& error = refused ? (*message)["error"] : *message;
  if (refused || event == "error") {
    error_.Update(absl::Status(StatusCodeFromName(GetStringOr(error, "code", "").value_or("")),
                               GetStringOr(error, "message", "").value_or("")));
  }
  if (refused) CloseStdin();  // it will never join: let it end, so that its error is told
}

void AgentProcess::ReadErr() {
  if (!child_.err.valid()) return;
  const bool open = ReadAvailable(child_.err.get(), &*err_lines_);
  while (true) {
    absl::StatusOr<std::optional<absl::string_view>> line = err_lines_->Next();
    if (!line.ok()) {
      err_lines_.emplace();  // a line over the limit: start afresh with what follows
      break;
    }
    if (!line->has_value()) break;
    HandleErrLine(**line);
  }
  if (!open) child_.err.reset();
}

void AgentProcess::HandleErrLine(absl::string_view line) {
  std::fprintf(stderr, "agent %d: %s\n", executor_id_, EscapeControls(line).c_str());
  stderr_tail_.emplace_back(line);
  if (stderr_tail_.size() > kStderrLines) stderr_tail_.pop_front();
}

void AgentProcess::Kill() { Signal(SIGKILL); }

void AgentProcess::Signal(int signal) { child_.Signal(signal); }

AgentExit AgentProcess::Reap(std::optional<ExitStatus> known) {
  const ExitStatus exit = known.has_value() ? *known : child_.Reap();
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
  child_.pid_fd.reset();
  return {.executor_id = executor_id_,
          .pid = std::exchange(child_.pid, 0),
          .exit = exit,
          .status = error_,
          .stderr_tail = {stderr_tail_.begin(), stderr_tail_.end()}};
}

}  // namespace millrace
