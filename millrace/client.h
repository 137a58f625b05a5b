// File: millrace/client.h
//
// How a program that is not the driver looks at a running cluster, and stops or restarts what it
// runs.
//
// Defines: ClusterClientOptions, ClusterClientOptionsFrom(), ClusterPhase, FeedStatus,
// NodeFeedStatus, ClusterSnapshot, ClusterWatchOptions, WatchState, WatchCallbacks, ClusterWatch,
// ReadLogsOptions, LogLines, KeyEntry, ClusterClient.
//
//   MILLRACE_ASSIGN_OR_RETURN(ClusterFile cluster, NewestClusterFile());
//   MILLRACE_ASSIGN_OR_RETURN(
//       auto client, ClusterClient::Connect(ClusterClientOptionsFrom(cluster)));
//   MILLRACE_ASSIGN_OR_RETURN(ClusterSnapshot now, client->Snapshot());
//   for (const SlotStatus& slot : now.slots) {
//     std::cout << slot.role.ToString() << " is " << SlotStateName(slot.state) << "\n";
//   }
//
// Codes of every call, besides those that its comment names:
//   UNAVAILABLE        nobody answers there, or the cluster is gone: the message says which
//   UNAUTHENTICATED    the token is not one of that cluster
//   PERMISSION_DENIED  the token is of another kind; without an operator token: what needs one
//   FAILED_PRECONDITION  what answers there has another certificate: another cluster, or none
//   DEADLINE_EXCEEDED  no answer within ClusterClientOptions::timeout
// Messages name the address; tokens are never in them.

#ifndef MILLRACE_CLIENT_H_
#define MILLRACE_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/cluster_file.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"

namespace millrace {

struct ClusterClientOptions {
  std::string address;       // host:port
  std::string ca_pem;        // of the cluster
  std::string identity_pem;  // a client certificate of the cluster with its key. A secret.
  std::string viewer_token;  // for looking; an operator's will do too. A secret.
  // For StopCluster, RestartNode, ListKeys and Kv...; empty: these are refused here. A secret.
  std::string operator_token;
  absl::Duration timeout = absl::Seconds(10);  // of each call that does not say otherwise
  // Returns true if the caller knows that the cluster is gone for good, for instance because the
  // process behind a cluster file has ended. Called from the watch's thread. Null: the cluster
  // never counts as gone.
  std::function<bool()> owner_gone;
};

[[nodiscard]] ClusterClientOptions ClusterClientOptionsFrom(const ClusterFile& cluster);

// ---- what there is ------------------------------------------------------------------------------

enum class ClusterPhase {
  kReserving,  // not all nodes have been running yet
  kRunning,
  kStopping,  // the driver asked nodes to end
  kEnded,
  kFailed,  // first_cause says why
};

// One Train or Inference call. Rows are counted once for each partition, of its last session.
struct FeedStatus {
  std::string feed_id;
  std::string queue;
  int64_t partitions = 0;
  int64_t partitions_done = 0;
  int64_t partitions_failed = 0;
  uint64_t rows_received = 0;  // by nodes
  uint64_t rows_acked = 0;     // used by their programs
  uint64_t rows_returned = 0;  // results
  uint64_t rows_refed = 0;     // sent again, though a node may have used them
  bool closed = false;         // the call is over
  absl::Time opened;
};

// What the newest attempt of a fed node has received, over all its queues.
struct NodeFeedStatus {
  uint64_t rows = 0;
  uint64_t batches = 0;
  uint64_t batches_placed = 0;  // those of them that came through shared memory
  // Why rows of a feeder on its host, which would share memory, go through a socket; the last such
  // reason. Empty: there was none.
  std::string why_not_shared;
};

// A cluster at one time.
struct ClusterSnapshot {
  std::string cluster_id;
  ClusterPhase phase = ClusterPhase::kReserving;
  absl::Status first_cause;  // of kFailed
  InputMode input_mode = InputMode::kDirect;
  std::string name;     // what its driver calls it; may be empty
  std::string program;  // of the nodes
  std::string command;  // the same with its arguments; empty if the cluster does not say
  std::string log_dir;  // empty: a temporary one
  std::string driver_host;
  int64_t driver_pid = 0;
  absl::Time started;
  absl::Time time;  // of this snapshot, on the coordinator's clock
  // By executor id. agent_pid, stop_asked and has_feed are known to the driver only.
  std::vector<SlotStatus> slots;
  ClusterSpec spec;  // empty before all nodes have registered
  // What programs and sidecars published: by node ("worker:1"), then by name ("tensorboard").
  std::map<std::string, std::map<std::string, std::string>> endpoints;
  std::vector<FeedStatus> feeds;  // by feed id
  // By node ("worker:1"), of those that were fed.
  std::map<std::string, NodeFeedStatus> node_feeds;
};

// ---- watching -----------------------------------------------------------------------------------

struct ClusterWatchOptions {
  absl::Duration interval = absl::Seconds(1);  // the least time between two changes; 20 ms to 1 h
};

// What a watch is doing.
struct WatchState {
  enum class Kind {
    kConnecting,  // not reached yet; `reason` says why, after the first attempt
    kLive,        // updates come
    kStale,       // they came, and do not now: what is known is as of `since`; it tries again
    kGone,        // the cluster has ended: OK; or its owner has: UNAVAILABLE. Final.
    kRefused,     // wrong token or certificate, or a request that it does not take. Final.
  };
  Kind kind = Kind::kConnecting;
  absl::Time since;     // of this kind; for kStale: the last update's arrival
  absl::Status reason;  // of kConnecting, kStale, kGone and kRefused
  int reconnects = 0;   // so far
};

// Called from the watch's thread, one at a time. They may take their time: the coordinator does not
// wait; changes are gathered meanwhile.
struct WatchCallbacks {
  std::function<void(const ClusterSnapshot& now)> on_change;
  std::function<void(const WatchState& state)> on_state;
};

// A watch that runs. After a lost connection it resumes where it was, without gap or repeat: tries
// at once, then each 0.1 s to 2 s. Destroying it ends it. Thread: "client-watch".
class ClusterWatch {
 public:
  virtual ~ClusterWatch() = default;
  [[nodiscard]] virtual WatchState state() const = 0;
  // Ends it and waits for a callback under way. Idempotent. Not from a callback.
  virtual void Stop() = 0;
};

// ---- logs and keys ------------------------------------------------------------------------------

struct ReadLogsOptions {
  std::vector<int> executor_ids;  // empty: all
  int lines = 50;                 // of each node to begin with, 0 to 1,000
  bool follow = false;
};

// Lines of one node, in its order.
struct LogLines {
  int executor_id = 0;
  uint32_t attempt = 0;
  LogSource source = LogSource::kStdout;
  absl::Time time;  // when the coordinator had them
  std::vector<std::string> lines;
  uint64_t dropped = 0;  // lines before these that were left out here; log_dir has them
};

struct KeyEntry {
  std::string key;
  uint64_t value_bytes = 0;
};

// Thread safety: thread-safe. Blocking: every call but Connect(), Watch() and Cancel(). Lifetime: a
// watch may outlive its client.
class ClusterClient {
 public:
  // Does not connect yet. Returns INVALID_ARGUMENT if the address is not a host:port, or there is
  // no CA or no token at all.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ClusterClient>> Connect(
      ClusterClientOptions options);
  ~ClusterClient();
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  // ---- looking ----

