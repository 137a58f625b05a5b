// File: core/launch/agent_process.h
//
// One `millrace-agent agent --parent=stdin` as a child of this process, and the JSON Lines it
// speaks (docs/control_protocol.md, section 1).
#ifndef CORE_LAUNCH_AGENT_PROCESS_H_
#define CORE_LAUNCH_AGENT_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json_fwd.h"
#include "core/base/line_reader.h"
#include "core/launch/piped_child.h"
#include "millrace/agent_exit.h"
#include "millrace/agent_ticket.h"

namespace millrace {

// Thread safety: single-threaded. Blocking: never. Lifetime: the destructor kills a child that
// still runs and reaps it.
class AgentProcess {
 public:
  // Called with each event "counts" of an agent (docs/control_protocol.md, section 1).
  using OnCounts = std::function<void(const Json& event)>;

  // Starts `agent_path` and sends it `ticket`. Its runtime folder,
  // $TMPDIR/millrace-<cluster id>-<executor id>.<random>, is made and removed by the agent; Reap()
  // removes it after an agent that could not. Nobody can make it beforehand: its name is random,
  // and stands in the ticket alone. Its environment is this process's, or `environment`. Its node
  // reads `node_stdin`, a descriptor of this process, or nothing (-1). It keeps count only if there
  // is an `on_counts`, which ReadOut() and Reap() call. Returns the system's error.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AgentProcess>> Spawn(
      const std::string& agent_path, const AgentTicket& ticket,
      const std::vector<std::string>* environment = nullptr, int node_stdin = -1,
      OnCounts on_counts = nullptr);
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  [[nodiscard]] int executor_id() const { return executor_id_; }
  [[nodiscard]] pid_t pid() const { return child_.pid; }

  // Descriptors for poll(); -1 once they have ended.
  [[nodiscard]] int pid_fd() const { return child_.pid_fd.get(); }
  [[nodiscard]] int out_fd() const { return child_.out.get(); }
  [[nodiscard]] int err_fd() const { return child_.err.get(); }

  // Takes what can be read.
  void ReadOut();
  void ReadErr();

  // The agent's coordinator is at `address` (host:port) from now on. It may have ended.
  void SetCoordinator(const std::string& address);

  // Ends the agent: closing its stdin asks it to, SIGKILL does it.
  void CloseStdin() { child_.in.reset(); }
  void Kill();
  // SIGTSTP pauses its node, SIGCONT lets it go on (docs/control_protocol.md).
  void Signal(int signal);

  // To be called once pid_fd() is readable: reaps the agent, removes its directory, and says how it
  // ended. (What a killed agent's node leaves is ended by the agent's guard,
  // core/agent/loop/guard.h.) `known`: how it ended, where somebody else reaps all children.
  [[nodiscard]] AgentExit Reap(std::optional<ExitStatus> known = std::nullopt);

 private:
  AgentProcess(int executor_id, std::string runtime_dir, OnCounts on_counts)
      : executor_id_(executor_id),
        runtime_dir_(std::move(runtime_dir)),
        on_counts_(std::move(on_counts)) {}
  absl::Status SendStart(const AgentTicket& ticket, bool node_stdin);
  absl::Status Request(int id, absl::string_view method, Json params);
  void HandleLine(absl::string_view line);
  void HandleErrLine(absl::string_view line);

  const int executor_id_;
  const std::string runtime_dir_;
  const OnCounts on_counts_;
  PipedChild child_;  // pid 0 and no descriptor of it once reaped
  LineReader out_lines_;
  std::optional<LineReader> err_lines_{std::in_place};  // always set
  absl::Status error_;                                  // the first: its version, or what it said
  std::deque<std::string> stderr_tail_;
};

}  // namespace millrace

#endif  // CORE_LAUNCH_AGENT_PROCESS_H_
