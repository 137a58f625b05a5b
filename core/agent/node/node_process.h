// File: core/agent/node/node_process.h
//
// The node's process: started in a process group of its own, watched, asked to stop, killed.
//
// Defines: NodeProcess, ResolveProgram().
//
//   NodeProcess node(&loop, &reaper,
//                    {.on_started = ..., .on_launch_failed = ..., .on_change = ...});
//   MILLRACE_RETURN_IF_ERROR(node.Launch({.program = path, .argv = {path, "--x"}, .env = env,
//                                         .working_dir = "/data", .inherited_fds = {control_fd}}));
//   node.Stop(absl::Seconds(10), /*sigterm_now=*/true);
//
// The child: process group of its own, same session; SIGKILL when the thread that launched it ends
// (PR_SET_PDEATHSIG), so launch from the main thread; all signals at their defaults and unblocked;
// stdin /dev/null, or stdin_fd; stdout and stderr pipes; inherited_fds[i] as descriptor 3 + i;
// nothing else open.

#ifndef CORE_AGENT_NODE_NODE_PROCESS_H_
#define CORE_AGENT_NODE_NODE_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"

namespace millrace {

// The file that `program` names: itself if it has a slash (relative to `working_dir`, or to the
// agent's directory if that is empty), otherwise the first executable file of that name in `path`,
// the value of PATH. A path that does not exist comes back as it is: exec says what is wrong with
// it. Returns NOT_FOUND, naming `program` and this host, if `path` has no such file.
[[nodiscard]] absl::StatusOr<std::string> ResolveProgram(absl::string_view program,
                                                         absl::string_view working_dir,
                                                         absl::string_view path);

// One process, launched at most once.
// Ownership: loop and reaper must outlive it. The destructor kills the process group if the process
// still runs. Thread safety: the loop's thread only, which must be the main thread. Blocking: never
// (exec is awaited by the loop).
class NodeProcess {
 public:
  struct Callbacks {
    // exec succeeded. Called before any on_change().
    absl::AnyInvocable<void()> on_started;
    // The program never ran; no other callback follows. NOT_FOUND names host and path,
    // PERMISSION_DENIED says chmod +x, INVALID_ARGUMENT is no program for this machine.
    absl::AnyInvocable<void(const absl::Status&)> on_launch_failed;
    // It stopped, continued or ended. When it ended, what was left of its process group has been
    // sent SIGKILL. Called once with ended().
    absl::AnyInvocable<void(const ExitStatus&)> on_change;
  };

  struct Options {
    std::string program;             // absolute, or relative to working_dir
    std::vector<std::string> argv;   // argv[0] included
    std::vector<std::string> env;    // "NAME=value": the whole environment
    std::string working_dir;         // empty: the agent's own
    int stdin_fd = -1;               // the caller keeps its own; -1: /dev/null
    std::vector<int> inherited_fds;  // become 3, 4, ...; the caller keeps its own
  };

  static constexpr int kFirstInheritedFd = 3;

  NodeProcess(EventLoop* loop, ChildReaper* reaper, Callbacks callbacks);
  ~NodeProcess();
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  // Forks. Failures of chdir and exec come later, by callback.
  // Returns RESOURCE_EXHAUSTED or UNAVAILABLE if there is no descriptor or process to be had.
  [[nodiscard]] absl::Status Launch(const Options& options);

  // The cooperative ladder: SIGTERM to the process group now (`sigterm_now`) or after `grace`;
  // then, at the earliest a second after SIGTERM, SIGKILL. A stopped process is continued after
  // SIGTERM. A second call can only shorten the first. Does nothing if there is no process.
  void Stop(absl::Duration grace, bool sigterm_now);
  // SIGSTOP to the process group, or SIGCONT.
  void SetPaused(bool paused) { SignalGroup(paused ? SIGSTOP : SIGCONT); }
  // SIGKILL to the process group. Idempotent.
  void Kill();

  // Launched and not known to have ended.
  [[nodiscard]] bool alive() const { return pid_ > 0; }
  // It has ended, though on_change() may not have said so yet.
  [[nodiscard]] bool HasEnded() const;
  // 0 if it never started.
  [[nodiscard]] pid_t pid() const { return launched_pid_; }

  // The agent's ends of the output pipes, non-blocking; valid once after Launch().
  [[nodiscard]] UniqueFd TakeStdout() { return std::move(stdout_); }
  [[nodiscard]] UniqueFd TakeStderr() { return std::move(stderr_); }

 private:
  void FinishExec();
  void OnChange(const ExitStatus& status);
  void Terminate();
  void SignalGroup(int signal);

  EventLoop* const loop_;
  ChildReaper* const reaper_;
  Callbacks callbacks_;
  Options options_;         // for error texts
  pid_t pid_ = 0;           // while alive; also the process group
  pid_t launched_pid_ = 0;  // stays
  UniqueFd exec_result_;  // read end of the pipe that exec closes; valid until its outcome is known
  bool launch_failed_ = false;
  bool term_sent_ = false;
  UniqueFd stdout_;
  UniqueFd stderr_;
  EventLoop::TimerId stop_timer_ = EventLoop::kNoTimer;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_NODE_PROCESS_H_
