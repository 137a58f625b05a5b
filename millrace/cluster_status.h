// File: millrace/cluster_status.h
//
// What the coordinator knows of its cluster, as plain values: the slots with the time of each step,
// and the first cause of a failure.
//
// Defines: InputMode, SlotState, SlotStateName(), SlotStatus, NodeFailure, FailureText(),
// FailureStatus(), NodeRestart, RestartText(), QuarantinedHost, LogSource, ClusterStatus.
//
//   for (const SlotStatus& slot : cluster->Status().slots) {
//     std::cout << slot.role.ToString() << " " << SlotStateName(slot.state) << "\n";
//   }
//
// Thread safety: ordinary values and pure functions.

#ifndef MILLRACE_CLUSTER_STATUS_H_
#define MILLRACE_CLUSTER_STATUS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/exit_status.h"
#include "millrace/node_role.h"

namespace millrace {

// Who brings nodes their data.
enum class InputMode {
  kDirect,  // they read their own (TensorFlowOnSpark: TENSORFLOW)
  kFeed,    // the driver feeds chief, master and workers (TensorFlowOnSpark: SPARK)
};

// Where a log line comes from.
enum class LogSource { kStdout, kStderr, kAgent };

// The ladder of a slot. The numbers are those of the wire's SlotState, less one.
enum class SlotState {
  kRequested = 0,   // opened; nobody is there yet
  kStarted = 1,     // the launcher started an agent process
  kConnected = 2,   // the agent's stream is accepted for this slot
  kRegistered = 3,  // the agent has its role, nonce and certificate
  kReady = 4,       // the agent has spec, port and GPUs; the program is about to start
  kRunning = 5,     // exec succeeded
  kDraining = 6,    // the program was asked to end
  kFinished = 7,    // the program ended with exit code 0, or as it was asked to
  kFailed = 8,      // the program or its agent failed
  kLost = 9,        // the agent does not answer any more
};
inline constexpr int kNumSlotStates = 10;

// "requested", ..., "lost".
[[nodiscard]] absl::string_view SlotStateName(SlotState state);

// The states in which no program runs and none will without a replacement.
[[nodiscard]] bool IsEnded(SlotState state);

struct SlotStatus {
  int executor_id = 0;
  NodeRole role;
  SlotState state = SlotState::kRequested;
  uint32_t attempt = 0;
  std::string host;         // empty before kConnected
  std::string address;      // as in the ClusterSpec; empty before kConnected
  int64_t agent_pid = 0;    // 0: unknown
  int64_t node_pid = 0;     // 0: no program runs
  bool attached = false;    // the agent's stream is open
  bool stopped = false;     // the program is stopped by a signal (SIGSTOP)
  bool stop_asked = false;  // the driver asked this node to end
  bool has_feed = false;    // the program published a feed endpoint
  // When this attempt reached each state, wall time by the coordinator's clock; InfinitePast() if
  // it did not. Index: static_cast<int>(SlotState).
  std::array<absl::Time, kNumSlotStates> reached;
  absl::Status error;  // why the slot is kFailed or kLost; OK otherwise
  // How often it was started again, within RestartPolicy::window, and how often it may be.
  int restarts = 0;
  int max_restarts = 0;
  // When the next attempt is due; unset if none is planned.
  std::optional<absl::Time> restart_at;

  SlotStatus() { reached.fill(absl::InfinitePast()); }
  [[nodiscard]] absl::Time ReachedAt(SlotState at) const { return reached[static_cast<int>(at)]; }
};

// One node that failed: everything a person needs to see.
struct NodeFailure {
  int executor_id = 0;
  NodeRole role;
  uint32_t attempt = 0;
  std::string host;     // empty: unknown
  int64_t pid = 0;      // of the node; 0: none ran
  absl::Status status;  // the code that the driver gets, and what happened: "was killed by SIGKILL"
  ExitStatus exit;      // kUnknown where no process ended
  bool of_agent = false;  // it was the agent that ended: `exit` is its own, not the program's
  std::vector<std::string> stderr_tail;  // at most 50 lines, oldest first
  absl::Time time;                       // when the coordinator heard of it
  // When the first sign of it was seen, by the coordinator's steady clock: the first of its
  // last lines on stderr, if it wrote any shortly before its end, otherwise the end.
  absl::Duration first_sign;
  // The program said nothing of why it ended: nobody knows whether it is the echo of another
  // node's.
  bool unexplained = false;
  // Other nodes that failed too, with how, the first few: "worker:1 exited with code 1".
  std::vector<std::string> others;
  // The failure looks like the echo of another node's (UNAVAILABLE from a peer that died).
  bool consequence = false;
  // Where there were restarts: why there is none this time ("all 2 restarts are used"), and how the
  // attempts before ended ("attempt 0 was killed by SIGKILL"), the last few, oldest first.
  std::string no_restart;
  std::vector<std::string> earlier_attempts;
  // With `consequence`: failures of other nodes that were healed shortly before.
  std::vector<std::string> healed_nearby;
};

// The text for people. The first line is complete in itself:
//
//   worker:1 (executor 3, attempt 0, host h, pid 123) was killed by SIGKILL (if nobody did that,
//   its host was short of memory: see dmesg there); 2 later failures folded. Last stderr line:
//   'step 2000'
//
// (on one line), followed, if there is more than one, by "stderr, last 12 lines:" and the lines.
[[nodiscard]] std::string FailureText(const NodeFailure& failure, int folded);

// FailureText() under failure.status's code.
[[nodiscard]] absl::Status FailureStatus(const NodeFailure& failure, int folded);

// A failure that is healed: another attempt of the node follows.
struct NodeRestart {
  NodeFailure failure;
  absl::Duration after;  // from the failure to the next attempt
  int used = 0;          // restarts, this one included, within RestartPolicy::window
  int max = 0;
};

// One line for people: FailureText()'s first, and "worker:1 is started again in 500ms (restart 1 of
// 3)".
[[nodiscard]] std::string RestartText(const NodeRestart& restart);

// Restarts keep off this host until then.
struct QuarantinedHost {
  std::string host;
  absl::Time until;
};

struct ClusterStatus {
  std::string cluster_id;
  uint64_t epoch = 0;                      // of the ClusterSpec; 0: not all have registered yet
  std::vector<SlotStatus> slots;           // by executor id
  std::optional<NodeFailure> first_cause;  // of a failed cluster
  int folded_failures = 0;                 // later failures behind first_cause
  uint64_t fenced_updates = 0;             // messages of lower attempts or replaced agents, ignored
  uint64_t illegal_updates = 0;            // messages that made no sense in the slot's state
  std::vector<QuarantinedHost> quarantined;  // by name
  absl::Time time;                           // of this snapshot
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_STATUS_H_
