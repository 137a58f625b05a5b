// What readers get.

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/coordinator/view/view_store.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

// The limits of one LogBatch of ReadLogs.
constexpr size_t kBatchBytes = size_t{256} << 10;
constexpr int kBatchLines = 1000;

bool SeesNodes(const ViewCursor& cursor) { return cursor.level >= v1::WATCH_LEVEL_NODES; }
bool SeesAll(const ViewCursor& cursor) { return cursor.level >= v1::WATCH_LEVEL_ALL; }

}  // namespace

struct ViewStore::Gathered {
  struct NodeValue {
    int executor_id = 0;
    std::shared_ptr<const v1::NodeSample> sample;
    absl::Time received;
    std::shared_ptr<const std::map<std::string, std::string>> endpoints;
    std::shared_ptr<const std::vector<v1::QueueLedger>> ledger;
    std::shared_ptr<const SlotStatus> slot;
  };
  // The lines of an entry from `skip` on.
  struct Lines {
    std::shared_ptr<const LogEntry> entry;
    size_t skip = 0;
  };

  uint64_t seq = 0;
  bool snapshot = false;
  bool gpus = false;
  std::optional<v1::ClusterInfo> cluster;
  std::vector<std::shared_ptr<const SlotStatus>> slots;
  std::vector<NodeValue> nodes;
  std::vector<v1::SpecUpdate> spec_changes;
  std::shared_ptr<const v1::SpecUpdate> whole_spec;
  std::optional<std::pair<ClusterSpec, uint64_t>> spec;  // to be made into whole_spec
  std::vector<std::shared_ptr<const v1::FeedInfo>> feeds;
  std::vector<std::string> removed_feeds;
  std::vector<std::shared_ptr<const v1::MetricPoint>> metrics;
  std::vector<std::shared_ptr<const v1::Event>> events;
  std::vector<Lines> logs;
  uint64_t dropped_metrics = 0;
  uint64_t dropped_events = 0;
  uint64_t dropped_lines = 0;
};

// ---- where a reader is --------------------------------------------------------------------------

uint32_t ViewStore::NewsOf(const ViewCursor& cursor) {
  uint32_t news = kClusterNews;
  if (SeesNodes(cursor)) news |= kNodeNews;
  if (SeesAll(cursor)) news |= kMetricNews;
  if (SeesAll(cursor) && cursor.log_lines > 0) news |= kLogNews;
  return news;
}

void ViewStore::MarkCheckpoint() {
  if (!checkpoints_.empty() && checkpoints_.back().seq == seq_) return;
  checkpoints_.push_back({seq_, num_lines_, num_metrics_, num_events_});
  if (checkpoints_.size() > options_.limits.checkpoints) checkpoints_.pop_front();
}

ViewCursor ViewStore::Resume(const Request& request) {
  ViewCursor cursor;
  cursor.level = request.level == v1::WATCH_LEVEL_UNSPECIFIED ? v1::WATCH_LEVEL_ALL : request.level;
  cursor.log_lines = request.log_lines;
  MutexLock lock(&mu_);
  if (request.incarnation != options_.incarnation) return cursor;
  const auto at = std::lower_bound(
      checkpoints_.begin(), checkpoints_.end(), request.resume_after,
      [](const Checkpoint& checkpoint, uint64_t seq) { return checkpoint.seq < seq; });
  if (at == checkpoints_.end() || at->seq != request.resume_after) return cursor;
  cursor.seq = at->seq;
  cursor.lines = at->lines;
  cursor.metrics = at->metrics;
  cursor.events = at->events;
  return cursor;
}

bool ViewStore::HasNews(const ViewCursor& cursor) const {
  MutexLock lock(&mu_);
  return cursor.seq == 0 || LastOf(NewsOf(cursor)) > cursor.seq;
}

// ---- gathering, under the lock ------------------------------------------------------------------

void ViewStore::GatherNodes(uint64_t after, Gathered* out) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.slot_seq > after) out->slots.push_back(node.slot);
    if (node.node_seq > after) {
      out->nodes.push_back({static_cast<int>(i), node.sample, node.received, node.endpoints,
                            node.ledger, node.slot});
    }
  }
}

