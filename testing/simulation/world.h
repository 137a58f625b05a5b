// File: testing/simulation/world.h
//
// A simulated cluster: the real ControlPlane, and around it a driver, whoever starts agents, agents
// with their nodes, viewers, an operator, and what goes wrong.
//
// Defines: Outcome, World.
//
//   const Plan plan = MakePlan(/*seed=*/17, /*nodes=*/50, absl::Minutes(10));
//   const Outcome outcome = World(plan, /*keep_trace=*/false).Run();

#ifndef TESTING_SIMULATION_WORLD_H_
#define TESTING_SIMULATION_WORLD_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/client/cluster_view.h"
#include "core/coordinator/journal/state_journal.h"
#include "core/coordinator/server/control_plane.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/view_store.h"
#include "core/process/exit_status.h"
#include "millrace/cluster_status.h"
#include "testing/simulation/adopter.h"
#include "testing/simulation/checks.h"
#include "testing/simulation/listener.h"
#include "testing/simulation/plan.h"
#include "testing/simulation/random.h"
#include "testing/simulation/sim_agent.h"
#include "testing/simulation/site.h"

namespace millrace::simulation {

struct Outcome {
  std::optional<Violation> violation;
  uint64_t hash = 0;  // of the trace
  int64_t events = 0;
  absl::Status cause;  // the cluster's
  std::vector<std::string> trace;
};

// One run. Thread safety: not thread-safe; runs of one process may follow each other.
class World final : private CoordinatorObserver {
 public:
  World(const Plan& plan, bool keep_trace);
  ~World() override;

  Outcome Run();

 private:
  enum class Phase { kGathering, kRunning, kStopping, kEnded };
  struct Viewer {
    ClusterView view;
    ViewCursor cursor;
  };

  // CoordinatorObserver
  void OnSlot(const SlotStatus& slot) override {
    if (!dying_) site_.checks.OnSlot(slot);
  }
  void OnRelaunch(int executor_id) override;
  void OnRestart(const NodeRestart& restart) override;
  void OnFailure(const absl::Status& status) override;

  void AfterPlane();
  void Tick(uint64_t number);
  absl::StatusOr<std::string> Sign();

  static constexpr absl::Duration kDriverLooks = absl::Milliseconds(500);
  // What is asked of a cluster that is shut down: a lease, the keepalive of an agent that must
  // notice first, its node's grace, and the time that a dial may hang.
  static constexpr absl::Duration kStopTime = absl::Seconds(60);
  // Until no agent is left once the driver is gone: the longest that one may dial.
  static constexpr absl::Duration kLastAgents = absl::Seconds(100);
  // How much later a loss may be noticed where agents wait for another driver.
  [[nodiscard]] absl::Duration ResumeTime() const {
    return plan_.resumable ? plan_.options.lease : absl::ZeroDuration();
  }

  // ---- the driver ----
  static std::string NewStateFolder();  // a name that nobody has
  // Its coordinator, and with agents that listen its adopter. False: there is nothing to resume.
  bool StartDriver();
  absl::Status OpenJournal();
  void KillDriver(absl::Duration downtime);
  void ResumeDriver();
  void StopDriver();
  void Drive();
  void Shutdown();
  void CheckHealth();
  void CheckEnd();
  void CheckRequests();

  // ---- who starts agents ----
  SimAgent* StartAgent(int executor, Host* host, Listener* parent = nullptr);
  Host* AddHost();
  // On a port of the host that nobody has had.
  Listener* Listen(Host* host);
  Listener* ListenAt(Host* host, const std::string& address);
  // Where the slot's agent listens, if one does.
  Listener* ListenerOf(int executor);
  void StartListening();
  // The source of members has changed.
  void TellSource();
  void OnAgentExit(SimAgent* agent, const ExitStatus& exit);
  void TellAgentGone(SimAgent* agent, const ExitStatus& exit, int tries);
  void SupplySpark();
  Host* AnyHost();
  [[nodiscard]] bool HasAgent(int executor) const;
  // The one that was started last.
  [[nodiscard]] SimAgent* AgentOf(int executor) const;
  void OnNodeDeath(SimAgent* agent);

  // ---- faults ----
  void Inject(const Fault& fault);
  void InjectHost(const Fault& fault, Host* host);
  void InjectListening(const Fault& fault);
  void EndListener(const Fault& fault);
  void LoseListeners(Host* host);
  // Of the state folder; no bytes: as many as one likes.
  void LimitState(std::optional<int64_t> bytes);
  void Cut(Host* host);
  void Heal(Host* host);

  // ---- readers ----
  void Look(Viewer* viewer, absl::Duration least, absl::Duration most);
  void CheckViewer(const Viewer& viewer, const ClusterStatus& status);

  const Plan& plan_;
  Site site_;
  Random random_;
  CoordinatorOptions options_;
  std::string folder_;  // of the state, where there is one
  std::unique_ptr<StateJournal> journal_;
  std::unique_ptr<ViewStore> view_;
  std::unique_ptr<ClusterRecorder> recorder_;
  std::unique_ptr<ControlPlane> plane_;
  Source source_;
  std::unique_ptr<Adopter> adopter_;
  std::deque<Host> hosts_;
  std::deque<Listener> listeners_;
  std::deque<SimAgent> agents_;
  std::vector<std::vector<SimAgent*>> by_slot_;
  std::deque<Viewer> viewers_;
  std::set<const SimAgent*> untold_;  // whose executors were lost with them
  int64_t next_pid_ = 1000;
  absl::Duration tick_at_ = absl::InfiniteDuration();
  uint64_t tick_ = 0;
  int signing_ = 0;

  Phase phase_ = Phase::kGathering;
  int drivers_ = 0;
  bool all_ran_ = false;  // once
  bool dying_ = false;    // nobody hears of it
  int full_state_disks_ = 0;
  absl::Duration started_at_;   // the driver
  absl::Duration last_fault_;   // when nothing of it is left
  absl::Duration stopping_at_;  // when the driver stopped its nodes
  bool any_pause_ = false;      // of the driver, ever
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_WORLD_H_
