// File: testing/simulation/sim_agent.h
//
// An agent and its node, as core/agent and docs/control_protocol.md have them, without processes
// and descriptors. The link is that of core/agent/link/coordinator_link.h.
//
// Defines: kCounter, SimAgent.

#ifndef TESTING_SIMULATION_SIM_AGENT_H_
#define TESTING_SIMULATION_SIM_AGENT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/process/exit_status.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/cluster_spec.h"
#include "testing/simulation/connection.h"
#include "testing/simulation/event_queue.h"
#include "testing/simulation/random.h"
#include "testing/simulation/site.h"

namespace millrace::simulation {

// A counter to which nodes add.
inline constexpr absl::string_view kCounter = "counter";

// Lives as long as the run, also after its end. Thread safety: not thread-safe.
class SimAgent {
 public:
  using OnExit = std::function<void(SimAgent*, const ExitStatus&)>;
  using OnNodeDeath = std::function<void(SimAgent*)>;

  SimAgent(Site* site, Host* host, int executor, int64_t pid, OnExit on_exit,
           OnNodeDeath on_node_death);
  ~SimAgent();

  SimAgent(const SimAgent&) = delete;
  SimAgent& operator=(const SimAgent&) = delete;

  void Start();

  // ---- faults ----
  void Kill();  // its node dies with it
  void KillNode(int signal);
  // The program ends; `error` is what it says of that.
  void ExitNode(int code, const absl::Status& error);
  void StopNode();
  void ContinueNode();
  void BreakConnection();
  void ReadNothingFor(absl::Duration duration);
  void StopProcess();  // SIGSTOP to the agent alone
  void ContinueProcess();
  void Pause();  // with its node: the host
  void Unpause();
  // Its parent has ended.
  void ParentGone();

  [[nodiscard]] bool alive() const { return process_.alive(); }
  [[nodiscard]] Process* process() { return &process_; }
  [[nodiscard]] Host* host() const { return host_; }
  [[nodiscard]] int executor() const { return executor_; }
  [[nodiscard]] int64_t pid() const { return pid_; }
  [[nodiscard]] const std::string& agent_id() const { return agent_id_; }
  [[nodiscard]] const std::shared_ptr<Connection>& connection() const { return connection_; }
  [[nodiscard]] bool attached() const { return stream_ready_; }
  // What it said before it ended, if it could not even begin.
  [[nodiscard]] const absl::Status& end_error() const { return end_error_; }
  [[nodiscard]] bool runs() const { return state_ == State::kRunning && NodeAlive(); }
  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const ClusterSpec& spec() const { return spec_; }
  // Of the slot of `executor`, as this one has heard.
  [[nodiscard]] uint32_t attempt_of(int executor) const;
  // How long its oldest request has waited beyond its time.
  [[nodiscard]] absl::Duration Overdue() const;
  [[nodiscard]] int64_t adds_sent() const { return adds_sent_; }
  [[nodiscard]] int64_t adds_answered() const { return adds_answered_; }

 private:
  enum class State { kConnecting, kRegistered, kRunning, kDraining, kRestarting, kEnded };
  struct Node {
    Process process;
    int64_t pid = 0;
    bool ended = false;
    bool stopped = false;
    bool lingers = false;  // does not end when it is asked to
    absl::Status error;    // what it said before it ended
    bool killed_as_stopped = false;
  };
  struct Request {
    v1::AgentMessage message;
    absl::Duration due;
  };

  // ---- the link ----
  void After(absl::Duration delay, std::function<void()> body);
  void Dial();
  void TryDial(absl::Duration since);
  void OpenStream();
  void OnStreamDone(const absl::Status& status);
  void Retry();
  void Reattach();
  void StartGiveUpTimer(absl::Duration after);
  void Heartbeat();
  void OnRegistered(const v1::Registered& message);
  void OnLinkEnd(const absl::Status& status);
  void FinishLink();
  void Send(v1::AgentMessage message);

  // ---- the agent ----
  void OnMessage(const v1::CoordinatorMessage& message);
  void OnSpec(const v1::SpecUpdate& update);
  void OnStop(const v1::Stop& stop);
  void OnStartAttempt(uint32_t attempt);
  void MaybeLaunch();
  void OnLaunchFailed(const absl::Status& status);
  void OnRunning(Node* node);
  void StopRun(absl::Duration grace);
  void OnNodeEnded(const ExitStatus& exit);
  bool StayForAnother(v1::NodeUpdate* update);
  void Conclude(v1::NodeUpdate update, int exit_code);
  void Fail(const absl::Status& status);
  void Quit(const ExitStatus& exit);
  void EndNode(const ExitStatus& exit);
  v1::NodeUpdate MakeUpdate(v1::NodeState state) const;
  void SendUpdate(v1::NodeUpdate update);

  // ---- the program ----
  void Live(Node* node);
  [[nodiscard]] bool Waits() const;  // at a barrier
  void Ask(v1::AgentMessage message, uint64_t id, absl::Duration timeout);

  [[nodiscard]] Node* node() { return nodes_.empty() ? nullptr : &nodes_.back(); }
  [[nodiscard]] bool NodeAlive() const { return launched_ && !nodes_.back().ended; }
  // It cannot have heard that its slot is another's: it is cut off or stopped, was so a moment ago,
  // or is ending its node.
  [[nodiscard]] bool CannotKnow() const;
  [[nodiscard]] std::string Name() const;

  Site* const site_;
  Host* const host_;
  const int executor_;
  const int64_t pid_;
  const OnExit on_exit_;
  const OnNodeDeath on_node_death_;
  Random random_;
  const std::string agent_id_;
  const int port_;
  const std::string address_;
  Process process_;

  State state_ = State::kConnecting;
  std::shared_ptr<Connection> connection_;
  uint64_t generation_ = 0;    // of connection_
  uint64_t give_up_ = 0;       // the timer that counts
  bool stream_ready_ = false;  // registered, on connection_
  bool finishing_ = false;
  bool link_ended_ = false;
  bool reattaching_ = false;
  absl::Duration stream_lost_at_;  // while there is none that is registered
  absl::Duration backoff_ = absl::Milliseconds(100);
  absl::Duration lease_ = absl::Seconds(10);

  absl::Duration continued_at_ = -absl::InfiniteDuration();
  absl::Duration deaf_until_ = -absl::InfiniteDuration();

  bool registered_ = false;  // ever
  absl::Status end_error_;
  uint32_t attempt_ = 0;
  bool restarts_ = false;
  bool restart_asked_ = false;
  bool stop_asked_ = false;
  std::optional<absl::Status> end_reason_;
  std::optional<int> exit_code_;
  uint64_t epoch_ = 0;
  ClusterSpec spec_;
  std::vector<uint32_t> attempts_;  // of all slots, as heard with spec_
  std::optional<v1::NodeUpdate> reported_;
  bool launched_ = false;  // the present attempt
  std::deque<Node> nodes_;
  std::map<uint64_t, Request> requests_;
  uint64_t next_request_ = 1;
  int64_t adds_sent_ = 0;
  int64_t adds_answered_ = 0;
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_SIM_AGENT_H_