void ViewStore::GatherSpec(uint64_t after, Gathered* out) {
  if (spec_epoch_ == 0 || spec_seq_ <= after) return;
  if (after != 0 && after >= spec_floor_) {
    for (const Numbered<v1::SpecUpdate>& change : spec_changes_) {
      if (change.seq > after) out->spec_changes.push_back(change.value);
    }
    return;
  }
  if (whole_spec_ != nullptr && whole_spec_->epoch() == spec_epoch_) {
    out->whole_spec = whole_spec_;
  } else {
    out->spec.emplace(spec_, spec_epoch_);
  }
}

void ViewStore::GatherLastLogs(size_t lines, uint64_t seen, Gathered* out) {
  if (lines == 0 || nodes_with_logs_ == 0) return;
  const size_t share = options_.limits.update_log_bytes / nodes_with_logs_;
  uint64_t told = 0;  // of those that came after `seen`
  for (const Node& node : nodes_) {
    if (node.logs == nullptr) continue;
    const std::deque<LogList::iterator>& entries = node.logs->entries;
    size_t left = lines;
    size_t bytes = 0;
    auto begin = entries.end();
    size_t skip = 0;
    while (begin != entries.begin() && left > 0) {
      const LogEntry& entry = ***std::prev(begin);
      if (bytes > 0 && bytes + entry.bytes > share) break;
      bytes += entry.bytes;
      --begin;
      skip = entry.lines.size() - std::min(left, entry.lines.size());
      left -= entry.lines.size() - skip;
    }
    for (auto it = begin; it != entries.end(); ++it) {
      const std::shared_ptr<const LogEntry>& entry = **it;
      const size_t from = it == begin ? skip : 0;
      out->logs.push_back({entry, from});
      const uint64_t first = std::max(entry->first + from, seen);
      const uint64_t end = entry->first + entry->lines.size();
      if (end > first) told += end - first;
    }
  }
  if (seen > 0) out->dropped_lines = num_lines_ - seen - told;
}

void ViewStore::GatherNewLogs(uint64_t seen, uint64_t after, Gathered* out) {
  size_t bytes = 0;
  uint64_t told = 0;
  for (auto it = logs_.rbegin(); it != logs_.rend() && (*it)->seq > after; ++it) {
    const LogEntry& entry = **it;
    if (bytes > 0 && bytes + entry.bytes > options_.limits.update_log_bytes) break;
    bytes += entry.bytes;
    told += entry.lines.size();
    out->logs.push_back({*it, 0});
  }
  std::reverse(out->logs.begin(), out->logs.end());
  out->dropped_lines = num_lines_ - seen - told;
}

void ViewStore::GatherRings(const ViewCursor& cursor, bool snapshot, Gathered* out) {
  const uint64_t after = snapshot ? 0 : cursor.seq;
  const bool missed = cursor.seq != 0;  // a reader that begins has missed nothing
  for (auto it = events_.rbegin(); it != events_.rend() && it->seq > after; ++it) {
    out->events.push_back(it->value);
  }
  std::reverse(out->events.begin(), out->events.end());
  const uint64_t first_event = num_events_ - events_.size();
  if (missed && first_event > cursor.events) out->dropped_events = first_event - cursor.events;
  if (!SeesAll(cursor)) return;
  for (auto it = metrics_.rbegin(); it != metrics_.rend() && it->seq > after; ++it) {
    if (out->metrics.size() >= options_.limits.update_metrics) break;
    out->metrics.push_back(it->value);
  }
  std::reverse(out->metrics.begin(), out->metrics.end());
  const uint64_t first_metric = num_metrics_ - out->metrics.size();
  if (missed && first_metric > cursor.metrics) out->dropped_metrics = first_metric - cursor.metrics;
  if (cursor.log_lines == 0) return;
  if (snapshot) {
    GatherLastLogs(cursor.log_lines, missed ? cursor.lines : 0, out);
  } else {
    GatherNewLogs(cursor.lines, after, out);
  }
}

