// File: core/agent/node/node_runner.h
//
// One run of the node program: its process, control channel, requests and output, from launch until
// nothing of it is left. Knows nothing of parents and streams; core/agent/agent.h does.
//
//   NodeRunner runner(&loop, &reaper, hooks);
//   runner.Launch(options);
//   runner.Push(Json{{"push", "feed_end"}, ...});
//   runner.Stop("shutdown", grace);            // on_ended follows

#ifndef CORE_AGENT_NODE_NODE_RUNNER_H_
#define CORE_AGENT_NODE_NODE_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/node/control_channel.h"
#include "core/agent/node/log_counts.h"
#include "core/agent/node/log_relay.h"
#include "core/agent/node/node_environment.h"
#include "core/agent/node/node_process.h"
#include "core/agent/node/node_requests.h"
#include "core/agent/node/node_sampler.h"
#include "core/agent/node/output_capture.h"
#include "core/base/json.h"
#include "core/gpu/gpu_claims.h"
#include "core/process/exit_status.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// Ownership: loop and reaper must outlive it. Thread safety: the loop's thread, the main thread.
// Blocking: only Flush(). Lifetime: the destructor kills what still runs.
class NodeRunner {
 public:
  struct Hooks {
    // To the coordinator, as CoordinatorLink::Send().
    std::function<bool(v1::AgentMessage message, bool droppable)> send;
    std::function<void(v1::NodeEndpoints)> on_endpoints;
    std::function<void()> on_release_port;
    // As NodeRequests::Hooks. Claims must be dropped before the runner is destroyed.
    std::function<void(GpuRequest request,
                       std::function<void(const absl::StatusOr<std::vector<std::string>>&)> done)>
        on_gpu_claim;
    std::function<absl::Status(const std::vector<std::string>& ids)> on_gpu_release;
    // Everything that the node writes, and that nothing follows. May be null.
    std::function<void(v1::LogLines::Source, absl::string_view)> on_bytes;
    std::function<void()> on_output_end;
    // exec succeeded.
    std::function<void(pid_t)> on_running;
    // The process was stopped by a signal (its number), or goes on (0).
    std::function<void(int signal)> on_stopped;
    // The program never ran. Nothing follows.
    std::function<void(const absl::Status&)> on_launch_failed;
    // The process has ended, and whatever it left has been killed. Nothing follows.
    std::function<void(const ExitStatus&)> on_ended;
  };

  struct Options {
    NodeEnvironmentInputs environment;  // control_fd and port_fd are filled in here
    std::string program;                // resolved
    std::vector<std::string> args;      // after argv[0]
    std::string log_path;
    std::shared_ptr<LogCounts> log_counts;  // may be null
    int port_fd = -1;                       // descriptor the node inherits, if any
    int stdin_fd = -1;                      // the node's stdin; -1: it is empty
    absl::Duration stop_timeout;            // stopped by a signal for so long: killed
    absl::Duration sample_interval = absl::Seconds(1);
  };

  NodeRunner(EventLoop* loop, ChildReaper* reaper, Hooks hooks);
  ~NodeRunner();
  NodeRunner(const NodeRunner&) = delete;
  NodeRunner& operator=(const NodeRunner&) = delete;

  // Writes the context file and forks. An error means that nothing was started; failures of exec
  // come by on_launch_failed.
  [[nodiscard]] absl::Status Launch(Options options);

  // To the node; dropped if it has no channel (any more).
  void Push(const Json& frame);
  void HandleKvReply(const v1::KvReply& reply) { requests_.HandleKvReply(reply); }
  void HandleBarrierReply(const v1::BarrierReply& reply) { requests_.HandleBarrierReply(reply); }
  void HandleEqualReply(const v1::EqualReply& reply) { requests_.HandleEqualReply(reply); }
  void HandleEqualGrant(const v1::EqualGrant& grant) { requests_.HandleEqualGrant(grant); }
  void OnLost() { requests_.OnLost(); }
  void OnRegistered() { requests_.OnRegistered(); }

  // A line of the agent about this node, to the coordinator.
  void Say(const std::string& text) { relay_.Add(v1::LogLines::SOURCE_AGENT, text); }

  // The cooperative stop: push `stop`; SIGTERM at once for a plain program.
  void Stop(absl::string_view reason, absl::Duration grace);
  void Kill() { process_.Kill(); }
  // The node's pipes are not read meanwhile, so that it waits.
  void HoldOutput(bool hold) {
    if (capture_ != nullptr) capture_->SetHeld(hold);
  }
  // SIGSTOP and SIGCONT to its process group. Stopped in this way it may stay so for any time, and
  // nobody is told.
  void SetPaused(bool paused);

  [[nodiscard]] bool alive() const { return process_.alive(); }
  // The process has ended, though nobody may have heard of it yet.
  [[nodiscard]] bool HasEnded() const { return process_.HasEnded(); }
  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  // What RunNode said it ends with; unset if it said nothing.
  [[nodiscard]] const std::optional<absl::Status>& said_exit() const { return said_exit_; }
  // The process was killed since it stayed stopped by this signal for longer than stop_timeout; 0.
  [[nodiscard]] int killed_as_stopped_by() const { return killed_as_stopped_by_; }
  [[nodiscard]] std::vector<std::string> StderrTail() const;

  // Waits for the log file.
  bool Flush(absl::Duration timeout) { return capture_ == nullptr || capture_->Flush(timeout); }

 private:
  void OnChange(const ExitStatus& status);
  void OnEnded(const ExitStatus& status);
  void WindUp();
  void OnLine(OutputCapture::Source source, std::string line);
  void OnLogRequest(absl::string_view level, absl::string_view message);

  EventLoop* const loop_;
  ChildReaper* const reaper_;
  const Hooks hooks_;
  LogRelay relay_;
  NodeRequests requests_;
  std::unique_ptr<ControlChannel> channel_;
  std::unique_ptr<OutputCapture> capture_;
  NodeProcess process_;
  NodeSampler sampler_;
  uint32_t attempt_ = 0;
  absl::Duration sample_interval_;
  absl::Duration stop_timeout_;
  std::optional<absl::Status> said_exit_;
  int killed_as_stopped_by_ = 0;
  bool paused_ = false;
  EventLoop::TimerId stopped_timer_ = EventLoop::kNoTimer;
  std::optional<ExitStatus> exit_;  // set: the process has ended, the rest is being wound up
  int wind_up_rounds_ = 0;
  EventLoop::TimerId wind_up_timer_ = EventLoop::kNoTimer;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_NODE_RUNNER_H_
