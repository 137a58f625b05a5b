// What changes. What readers get is in view_store_read.cc.

#include "core/coordinator/view/view_store.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/coordinator/state/feed_proto.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/time_proto.h"
#include "google/protobuf/arena.h"

namespace millrace {
namespace {

// What an entry of the log costs besides its lines, and a line besides its bytes.
constexpr size_t kEntryBytes = 200;
constexpr size_t kLineBytes = sizeof(std::string);

// A copy in one piece. A sample lies here for seconds among thousands of others: in a hundred
// pieces each of them would be fetched from memory to be read or freed, which takes longer than the
// copy.
std::shared_ptr<const v1::NodeSample> Compact(const v1::NodeSample& sample) {
  google::protobuf::ArenaOptions options;
  options.start_block_size = std::max<size_t>(512, sample.ByteSizeLong() * 3);
  auto arena = std::make_shared<google::protobuf::Arena>(options);
  auto* const copy = google::protobuf::Arena::CreateMessage<v1::NodeSample>(arena.get());
  *copy = sample;
  return {std::move(arena), copy};
}

}  // namespace

ViewStore::ViewStore(Options options)
    : options_(std::move(options)), clock_(options_.clock), nodes_(options_.num_slots) {
  MILLRACE_CHECK(!options_.incarnation.empty());
  MutexLock lock(&mu_);
  cluster_.set_num_slots(options_.num_slots);
  cluster_.set_first_cause_executor(-1);
  for (int i = 0; i <= kNumSlotStates; ++i) cluster_.add_by_state(0);
  cluster_seq_ = Changed(kClusterNews);
}

uint64_t ViewStore::Changed(uint32_t news) {
  ++seq_;
  for (size_t bit = 0; bit < last_.size(); ++bit) {
    if ((news & (1u << bit)) != 0) last_[bit] = seq_;
  }
  if ((waits_for_ & news) != 0) {
    waits_for_ = 0;
    news_.Signal();
  }
  return seq_;
}

uint64_t ViewStore::LastOf(uint32_t news) const {
  uint64_t last = 0;
  for (size_t bit = 0; bit < last_.size(); ++bit) {
    if ((news & (1u << bit)) != 0) last = std::max(last, last_[bit]);
  }
  return last;
}

ViewStore::Node* ViewStore::Find(int executor_id) {
  return executor_id >= 0 && executor_id < num_slots() ? &nodes_[executor_id] : nullptr;
}

void ViewStore::UpdateCluster(absl::FunctionRef<void(v1::ClusterInfo*)> change) {
  MutexLock lock(&mu_);
  change(&cluster_);
  cluster_seq_ = Changed(kClusterNews);
}

std::shared_ptr<const SlotStatus> ViewStore::SetSlot(const SlotStatus& slot) {
  auto value = std::make_shared<const SlotStatus>(slot);
  MutexLock lock(&mu_);
  Node* const node = Find(slot.executor_id);
  if (node == nullptr) return nullptr;
  const auto count = [this](const SlotStatus& of, int by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const int state = static_cast<int>(of.state) + 1;  // as on the wire
    cluster_.set_by_state(state, cluster_.by_state(state) + by);
  };
  count(*value, +1);
  if (node->slot != nullptr) {
    count(*node->slot, -1);
    if (node->slot->attempt < slot.attempt) {
      // These belong to the attempt that is gone.
      node->sample.reset();
      node->endpoints.reset();
    }
  }
  node->slot.swap(value);
  // Both messages carry something of the slot.
  const bool restarts = value == nullptr ? slot.max_restarts > 0
                                         : value->restarts != slot.restarts ||
                                               value->max_restarts != slot.max_restarts ||
                                               value->attempt != slot.attempt;
  cluster_seq_ = node->slot_seq = Changed(kClusterNews | kNodeNews);
  if (restarts) node->node_seq = node->slot_seq;
  return value;
}

void ViewStore::SetSample(int executor_id, v1::NodeSample sample) {
  std::shared_ptr<const v1::NodeSample> value = Compact(sample);
  const absl::Time now = clock_->Now();
  MutexLock lock(&mu_);
  Node* const node = Find(executor_id);
  if (node == nullptr) return;
  if (node->slot != nullptr && value->attempt() < node->slot->attempt) return;
  node->sample.swap(value);  // the old one is freed without the lock
  node->received = now;
  node->node_seq = Changed(kNodeNews);
}

void ViewStore::SetEndpoints(int executor_id, const std::map<std::string, std::string>& endpoints) {
  auto value = std::make_shared<const std::map<std::string, std::string>>(endpoints);
  MutexLock lock(&mu_);
  Node* const node = Find(executor_id);
  if (node == nullptr) return;
  node->endpoints.swap(value);
  node->node_seq = Changed(kNodeNews);
}

void ViewStore::SetSpec(const ClusterSpec& spec, uint64_t epoch) {
  ClusterSpec copy = spec;
  MutexLock lock(&mu_);
  std::swap(spec_, copy);
  spec_epoch_ = epoch;
  spec_changes_.clear();
  cluster_.set_epoch(epoch);
  cluster_seq_ = spec_seq_ = spec_floor_ = Changed(kNodeNews | kClusterNews);
}

void ViewStore::ChangeSpec(const NodeRole& role, const std::string& address, uint32_t attempt,
                           uint64_t epoch) {
  v1::SpecUpdate update;
  update.set_epoch(epoch);
  v1::TaskChange* change = update.add_changes();
  change->set_job_name(role.job_name);
  change->set_task_index(role.task_index);
  change->set_address(address);
  change->set_attempt(attempt);
  MutexLock lock(&mu_);
  if (spec_epoch_ == 0 || epoch != spec_epoch_ + 1) return;
  if (!spec_.SetTask(role.job_name, role.task_index, address).ok()) return;
  spec_epoch_ = epoch;
  cluster_.set_epoch(epoch);
  cluster_seq_ = spec_seq_ = Changed(kNodeNews | kClusterNews);
  spec_changes_.push_back({spec_seq_, std::move(update)});
  if (spec_changes_.size() > options_.limits.membership_changes) {
    spec_floor_ = spec_changes_.front().seq;
    spec_changes_.pop_front();
  }
}

void ViewStore::SetFeed(const FeedSummary& feed) {
  v1::FeedInfo info = ToFeedInfoProto(feed);
  MutexLock lock(&mu_);
  Feed& entry = feeds_[feed.feed_id];
  if (entry.info != nullptr) {
    *info.mutable_opened() = entry.info->opened();
  } else {
    *info.mutable_opened() = TimeToProto(clock_->Now());
  }
  entry.info = std::make_shared<const v1::FeedInfo>(std::move(info));
  entry.seq = Changed(kClusterNews);
}

void ViewStore::SetLedger(int executor_id, const std::vector<QueueLedger>& queues) {
  auto value = std::make_shared<std::vector<v1::QueueLedger>>();
  for (const QueueLedger& queue : queues) {
    v1::QueueLedger& out = value->emplace_back();
    out.set_queue(queue.queue);
    out.set_rows_received(queue.rows_received);
    out.set_rows_acked(queue.rows_acked);
    out.set_rows_returned(queue.rows_returned);
    out.set_rows_refed(queue.rows_refed);
    *out.mutable_stages() = ToFeederStagesProto(queue.stages);
  }
  MutexLock lock(&mu_);
  Node* const node = Find(executor_id);
  if (node == nullptr) return;
  node->ledger = std::move(value);
  node->node_seq = Changed(kNodeNews);
}

void ViewStore::RemoveFeed(absl::string_view feed_id) {
  MutexLock lock(&mu_);
  const auto feed = feeds_.find(feed_id);
  if (feed == feeds_.end()) return;
  feeds_.erase(feed);
  removed_feeds_.push_back({Changed(kClusterNews), std::string(feed_id)});
  if (removed_feeds_.size() > options_.limits.removed_feeds) {
    removed_floor_ = removed_feeds_.front().seq;
    removed_feeds_.pop_front();
  }
}

void ViewStore::AddMetric(int executor_id, uint32_t attempt, std::string name, int64_t step,
                          double value, absl::Time time) {
  auto point = std::make_shared<v1::MetricPoint>();
  point->set_executor_id(executor_id);
  point->set_attempt(attempt);
  point->set_name(std::move(name));
  point->set_step(step);
  point->set_value(value);
  *point->mutable_time() = TimeToProto(time);
  MutexLock lock(&mu_);
  if (Find(executor_id) == nullptr) return;
  ++num_metrics_;
  metrics_.push_back({Changed(kMetricNews), std::move(point)});
  if (metrics_.size() > options_.limits.metrics) metrics_.pop_front();
}

std::shared_ptr<const v1::Event> ViewStore::AddEvent(v1::Event event) {
  auto value = std::make_shared<v1::Event>(std::move(event));
  *value->mutable_time() = TimeToProto(clock_->Now());
  MutexLock lock(&mu_);
  value->set_number(num_events_++);
  events_.push_back({Changed(kClusterNews), value});
  if (events_.size() > options_.limits.events) events_.pop_front();
  return value;
}

void ViewStore::AddLog(int executor_id, uint32_t attempt, v1::LogLines::Source source,
                       std::vector<std::string> lines, uint64_t dropped) {
  if (lines.empty() && dropped == 0) return;
  auto entry = std::make_shared<LogEntry>();
  entry->executor_id = executor_id;
  entry->attempt = attempt;
  entry->source = source;
  entry->time = clock_->Now();
  entry->dropped = dropped;
  entry->bytes = kEntryBytes;
  for (const std::string& line : lines) entry->bytes += kLineBytes + line.size();
  entry->lines = std::move(lines);
  const size_t count = entry->lines.size();
  MutexLock lock(&mu_);
  Node* const node = Find(executor_id);
  if (node == nullptr) return;
  if (node->logs == nullptr) {
    node->logs = std::make_unique<NodeLogs>();
    ++nodes_with_logs_;
  }
  NodeLogs& logs = *node->logs;
  entry->seq = Changed(kLogNews);
  entry->first = num_lines_;
  entry->first_own = logs.total;
  num_lines_ += count;
  logs.total += count;
  logs.kept += count;
  log_bytes_ += entry->bytes;
  logs_.push_back(std::move(entry));
  logs.entries.push_back(std::prev(logs_.end()));
  // The newest stays, whatever its size: a message has at most 200 lines of 2 KiB.
  while (logs.entries.size() > 1 &&
         logs.kept - (*logs.entries.front())->lines.size() >= options_.limits.log_lines_per_node) {
    DropLog(logs.entries.front());
  }
  while (logs_.size() > 1 && log_bytes_ > options_.limits.log_bytes) DropLog(logs_.begin());
}

void ViewStore::DropLog(LogList::iterator entry) {
  NodeLogs& logs = *nodes_[(*entry)->executor_id].logs;
  // It is its node's oldest entry in both cases, since all entries are in the same order.
  logs.entries.pop_front();
  logs.kept -= (*entry)->lines.size();
  log_bytes_ -= (*entry)->bytes;
  logs_.erase(entry);
}

// ---- waiting ------------------------------------------------------------------------------------

void ViewStore::Wait(uint32_t news, uint64_t seq, absl::Duration timeout) {
  MutexLock lock(&mu_);
  if (!woken_ && LastOf(news) <= seq) {
    waits_for_ = news;
    news_.WaitWithTimeout(&mu_, timeout);
    waits_for_ = 0;
  }
  woken_ = false;
}

void ViewStore::Wake() {
  MutexLock lock(&mu_);
  woken_ = true;
  news_.Signal();
}

uint64_t ViewStore::seq() const {
  MutexLock lock(&mu_);
  return seq_;
}

size_t ViewStore::log_bytes() const {
  MutexLock lock(&mu_);
  return log_bytes_;
}

}  // namespace millrace