void ViewStore::Gather(const ViewCursor& cursor, bool snapshot, Gathered* out) {
  const uint64_t after = snapshot ? 0 : cursor.seq;
  out->seq = seq_;
  out->snapshot = snapshot;
  out->gpus = SeesAll(cursor);
  if (cluster_seq_ > after) out->cluster = cluster_;
  for (const auto& [id, feed] : feeds_) {
    if (feed.seq > after) out->feeds.push_back(feed.info);
  }
  if (!snapshot) {
    for (auto it = removed_feeds_.rbegin(); it != removed_feeds_.rend() && it->seq > after; ++it) {
      // A feed that has been opened again since then is not removed.
      if (feeds_.find(it->value) == feeds_.end()) out->removed_feeds.push_back(it->value);
    }
  }
  if (SeesNodes(cursor)) {
    GatherNodes(after, out);
    GatherSpec(after, out);
  }
  GatherRings(cursor, snapshot, out);
}

// ---- an update ----------------------------------------------------------------------------------

std::shared_ptr<const v1::SpecUpdate> ViewStore::WholeSpec(const Gathered& gathered) {
  if (!gathered.spec.has_value()) return gathered.whole_spec;
  auto whole = std::make_shared<const v1::SpecUpdate>(
      MakeSpecUpdate(gathered.spec->first, gathered.spec->second));
  MutexLock lock(&mu_);
  whole_spec_ = whole;
  return whole;
}

v1::WatchUpdate ViewStore::Next(ViewCursor* cursor) {
  Gathered gathered;
  {
    MutexLock lock(&mu_);
    const bool snapshot = cursor->seq == 0 || cursor->seq < removed_floor_;
    Gather(*cursor, snapshot, &gathered);
    MarkCheckpoint();
    cursor->seq = seq_;
    cursor->lines = num_lines_;
    cursor->metrics = num_metrics_;
    cursor->events = num_events_;
  }
  v1::WatchUpdate update;
  update.set_seq(gathered.seq);
  update.set_snapshot(gathered.snapshot);
  update.set_incarnation(options_.incarnation);
  *update.mutable_time() = TimeToProto(clock_->Now());
  if (gathered.cluster.has_value()) *update.mutable_cluster() = *std::move(gathered.cluster);
  for (const auto& slot : gathered.slots) ToSlotProto(*slot, update.add_slots());
  for (const Gathered::NodeValue& value : gathered.nodes) {
    v1::WatchUpdate::Node* node = update.add_nodes();
    node->set_executor_id(value.executor_id);
    if (value.sample != nullptr) {
      *node->mutable_sample() = *value.sample;
      if (!gathered.gpus) {
        node->mutable_sample()->clear_gpus();
        node->mutable_sample()->clear_gpus_unknown();
      }
      *node->mutable_received() = TimeToProto(value.received);
    }
    if (value.endpoints != nullptr) {
      node->mutable_endpoints()->insert(value.endpoints->begin(), value.endpoints->end());
    }
    if (value.ledger != nullptr) {
      for (const v1::QueueLedger& queue : *value.ledger) *node->add_ledger() = queue;
    }
    if (value.slot != nullptr) {
      node->set_restarts(static_cast<uint32_t>(value.slot->restarts));
      node->set_max_restarts(static_cast<uint32_t>(value.slot->max_restarts));
    }
  }
  if (const auto whole = WholeSpec(gathered); whole != nullptr) *update.add_membership() = *whole;
  for (v1::SpecUpdate& change : gathered.spec_changes) {
    *update.add_membership() = std::move(change);
  }
  for (const auto& feed : gathered.feeds) *update.add_feeds() = *feed;
  for (std::string& feed_id : gathered.removed_feeds) {
    update.add_removed_feeds(std::move(feed_id));
  }
  for (const auto& point : gathered.metrics) *update.add_metrics() = *point;
  for (const auto& event : gathered.events) *update.add_events() = *event;
  for (const Gathered::Lines& lines : gathered.logs) {
    const LogEntry& entry = *lines.entry;
    v1::LogBatch* batch = update.add_logs();
    batch->set_executor_id(entry.executor_id);
    batch->set_attempt(entry.attempt);
    batch->set_source(entry.source);
    *batch->mutable_time() = TimeToProto(entry.time);
    for (size_t i = lines.skip; i < entry.lines.size(); ++i) batch->add_lines(entry.lines[i]);
    batch->set_dropped(lines.skip == 0 ? entry.dropped : 0);
  }
  update.set_dropped_metrics(gathered.dropped_metrics);
  update.set_dropped_events(gathered.dropped_events);
  update.set_dropped_log_lines(gathered.dropped_lines);
  return update;
}

