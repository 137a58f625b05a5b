// File: core/client/cluster_client.h
//
// How a program that is not the driver looks at a running cluster, and stops or restarts what it
// runs.
//
// Defines: ClientOptions, ClientOptionsFrom(), ClusterWatchOptions, WatchState, WatchCallbacks,
// ClusterWatch, SnapshotOptions, ReadLogsOptions, KeyEntry, ClusterClient.
//
//   MILLRACE_ASSIGN_OR_RETURN(ClusterFile cluster, NewestClusterFile());
//   MILLRACE_ASSIGN_OR_RETURN(auto client, ClusterClient::Connect(ClientOptionsFrom(cluster)));
//   MILLRACE_ASSIGN_OR_RETURN(ClusterView view, client->Snapshot());
//   std::cout << view.cluster().cluster_id() << ": " << view.slots().size() << " slots\n";
//
// Codes of every call, besides those that its comment names:
//   UNAVAILABLE        nobody answers there, or the cluster is gone: the message says which
//   UNAUTHENTICATED    the token is not one of that cluster
//   PERMISSION_DENIED  the token is of another kind; without an operator token: what needs one
//   FAILED_PRECONDITION  what answers there has another certificate: another cluster, or none
//   DEADLINE_EXCEEDED  no answer within ClientOptions::timeout
// Messages name the address; tokens are never in them.

#ifndef CORE_CLIENT_CLUSTER_CLIENT_H_
#define CORE_CLIENT_CLUSTER_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/client/cluster_file.h"
#include "core/client/cluster_view.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/watch.pb.h"

namespace millrace {

struct ClientOptions {
  std::string address;         // host:port
  std::string ca_pem;          // of the cluster
  std::string identity_pem;    // a client certificate of the cluster with its key. A secret.
  std::string viewer_token;    // for looking; an operator's will do too. A secret.
  std::string operator_token;  // for StopCluster, RestartNode, Kv. Empty: these are refused here.
  absl::Duration timeout = absl::Seconds(10);  // of each call that does not say otherwise
  // Says that the cluster is gone for good, where the caller can tell (the process behind a cluster
  // file has ended). Called from the watch's thread. Null: it never is.
  std::function<bool()> owner_gone;
};

[[nodiscard]] ClientOptions ClientOptionsFrom(const ClusterFile& cluster);

struct ClusterWatchOptions {
  v1::WatchLevel level = v1::WATCH_LEVEL_ALL;
  absl::Duration interval = absl::Seconds(1);  // at least 20 ms
  int log_lines = 0;                           // of each node at first, 0 to 1,000; 0: no lines
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
// wait, and tells what was missed (dropped_... of WatchUpdate).
struct WatchCallbacks {
  // `update` as it came; `view` with it folded in, valid during the call.
  std::function<void(const v1::WatchUpdate& update, const ClusterView& view)> on_update;
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

struct SnapshotOptions {
  v1::WatchLevel level = v1::WATCH_LEVEL_ALL;
};

struct ReadLogsOptions {
  std::vector<int> executor_ids;  // empty: all
  int lines = 50;                 // of each node to begin with, 0 to 1,000
  bool follow = false;
};

struct KeyEntry {
  std::string key;
  uint64_t value_bytes = 0;
};

// Thread safety: thread-safe. Blocking: as each method says. Lifetime: a watch may outlive its
// client.
class ClusterClient {
 public:
  // Does not reach out yet. Returns INVALID_ARGUMENT if the address is none, or there is no CA or
  // no token at all.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ClusterClient>> Connect(
      ClientOptions options);
  virtual ~ClusterClient() = default;

  // ---- looking ----

  // Returns INVALID_ARGUMENT for options outside of their bounds.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<ClusterWatch>> Watch(
      const ClusterWatchOptions& options, WatchCallbacks callbacks) = 0;

  // The cluster as it is now.
  [[nodiscard]] virtual absl::StatusOr<ClusterView> Snapshot(const SnapshotOptions& options) = 0;
  [[nodiscard]] absl::StatusOr<ClusterView> Snapshot() { return Snapshot(SnapshotOptions()); }

  // Hands `consume` the lines as they come, until there are no more (without follow), the cluster
  // ends (OK), `consume` returns false (OK) or Cancel() is called (CANCELLED). No time limit.
  // Returns NOT_FOUND for an executor id that the cluster does not have.
  virtual absl::Status ReadLogs(const ReadLogsOptions& options,
                                absl::FunctionRef<bool(const v1::LogBatch&)> consume) = 0;

  // ---- the operator's ----

  // The nodes are asked to end (now: killed); the driver sees CANCELLED with the reason.
  virtual absl::Status StopCluster(absl::string_view reason, bool now = false) = 0;

  // Ends the node and starts it again. Returns the attempt that it will have, or NOT_FOUND,
  // FAILED_PRECONDITION if it does not run.
  [[nodiscard]] virtual absl::StatusOr<uint32_t> RestartNode(int executor_id,
                                                             absl::string_view reason) = 0;

  // The key-value store of the nodes. Codes as KvRequest in core/proto/coordinator.proto says.
  [[nodiscard]] virtual absl::StatusOr<std::string> KvGet(absl::string_view key,
                                                          absl::Duration wait) = 0;
  virtual absl::Status KvSet(absl::string_view key, absl::string_view value) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::string> KvAdd(absl::string_view key, int64_t delta) = 0;
  // What the key held.
  [[nodiscard]] virtual absl::StatusOr<std::string> KvDelete(absl::string_view key) = 0;
  // In order. `*more` (may be null): there are more than `limit` (1 to 10,000).
  [[nodiscard]] virtual absl::StatusOr<std::vector<KeyEntry>> ListKeys(absl::string_view prefix,
                                                                       int limit, bool* more) = 0;

  // Ends ReadLogs() and calls under way, and refuses later ones: CANCELLED. Watches go on. May be
  // called from any thread.
  virtual void Cancel() = 0;
};

}  // namespace millrace

#endif  // CORE_CLIENT_CLUSTER_CLIENT_H_
