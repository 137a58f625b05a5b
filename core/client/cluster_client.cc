#include <optional>
#include <string>
#include <utility>

#include "core/client/cluster_view.h"
#include "core/client/raw_cluster_client.h"
#include "core/proto/time_proto.h"
#include "millrace/client.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// A state newer than this program is as one that nothing is known of.
SlotState ToSlotState(v1::SlotState state) {
  const int index = static_cast<int>(state) - static_cast<int>(v1::SLOT_STATE_REQUESTED);
  return index < 0 || index >= kNumSlotStates ? SlotState::kRequested
                                              : static_cast<SlotState>(index);
}

absl::Status ToStatus(const v1::Error& error) {
  const bool known = error.code() >= 1 && error.code() <= 16;
  return absl::Status(
      known ? static_cast<absl::StatusCode>(error.code()) : absl::StatusCode::kUnknown,
      error.message());
}

SlotStatus ToSlot(const v1::SlotStatus& given, const v1::WatchUpdate::Node& node) {
  SlotStatus slot;
  slot.executor_id = given.executor_id();
  slot.role = {.job_name = given.job_name(), .task_index = given.task_index()};
  slot.state = ToSlotState(given.state());
  slot.attempt = given.attempt();
  slot.host = given.host();
  slot.address = given.address();
  slot.node_pid = given.pid();
  slot.attached = given.attached();
  slot.stopped = given.stopped();
  for (const v1::StateTime& reached : given.reached()) {
    slot.reached[static_cast<int>(ToSlotState(reached.state()))] = TimeFromProto(reached.time());
  }
  if (given.has_error()) slot.error = ToStatus(given.error());
  slot.restarts = static_cast<int>(node.restarts());
  slot.max_restarts = static_cast<int>(node.max_restarts());
  if (given.has_restart_at()) slot.restart_at = TimeFromProto(given.restart_at());
  return slot;
}

FeedStatus ToFeed(const v1::FeedInfo& given) {
  return {.feed_id = given.feed_id(),
          .queue = given.queue(),
          .partitions = given.partitions(),
          .partitions_done = given.done(),
          .partitions_failed = given.failed(),
          .rows_received = given.rows_received(),
          .rows_acked = given.rows_acked(),
          .rows_returned = given.rows_returned(),
          .rows_refed = given.rows_refed(),
          .closed = given.closed(),
          .opened = TimeFromProto(given.opened())};
}

// nullopt if nothing is known of its feed.
std::optional<NodeFeedStatus> ToNodeFeed(const v1::NodeSample& sample) {
  if (sample.queues().empty() && sample.why_not_shared().empty()) return std::nullopt;
  NodeFeedStatus status = {.why_not_shared = sample.why_not_shared()};
  for (const v1::QueueSample& queue : sample.queues()) {
    status.rows += queue.rows_received();
    status.batches += queue.batches_received();
    status.batches_placed += queue.batches_placed();
  }
  return status;
}

ClusterPhase ToPhase(v1::ClusterInfo::Phase phase) {
  switch (phase) {
    case v1::ClusterInfo::PHASE_RUNNING:
      return ClusterPhase::kRunning;
    case v1::ClusterInfo::PHASE_STOPPING:
      return ClusterPhase::kStopping;
    case v1::ClusterInfo::PHASE_ENDED:
      return ClusterPhase::kEnded;
    case v1::ClusterInfo::PHASE_FAILED:
      return ClusterPhase::kFailed;
    default:
      return ClusterPhase::kReserving;
  }
}

ClusterSnapshot ToSnapshot(const ClusterView& view) {
  const v1::ClusterInfo& cluster = view.cluster();
  ClusterSnapshot snapshot;
  snapshot.cluster_id = cluster.cluster_id();
  snapshot.phase = ToPhase(cluster.phase());
  if (cluster.has_first_cause()) snapshot.first_cause = ToStatus(cluster.first_cause());
  snapshot.input_mode =
      cluster.input_mode() == v1::INPUT_MODE_FEED ? InputMode::kFeed : InputMode::kDirect;
  snapshot.name = cluster.name();
  snapshot.program = cluster.program();
  snapshot.command = cluster.command();
  snapshot.log_dir = cluster.log_dir();
  snapshot.driver_host = cluster.driver_host();
  snapshot.driver_pid = cluster.driver_pid();
  snapshot.started = TimeFromProto(cluster.started());
  snapshot.time = view.time();
  for (size_t i = 0; i < view.slots().size(); ++i) {
    const v1::WatchUpdate::Node& node = view.nodes()[i];
    SlotStatus& slot = snapshot.slots.emplace_back(ToSlot(view.slots()[i], node));
    const std::string name = slot.role.ToString();
    if (auto feed = ToNodeFeed(node.sample())) snapshot.node_feeds[name] = *std::move(feed);
    if (node.endpoints().empty()) continue;
    snapshot.endpoints[name] = {node.endpoints().begin(), node.endpoints().end()};
  }
  snapshot.spec = view.spec();
  for (const auto& [id, feed] : view.feeds()) snapshot.feeds.push_back(ToFeed(feed));
  return snapshot;
}

