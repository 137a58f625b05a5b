// File: core/client/raw_cluster_client.h
//
// ClusterClient (millrace/client.h) with what the coordinator sends as it sends it: for the command
// line and the window, which show all of it, and must not copy a snapshot of 40 MB to do so.
//
// Defines: RawWatchOptions, RawWatchCallbacks, RawSnapshotOptions, RawClusterClient.
//
//   MILLRACE_ASSIGN_OR_RETURN(ClusterFile cluster, NewestClusterFile());
//   MILLRACE_ASSIGN_OR_RETURN(
//       auto client, RawClusterClient::Connect(ClusterClientOptionsFrom(cluster)));
//   MILLRACE_ASSIGN_OR_RETURN(ClusterView view, client->Snapshot());
//   std::cout << view.cluster().cluster_id() << ": " << view.slots().size() << " slots\n";
//
// Codes as millrace/client.h says.

#ifndef CORE_CLIENT_RAW_CLUSTER_CLIENT_H_
#define CORE_CLIENT_RAW_CLUSTER_CLIENT_H_

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
#include "core/client/cluster_view.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/watch.pb.h"
#include "millrace/client.h"

namespace millrace {

struct RawWatchOptions {
  v1::WatchLevel level = v1::WATCH_LEVEL_ALL;
  absl::Duration interval = ClusterWatchOptions().interval;
  int log_lines = 0;  // of each node at first, 0 to 1,000; 0: no lines
};

// Called from the watch's thread, one at a time. They may take their time: the coordinator does not
// wait, and tells what was missed (dropped_... of WatchUpdate).
struct RawWatchCallbacks {
  // `update` as it came; `view` with it folded in, valid during the call. Null: no view is made.
  std::function<void(const v1::WatchUpdate& update, const ClusterView& view)> on_update;
  // The update itself, after on_update: nobody else has it, and it lies in an arena of its own.
  std::function<void(std::shared_ptr<v1::WatchUpdate> update)> take_update;
  std::function<void(const WatchState& state)> on_state;
};

struct RawSnapshotOptions {
  v1::WatchLevel level = v1::WATCH_LEVEL_ALL;
};

// Thread safety: thread-safe. Blocking: as each method says. Lifetime: a watch may outlive its
// client.
class RawClusterClient {
 public:
  // Does not reach out yet. Returns INVALID_ARGUMENT if the address is none, or there is no CA or
  // no token at all.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RawClusterClient>> Connect(
      ClusterClientOptions options);
  virtual ~RawClusterClient() = default;

  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<ClusterWatch>> Watch(
      const RawWatchOptions& options, RawWatchCallbacks callbacks) = 0;

  [[nodiscard]] virtual absl::StatusOr<ClusterView> Snapshot(const RawSnapshotOptions& options) = 0;
  [[nodiscard]] absl::StatusOr<ClusterView> Snapshot() { return Snapshot(RawSnapshotOptions()); }

  virtual absl::Status ReadLogs(const ReadLogsOptions& options,
                                absl::FunctionRef<bool(const v1::LogBatch&)> consume) = 0;

  // The rest as ClusterClient.
  virtual absl::Status StopCluster(absl::string_view reason, bool now) = 0;
  [[nodiscard]] virtual absl::StatusOr<uint32_t> RestartNode(int executor_id,
                                                             absl::string_view reason) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::string> KvGet(absl::string_view key,
                                                          absl::Duration wait) = 0;
  virtual absl::Status KvSet(absl::string_view key, absl::string_view value) = 0;
  [[nodiscard]] virtual absl::StatusOr<int64_t> KvAdd(absl::string_view key, int64_t delta) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::string> KvDelete(absl::string_view key) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::vector<KeyEntry>> ListKeys(absl::string_view prefix,
                                                                       int limit, bool* more) = 0;
  virtual void Cancel() = 0;
};

}  // namespace millrace

#endif  // CORE_CLIENT_RAW_CLUSTER_CLIENT_H_