// ---- ReadLogs -----------------------------------------------------------------------------------

LogCursor ViewStore::BeginLogs(std::vector<int> nodes, size_t lines, bool follow) const {
  LogCursor cursor;
  cursor.follow = follow;
  if (nodes.empty()) {
    for (int id = 0; id < num_slots(); ++id) nodes.push_back(id);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  cursor.nodes = std::move(nodes);
  MutexLock lock(&mu_);
  cursor.seq = seq_;
  for (const int id : cursor.nodes) {
    const NodeLogs* const logs = nodes_[id].logs.get();
    const uint64_t total = logs == nullptr ? 0 : logs->total;
    const uint64_t kept = logs == nullptr ? 0 : logs->kept;
    cursor.lines.push_back(total - std::min<uint64_t>(lines, kept));
  }
  return cursor;
}

bool ViewStore::HasLogs(const LogCursor& cursor) const {
  MutexLock lock(&mu_);
  return cursor.beginning < cursor.nodes.size() || (cursor.follow && LastOf(kLogNews) > cursor.seq);
}

std::optional<v1::LogBatch> ViewStore::NextLogs(LogCursor* cursor) const {
  MutexLock lock(&mu_);
  v1::LogBatch batch;
  size_t bytes = 0;
  // Adds what of the entry has not been passed. False: it does not belong into the same batch.
  const auto add = [&](const LogEntry& entry, uint64_t* passed) {
    const uint64_t end = entry.first_own + entry.lines.size();
    const bool fresh = batch.lines_size() == 0 && batch.dropped() == 0;
    const uint64_t dropped =
        entry.dropped + (entry.first_own > *passed ? entry.first_own - *passed : 0);
    if (!fresh && (batch.executor_id() != entry.executor_id || batch.attempt() != entry.attempt ||
                   batch.source() != entry.source || dropped > 0 ||
                   bytes + entry.bytes > kBatchBytes || batch.lines_size() >= kBatchLines)) {
      return false;
    }
    if (fresh) {
      batch.set_executor_id(entry.executor_id);
      batch.set_attempt(entry.attempt);
      batch.set_source(entry.source);
      batch.set_dropped(entry.first_own >= *passed ? dropped : 0);
    }
    *batch.mutable_time() = TimeToProto(entry.time);
    const uint64_t first = std::max(entry.first_own, *passed);
    for (uint64_t i = first; i < end; ++i) batch.add_lines(entry.lines[i - entry.first_own]);
    *passed = std::max(*passed, end);
    bytes += entry.bytes;
    return true;
  };

  // The lines that there were at the beginning, node by node.
  for (; cursor->beginning < cursor->nodes.size(); ++cursor->beginning) {
    const NodeLogs* const logs = nodes_[cursor->nodes[cursor->beginning]].logs.get();
    if (logs == nullptr) continue;
    uint64_t* const passed = &cursor->lines[cursor->beginning];
    for (const LogList::iterator& it : logs->entries) {
      const LogEntry& entry = **it;
      if (entry.seq > cursor->seq) break;
      if (entry.first_own + entry.lines.size() <= *passed) continue;
      if (!add(entry, passed)) return batch;
    }
    if (batch.lines_size() > 0 || batch.dropped() > 0) {
      ++cursor->beginning;
      return batch;
    }
  }
  if (!cursor->follow) return std::nullopt;

  // Then what came since, in the order of all.
  auto it = logs_.end();
  while (it != logs_.begin() && (*std::prev(it))->seq > cursor->seq) --it;
  for (; it != logs_.end(); ++it) {
    const LogEntry& entry = **it;
    const auto node =
        std::lower_bound(cursor->nodes.begin(), cursor->nodes.end(), entry.executor_id);
    if (node != cursor->nodes.end() && *node == entry.executor_id) {
      if (!add(entry, &cursor->lines[node - cursor->nodes.begin()])) return batch;
    }
    cursor->seq = entry.seq;
  }
  cursor->seq = seq_;
  if (batch.lines_size() == 0 && batch.dropped() == 0) return std::nullopt;
  return batch;
}

}  // namespace millrace
