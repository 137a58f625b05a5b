// File: core/agent/agent.h
//
// The agent: takes one slot of a cluster for one node, from `start` to the node's end. Ties
// together its parent (ParentLink), its coordinator (CoordinatorLink) and its node (NodeRunner):
//
//   idle --start--> connecting -> connected -> registered -> ready -> running -> (draining) ->
//   finished | failed -> told the coordinator -> over
//
// A node that failed, or is to be restarted, may get another attempt here: then it waits
// (restarting) for StartAttempt, and goes on from registered.
//
// Anything may be cut short by a stop (parent, coordinator, signal), the end of stdin, or a
// coordinator that is gone.

#ifndef CORE_AGENT_AGENT_H_
#define CORE_AGENT_AGENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/attempt.h"
#include "core/agent/gpu/agent_gpus.h"
#include "core/agent/link/agent_counts.h"
#include "core/agent/link/coordinator_link.h"
#include "core/agent/link/gateway_calls.h"
#include "core/agent/link/node_key.h"
#include "core/agent/link/output_sender.h"
#include "core/agent/link/program_fetcher.h"
#include "core/agent/link/start_params.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/loop/exit_codes.h"
#include "core/agent/loop/guard.h"
#include "core/agent/loop/parent_link.h"
#include "core/agent/node/log_counts.h"
#include "core/agent/node/node_runner.h"
#include "core/agent/node/port_reservation.h"
#include "core/agent/node/runtime_files.h"
#include "core/base/json.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// Ownership: loop, reaper and guard must outlive it. Thread safety: the loop's thread, which must
// be the main thread. Blocking: Cleanup() only.
class Agent {
 public:
  struct Options {
    int in_fd = 0;   // from the parent
    int out_fd = 1;  // to the parent
    std::string version;
    std::vector<std::string> environment;  // "NAME=value": what the node inherits
    int node_stdin = -1;  // a descriptor that the parent may mean for the node; -1: there is none
  };

  Agent(EventLoop* loop, ChildReaper* reaper, Guard* guard, Options options);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Says ready and serves the parent. The loop quits when the agent is over.
  void Start();

  // SIGTSTP pauses the node and SIGCONT lets it go on. Others are as the parent's `stop`; the
  // second of them kills the node.
  void OnSignal(int signal);

  // Kills what is left, removes the files, dismisses the guard, and writes to the parent what is
  // still queued for it. Returns the exit code. Takes at most a few hundred milliseconds (more if
  // the node's log still has to reach the disk and nobody is in a hurry).
  int Cleanup();

 private:
  enum class State {
    kIdle,
    kConnecting,
    kConnected,
    kRegistered,
    kReady,
    kRunning,
    kDraining,
    kRestarting,  // nothing of the attempt is left; StartAttempt or Stop comes
    kFinished,
    kFailed,
  };

  // Parent.
  void OnRequest(const Json& id, const std::string& method, const Json& params);
  absl::StatusOr<Json> StartNode(const Json& params);
  absl::StatusOr<Json> StopRequest(const Json& params);
  absl::StatusOr<Json> SetCoordinator(const Json& params);
  void OnParentGone(const absl::Status& status);

  // Coordinator.
  absl::StatusOr<v1::Register> MakeRegister(const std::string& local_host);
  void OnRegistered(const v1::Registered& registered);
  void TakeRole(const v1::Registered& registered);
  void OnMessage(const v1::CoordinatorMessage& message);
  void OnSpec(const v1::SpecUpdate& update);
  void OnLinkEnd(const absl::Status& status);
  // For link_, where the agents of this host share a connection (agent_relay.cc).
  absl::Status StartRelay(UniqueFd listening);

  // GPUs of the node (agent_gpu_claim.cc).
  void PrepareGpus();
  bool GpusReady();
  void EndGpus();
  void AddGpusTo(v1::NodeSample* sample);

  // Node.
  NodeRunner* runner() const { return attempt_ == nullptr ? nullptr : attempt_->runner(); }
  bool NodeAlive() const { return attempt_ != nullptr && attempt_->alive(); }
  void FetchProgram();
  void OnProgram(const absl::StatusOr<FetchedProgram>& program);
  void MaybeLaunch();
  absl::Status Launch();
  NodeRunner::Hooks RunnerHooks();
  void Stop(absl::string_view reason, bool now);
  // Stops the node where it is, for as long as it takes, or lets it go on. Meanwhile the agent
  // holds the node for a coordinator that is silent: that one is stopped too.
  void SetPaused(bool paused);
  void OnNodeStopped(int signal);
  void OnNodeEnded(const ExitStatus& exit);
  void OnLaunchFailed(const absl::Status& status);
  absl::Status NodeError(const ExitStatus& exit) const;