  // The cluster as it is now.
  [[nodiscard]] absl::StatusOr<ClusterSnapshot> Snapshot();

  // Returns INVALID_ARGUMENT for options outside of their bounds.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterWatch>> Watch(
      const ClusterWatchOptions& options, WatchCallbacks callbacks);

  // Hands `consume` the lines as they come, until there are no more (without follow), the cluster
  // ends (OK), `consume` returns false (OK) or Cancel() is called (CANCELLED). No time limit.
  // Returns NOT_FOUND for an executor id that the cluster does not have.
  absl::Status ReadLogs(const ReadLogsOptions& options,
                        absl::FunctionRef<bool(const LogLines&)> consume);

  // ---- the operator's ----

  // Asks the nodes to end (`now`: kills them); the driver's calls return CANCELLED with the reason.
  absl::Status StopCluster(absl::string_view reason, bool now = false);

  // Ends the node and starts it again. Returns the attempt that it will have, or NOT_FOUND,
  // FAILED_PRECONDITION if it does not run.
  [[nodiscard]] absl::StatusOr<uint32_t> RestartNode(int executor_id, absl::string_view reason);

  // The key-value store of the nodes. A key has 1 to 1,024 bytes, a value at most 1 MiB.
  // Waits until the key exists, at most `wait`. NOT_FOUND, or DEADLINE_EXCEEDED if it waited.
  [[nodiscard]] absl::StatusOr<std::string> KvGet(absl::string_view key, absl::Duration wait);
  absl::Status KvSet(absl::string_view key, absl::string_view value);
  // Adds to a counter that starts at 0, and returns its new value. INVALID_ARGUMENT if the key
  // holds something else.
  [[nodiscard]] absl::StatusOr<int64_t> KvAdd(absl::string_view key, int64_t delta);
  // What the key held. NOT_FOUND.
  [[nodiscard]] absl::StatusOr<std::string> KvDelete(absl::string_view key);
  // In order. `*more` (may be null): there are more than `limit` (1 to 10,000).
  [[nodiscard]] absl::StatusOr<std::vector<KeyEntry>> ListKeys(absl::string_view prefix, int limit,
                                                               bool* more);

  // Ends ReadLogs() and calls under way, and refuses later ones: CANCELLED. Watches go on. May be
  // called from any thread.
  void Cancel();

 private:
  class Impl;
  explicit ClusterClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_H_
