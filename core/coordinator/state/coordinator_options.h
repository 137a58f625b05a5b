// File: core/coordinator/state/coordinator_options.h
//
// What a driver gives to the coordinator and hears from it.
//
// Defines: ProgramOptions, CoordinatorObserver, CoordinatorOptions, PacedHeartbeatInterval(),
// NodeFilter.
//
// Thread safety: ordinary values.

#ifndef CORE_COORDINATOR_STATE_COORDINATOR_OPTIONS_H_
#define CORE_COORDINATOR_STATE_COORDINATOR_OPTIONS_H_

#include <algorithm>  // for std::min, std::max
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/net/port_range.h"
#include "core/process/processor_share.h"
#include "millrace/cluster_status.h"
#include "millrace/node_options.h"
#include "millrace/option_defaults.h"

namespace millrace {

// The program of every node.
struct ProgramOptions {
  // shipped: on this host; agents that lack it fetch it, and Start() reads it for its sha256.
  // Otherwise it must exist on each agent's host.
  std::string path;
  bool shipped = false;
  std::vector<std::string> args;           // after argv[0]
  std::map<std::string, std::string> env;  // added to the agent's environment
};
// What people see of it.
[[nodiscard]] inline std::string CommandOf(const ProgramOptions& program) {
  return CommandText(program.path, program.args, /*max_bytes=*/500);
}

inline constexpr size_t kMaxClusterNameBytes = 64;

// Hears what happens. Called from one thread of the coordinator, in order, never with a lock held;
// every method of Coordinator but Shutdown() and the destructor may be called from here, the waits
// included (they only delay later calls). The queue to the observer is bounded: when it is full,
// lines and metrics are dropped and counted, slots and failures never. The first call may come
// before Start() has returned, which does not wait for it. The calls have the names of
// the functions of ClusterObserver (millrace/cluster_options.h), which a driver passes them on to.
class CoordinatorObserver {
 public:
  virtual ~CoordinatorObserver() = default;

  // A slot changed: `slot` is how it is now.
  virtual void OnSlot(const SlotStatus& /*slot*/) {}
  // `dropped` lines were lost before these, here or at the agent.
  virtual void OnOutput(int /*executor_id*/, const NodeRole& /*role*/, LogSource /*source*/,
                        const std::vector<std::string>& /*lines*/, uint64_t /*dropped*/) {}
  // With output_window_bytes: what a node wrote to stdout or stderr, byte for byte;
  // empty at the end of its attempt. Nothing of it is dropped. `taken` is to be called once, from
  // any thread, when there is room for more; it may be called after the coordinator is gone.
  virtual void OnBytes(int /*executor_id*/, const NodeRole& /*role*/, LogSource /*source*/,
                       std::string /*bytes*/, const std::function<void()>& taken) {
    taken();
  }
  virtual void OnMetric(int /*executor_id*/, const NodeRole& /*role*/, absl::string_view /*name*/,
                        int64_t /*step*/, double /*value*/) {}
  // The agent of this slot is gone, or must go, and the slot is to be started again: whoever starts
  // agents ends what is left of the old one and starts another. Not called for an agent that stays.
  // Where that cannot be done: ReportAgentExit() with a status.
  virtual void OnRelaunch(int /*executor_id*/) {}
  // A node failed and is started again: worth a line to a person (RestartText()).
  virtual void OnRestart(const NodeRestart& /*restart*/) {}
  // An operator asks for the end of the cluster; its nodes have been asked (now: killed). `status`
  // is CANCELLED with the reason.
  virtual void OnOperatorStop(const absl::Status& /*status*/, bool /*now*/) {}
  // Once: the cluster failed, `status` is its first cause.
  virtual void OnFailure(const absl::Status& /*status*/) {}
};

struct CoordinatorOptions {
  std::string cluster_id;                  // empty: random. Otherwise 1 to 128 of A-Z a-z 0-9 . _ -
  std::string bind_address = "127.0.0.1";  // an address of this host, or "0.0.0.0" or "::" for all
  int port = 0;                            // 0: any of port_range
  PortRange port_range;                    // {0, 0}: any
  // Host under which agents reach this one, for address(): a name, an address, an interface
  // ("eth0") or a network ("10.0.0.0/8") of this host. Empty: bind_address, or this host's name if
  // that is a wildcard.
  std::string advertise_host;
  std::string name;             // for people: at most kMaxClusterNameBytes; may be empty
  std::vector<NodeRole> roles;  // by executor id, from DealRoles()
  ProgramOptions program;
  InputMode input_mode = InputMode::kDirect;
  std::string log_dir;  // on the agent's host; empty: the agent's default
  // Of the groups, working_dir is for whoever starts agents, and curve_only for feeders.
  NodeOptions node;
  FeedOptions feed;
  FailureOptions failure;
  // Everything that nodes write comes to CoordinatorObserver::OnBytes too, at most so much of each
  // node ahead of what was taken there; a node whose output is not taken waits. 0: it does not.
  int64_t output_window_bytes = 0;

  // From Start() until every node has been running.
  absl::Duration reservation_timeout = kDefaultReservationTimeout;
  absl::Duration heartbeat_interval = absl::Seconds(1);
  // Of silence on an open stream. Until all nodes have been running at least 10 ms a slot: the
  // coordinator of thousands is busy with their handshakes; where that is longer, silence counts
  // from then on.
  absl::Duration lost_after = absl::Seconds(5);
  absl::Duration lease = absl::Seconds(10);  // of a slot whose stream broke

  Clock* clock = RealClock();                                // not owned; outlives the coordinator
  std::function<double()> processor_share = ProcessorShare;  // of the machine on which nodes run
  std::function<uint64_t()> random = RandomU64;              // for nonces and backoffs
  // Where events.jsonl is written, on this host (core/coordinator/view/event_log.h). Empty:
  // nowhere.
  std::string event_log_dir;
  CoordinatorObserver* observer = nullptr;  // not owned; outlives the coordinator

  // Where what another driver needs to take over is kept (core/coordinator/journal). Empty: nobody
  // can.
  std::string state_folder;
  // Take over what is in state_folder: cluster_id and port are those of the driver before, and
  // roles, input_mode, queues and program have to be what they were.
  bool resume = false;
};

// How often agents are to say that they live: as `heartbeat_interval` says, but those of a large
// cluster no more than 50,000 times a second altogether, where that leaves two and a half intervals
// within lost_after: a heartbeat may wait half of one for others of its host.
[[nodiscard]] inline absl::Duration PacedHeartbeatInterval(const CoordinatorOptions& options) {
  constexpr double kMaxPerSecond = 50'000;
  const absl::Duration paced =
      absl::Seconds(static_cast<double>(options.roles.size()) / kMaxPerSecond);
  return std::max(options.heartbeat_interval, std::min(paced, options.lost_after * 2 / 5));
}

enum class NodeFilter {
  kFed,             // chief or master, and workers
  kPsAndEvaluator,  // the others
  kEvaluator,
  kAll,
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_COORDINATOR_OPTIONS_H_