  // The next attempt (agent_restart.cc).
  void Restart(absl::string_view reason, bool now);
  bool StayForAnother(const absl::Status& node_error, v1::NodeUpdate* update);
  absl::Status ReservePort();
  void OnStartAttempt(uint32_t attempt, const std::string& nonce);
  void Retire(absl::Duration deadline);

  // The node's output, where the driver wants all of it, and where the parent wants its lines
  // (agent_output.cc).
  void OpenOutput(NodeRunner::Hooks* hooks);
  void TellOutput(const v1::LogLines& log);
  void OnOutputCredit(uint32_t attempt, uint64_t offset);
  // Ends the link once the coordinator was told everything.
  void FinishLink();
  void LeaveWithoutAnother();

  // What a parent that keeps count is told (agent_counts.cc).
  void KeepCount();
  void TellCounts();
  void CountStart();
  void CountEnd(const ExitStatus& exit);

  // Programs beside the node (agent_sidecars.cc).
  void StartSidecars();
  void OnSidecarUrl(const std::string& name, const std::string& url);
  // What the node and its sidecars published.
  void SendEndpoints();
  // A line of the agent about its node, to the coordinator.
  void SayOfNode(const std::string& text);

  // How it ends.
  [[nodiscard]] bool EndsAsAsked() const { return stop_asked_ && !ended_unasked_; }
  void Conclude(const absl::Status& node_error, v1::NodeUpdate update);
  void Fail(const absl::Status& status);
  void Quit(int exit_code);

  void SetState(State state, OrderedJson members = OrderedJson::object());
  void SendUpdate(v1::NodeUpdate update);
  v1::NodeUpdate MakeUpdate(v1::NodeState state) const;
  std::string NodeName() const;
  static const char* StateName(State state);

  EventLoop* const loop_;
  ChildReaper* const reaper_;
  Guard* const guard_;
  const Options options_;
  const std::string agent_id_;  // random hex
  ParentLink parent_;
  State state_ = State::kIdle;

  // From `start`.
  StartParams params_;
  std::unique_ptr<RuntimeFiles> files_;
  NodeKey key_;
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<GatewayCalls> gateway_;  // with link_

  // From the first connection and registration.
  PortReservation port_;
  std::string host_;        // under which peers reach this one
  std::string local_host_;  // numeric: this end of the first connection to the coordinator
  std::string address_;     // as registered, or of the next attempt
  std::optional<v1::Registered> registered_;
  std::string working_dir_;
  std::string log_dir_;  // of this host; the agent's own, gone with it, if the cluster has none
  uint64_t epoch_ = 0;
  ClusterSpec spec_;
  std::unique_ptr<ProgramFetcher> fetcher_;
  std::string program_path_;  // of a copy of the shipped program, if there is to be one
  std::string program_;       // resolved; empty until it is here
  std::shared_ptr<const UniqueFd> program_memory_;  // keeps program_, if that is in memory

  // From the registration on.
  std::unique_ptr<AgentGpus> gpus_;
  std::optional<GpuRequest> gpu_request_;  // unset: GPUs are left alone

  std::unique_ptr<Attempt> attempt_;     // with registered_: the present one, or the last
  std::unique_ptr<NodeRunner> retired_;  // of the attempt before, until its last callback is over
  EventLoop::TimerId retire_timer_ = EventLoop::kNoTimer;
  std::map<uint32_t, std::unique_ptr<OutputSender>> outputs_;  // by attempt, until all was taken
  bool link_finishes_ = false;  // the agent is over; what it waits for is outputs_
  uint64_t untold_lines_ = 0;   // of the node, that the parent was too slow for

  AgentCounts counts_;
  AgentCounts told_counts_;
  const std::shared_ptr<LogCounts> log_counts_ = std::make_shared<LogCounts>();
  EventLoop::TimerId count_timer_ = EventLoop::kNoTimer;

  bool stop_asked_ = false;     // by parent, coordinator or signal
  bool ended_unasked_ = false;  // with stop_asked_: the node had ended by then
  bool paused_ = false;
  bool hurry_ = false;                      // the parent is gone or asked for now
  std::optional<absl::Status> end_reason_;  // why the agent ends its node by itself
  std::optional<int> exit_code_;            // set once it is known
  EventLoop::TimerId quit_timer_ = EventLoop::kNoTimer;
};

}  // namespace millrace

#endif  // CORE_AGENT_AGENT_H_