LogSource ToSource(v1::LogLines::Source source) {
  switch (source) {
    case v1::LogLines::SOURCE_STDERR:
      return LogSource::kStderr;
    case v1::LogLines::SOURCE_AGENT:
      return LogSource::kAgent;
    default:
      return LogSource::kStdout;
  }
}

}  // namespace

class [[gnu::visibility("hidden")]] ClusterClient::Impl {
 public:
  explicit Impl(std::unique_ptr<RawClusterClient> given) : raw(std::move(given)) {}
  const std::unique_ptr<RawClusterClient> raw;
};

absl::StatusOr<std::unique_ptr<ClusterClient>> ClusterClient::Connect(
    ClusterClientOptions options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RawClusterClient> raw,
                            RawClusterClient::Connect(std::move(options)));
  return std::unique_ptr<ClusterClient>(new ClusterClient(std::make_unique<Impl>(std::move(raw))));
}

ClusterClient::ClusterClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClusterClient::~ClusterClient() = default;

absl::StatusOr<ClusterSnapshot> ClusterClient::Snapshot() {
  MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                            impl_->raw->Snapshot({.level = v1::WATCH_LEVEL_NODES}));
  return ToSnapshot(view);
}

absl::StatusOr<std::unique_ptr<ClusterWatch>> ClusterClient::Watch(
    const ClusterWatchOptions& options, WatchCallbacks callbacks) {
  RawWatchCallbacks raw;
  if (callbacks.on_change) {
    raw.on_update = [on_change = std::move(callbacks.on_change)](const v1::WatchUpdate&,
                                                                 const ClusterView& view) {
      on_change(ToSnapshot(view));
    };
  }
  raw.on_state = std::move(callbacks.on_state);
  return impl_->raw->Watch({.level = v1::WATCH_LEVEL_NODES, .interval = options.interval},
                           std::move(raw));
}

absl::Status ClusterClient::ReadLogs(const ReadLogsOptions& options,
                                     absl::FunctionRef<bool(const LogLines&)> consume) {
  return impl_->raw->ReadLogs(options, [&consume](const v1::LogBatch& batch) {
    return consume({.executor_id = batch.executor_id(),
                    .attempt = batch.attempt(),
                    .source = ToSource(batch.source()),
                    .time = TimeFromProto(batch.time()),
                    .lines = {batch.lines().begin(), batch.lines().end()},
                    .dropped = batch.dropped()});
  });
}

absl::Status ClusterClient::StopCluster(absl::string_view reason, bool now) {
  return impl_->raw->StopCluster(reason, now);
}
absl::StatusOr<uint32_t> ClusterClient::RestartNode(int executor_id, absl::string_view reason) {
  return impl_->raw->RestartNode(executor_id, reason);
}
absl::StatusOr<std::string> ClusterClient::KvGet(absl::string_view key, absl::Duration wait) {
  return impl_->raw->KvGet(key, wait);
}
absl::Status ClusterClient::KvSet(absl::string_view key, absl::string_view value) {
  return impl_->raw->KvSet(key, value);
}
absl::StatusOr<int64_t> ClusterClient::KvAdd(absl::string_view key, int64_t delta) {
  return impl_->raw->KvAdd(key, delta);
}
absl::StatusOr<std::string> ClusterClient::KvDelete(absl::string_view key) {
  return impl_->raw->KvDelete(key);
}
absl::StatusOr<std::vector<KeyEntry>> ClusterClient::ListKeys(absl::string_view prefix, int limit,
                                                              bool* more) {
  return impl_->raw->ListKeys(prefix, limit, more);
}
void ClusterClient::Cancel() { impl_->raw->Cancel(); }

}  // namespace millrace
