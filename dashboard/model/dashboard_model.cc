#include "dashboard/model/dashboard_model.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/proto/time_proto.h"
#include "dashboard/model/format.h"

namespace millrace::dashboard {
namespace {

// Verdict and warnings are sentences that people read.
constexpr absl::Duration kDeriveEvery = absl::Milliseconds(250);
constexpr absl::Duration kStaleAfter = absl::Seconds(3);
// A coordinator without news says so every 5 s.
constexpr absl::Duration kKeepAlive = absl::Seconds(5);
constexpr absl::Duration kQuietFeed = absl::Milliseconds(2500);
// From this many nodes or GPUs on, what goes over all of them is done in slices, one in each frame:
// all of it in kCensusSpan.
constexpr size_t kLarge = 1000;
constexpr size_t kLargeGpus = 8000;
constexpr absl::Duration kCensusSpan = absl::Milliseconds(500);

uint64_t NextVersion() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// Percent, percent, 4 W, half a degree, 15 MHz (the step of NVIDIA's clocks), percent.
std::vector<ByteHistory> MakeGpuHistories() {
  constexpr float kSteps[kGpuMetrics] = {0.5f, 0.5f, 4.0f, 0.5f, 15.0f, 0.5f};
  std::vector<ByteHistory> histories;
  for (const float step : kSteps) histories.emplace_back(ByteCodec(step));
  return histories;
}

}  // namespace

DashboardModel::DashboardModel(ModelOptions options)
    : options_(options),
      logs_(options.max_log_lines),
      gpu_history_(MakeGpuHistories()),
      node_history_(kNodeMetrics),
      cluster_history_(kClusterMetrics) {
  cluster_values_.fill(kUnknown);
  slots_changed_ = hosts_changed_ = true;
  Bump();
}

void DashboardModel::Bump() {
  version_ = NextVersion();
  if (std::exchange(queues_changed_, false) || slots_changed_) queues_version_ = version_;
  if (std::exchange(slots_changed_, false)) slots_version_ = version_;
  if (std::exchange(hosts_changed_, false)) hosts_version_ = version_;
}

bool DashboardModel::large() const { return nodes_.size() > kLarge || gpus_.size() > kLargeGpus; }

void DashboardModel::Forget() {
  has_data_ = false;
  now_ = absl::UnixEpoch();
  data_time_ = last_arrival_ = viewer_now_ = derived_at_ = rate_from_ = absl::InfinitePast();
  counted_at_ = absl::InfinitePast();
  all_ran_ = absl::InfinitePast();
  health_ = LinkHealth();
  cluster_ = ClusterFacts();
  nodes_.clear();
  counters_.clear();
  hosts_.clear();
  host_ids_.clear();
  gpus_.clear();
  gpu_ids_.clear();
  gpu_by_uuid_.clear();
  feeds_.clear();
  feed_counters_.clear();
  timeline_.Clear();
  logs_.Clear();
  metrics_.Clear();
  membership_.Clear();
  for (ByteHistory& history : gpu_history_) history.Clear();
  for (FloatHistory& history : node_history_) history.Clear();
  for (FloatHistory& history : cluster_history_) history.Clear();
  cluster_values_.fill(kUnknown);
  warnings_.Clear();
  verdict_ = Verdict();
  taker_.Clear();
  incarnation_.clear();
  mid_transaction_ = mid_slots_ = false;
  // Values that were derived from the former nodes must not outlive them.
  slots_changed_ = hosts_changed_ = true;
  Bump();
}

void DashboardModel::Refuse(absl::string_view why) {
  ++health_.refused_updates;
  health_.last_refusal = std::string(why);
}

void DashboardModel::Apply(const SourceUpdate& update) {
  if (update.restart) Forget();
  viewer_now_ = std::max(viewer_now_, update.arrived);
  health_.link = update.link;
  health_.dropped_updates += update.dropped;
  health_.bytes += update.bytes;
  if (update.watch != nullptr) {
    last_arrival_ = update.arrived;
    TakeWatch(update);
  }
  if (!update.more || queues_changed_) Bump();
}

void DashboardModel::TakeWatch(const SourceUpdate& update) {
  const v1::WatchUpdate& watch = *update.watch;
  // A coordinator always says when. Nothing could be recorded at no time, so it is taken as now.
  const absl::Time time = watch.has_time() ? TimeFromProto(watch.time()) : update.arrived;
  if (watch.has_time() || !has_data_) {
    data_time_ = has_data_ ? std::max(data_time_, time) : time;
    clock_offset_ = update.arrived - time;
    now_ = std::max(now_, data_time_);
  }
  has_data_ = true;
  if (watch.snapshot()) {
    if (!incarnation_.empty() && watch.incarnation() != incarnation_) {
      // Another coordinator: nothing that was received before belongs to this cluster.
      const LinkHealth health = health_;
      const absl::Time arrived = last_arrival_;
      Forget();
      health_ = health;
      last_arrival_ = arrived;
      data_time_ = now_ = time;
      has_data_ = true;
    }
    incarnation_ = watch.incarnation();
    // A snapshot repeats the last lines.
    logs_known_until_ = logs_.size() > 0 ? logs_.line(logs_.end() - 1).time : absl::InfinitePast();
    membership_.ExpectWhole();
    // Feeds that the snapshot does not name are gone; those that it names are added again below.
    feeds_.clear();
  }
  if (watch.has_cluster()) TakeCluster(watch.cluster());
  for (const v1::SlotStatus& slot : watch.slots()) TakeSlot(slot);
  for (const v1::WatchUpdate::Node& node : watch.nodes()) TakeNode(node);
  for (const v1::SpecUpdate& spec : watch.membership()) {
    if (const absl::Status status = membership_.Apply(spec, data_time_); !status.ok()) {
      Refuse(absl::StrCat("membership: ", status.message()));
    }
    timeline_.SetEpoch(membership_.epoch(), data_time_);
  }
  for (const v1::FeedInfo& feed : watch.feeds()) TakeFeed(feed);
  for (const std::string& feed_id : watch.removed_feeds()) {
    feeds_.erase(feed_id);
    feed_counters_.erase(feed_id);
  }
  for (const v1::MetricPoint& point : watch.metrics()) TakeMetric(point);
  for (const v1::Event& event : watch.events()) timeline_.Add(event);
  for (const v1::LogBatch& batch : watch.logs()) {
    if (!watch.snapshot() || TimeFromProto(batch.time()) > logs_known_until_) TakeLogs(batch);
  }
  health_.dropped_metrics += watch.dropped_metrics();
  health_.dropped_events += watch.dropped_events();
  health_.dropped_log_lines += watch.dropped_log_lines();
  mid_transaction_ = update.more;
  // Slots come before samples.
  mid_slots_ = update.more && watch.nodes_size() == 0;
  if (update.more) return;
  ++health_.updates;
  for (auto& [id, feed] : feeds_) {
    // A feed is told when it changes: one that is not has received nothing.
    if (data_time_ - feed_counters_[id].time > kQuietFeed && Known(feed.rows_per_second)) {
      feed.rows_per_second = feed.acked_per_second = 0;
    }
  }
  if (!large()) {
    CountAll();
    TakeTotals();
  }
}

void DashboardModel::CountAll() {
  taker_.Begin();
  taker_.Count(*this, SIZE_MAX);
}

// Values of the whole cluster.
void DashboardModel::TakeTotals() {
  const Census& census = taker_.last();
  if (all_ran_ == absl::InfinitePast() && cluster_.phase >= v1::ClusterInfo::PHASE_RUNNING &&
      // It may have failed before.
      (cluster_.phase != v1::ClusterInfo::PHASE_FAILED || census.all_ran)) {
    all_ran_ = census.last_ran;
  }
  const auto set = [this](ClusterMetric metric, float value) {
    const size_t i = static_cast<size_t>(metric);
    cluster_values_[i] = value;
    cluster_history_[i].Record(0, data_time_, value);
  };
  set(ClusterMetric::kRunning,
      census.nodes > 0 ? static_cast<float>(census.by_state[v1::SLOT_STATE_RUNNING]) : kUnknown);
  set(ClusterMetric::kRows, census.rows_per_second);
  set(ClusterMetric::kBytes, census.bytes_per_second);
  set(ClusterMetric::kGpuUtilization, census.gpu_utilization);
  set(ClusterMetric::kStarved, census.starved);
  set(ClusterMetric::kBackpressured, census.backpressured);
}

void DashboardModel::Advance(absl::Time now) {
  viewer_now_ = std::max(viewer_now_, now);
  if (has_data_) {
    now_ = std::max(data_time_, viewer_now_ - clock_offset_);
    health_.data_age = std::max(absl::ZeroDuration(), viewer_now_ - last_arrival_);
  }
  health_.stale = has_data_ && (health_.link.kind == LinkState::Kind::kStale ||
                                health_.link.kind == LinkState::Kind::kLost ||
                                (health_.link.kind == LinkState::Kind::kLive &&
                                 health_.data_age > kKeepAlive + kStaleAfter));
  if (rate_from_ == absl::InfinitePast()) {
    rate_from_ = viewer_now_;
    rate_bytes_ = health_.bytes;
    rate_updates_ = health_.updates;
  } else if (const double seconds = absl::ToDoubleSeconds(viewer_now_ - rate_from_); seconds >= 2) {
    health_.bytes_per_second = static_cast<float>((health_.bytes - rate_bytes_) / seconds);
    health_.updates_per_second = static_cast<float>((health_.updates - rate_updates_) / seconds);
    rate_from_ = viewer_now_;
    rate_bytes_ = health_.bytes;
    rate_updates_ = health_.updates;
  }
  if (!large()) {
    if (mid_transaction_) return;  // half of it would be nonsense
    if (viewer_now_ - derived_at_ < kDeriveEvery && derived_version_ == version_) return;
    CountAll();
    Conclude();
    return;
  }
  // Samples of a large cluster come all the time, but a part of its slots would be nonsense.
  if (mid_slots_) return;
  const absl::Duration elapsed = viewer_now_ - std::exchange(counted_at_, viewer_now_);
  const double share = absl::FDivDuration(elapsed, kCensusSpan);
  if (derived_at_ == absl::InfinitePast() || share >= 1) {
    Settle();
    return;
  }
  if (!taker_.under_way()) taker_.Begin();
  const double all = static_cast<double>(nodes_.size() + hosts_.size() + gpus_.size());
  if (!taker_.Count(*this, static_cast<size_t>(share * all) + 1)) return;
  TakeTotals();
  Conclude();
}

void DashboardModel::Settle() {
  if (!has_data_ || mid_slots_) return;
  CountAll();
  TakeTotals();
  Conclude();
}

void DashboardModel::Conclude() {
  derived_at_ = viewer_now_;
  derived_version_ = version_;
  verdict_ = MakeVerdict(*this);
  Warn();
}

void DashboardModel::Warn() {
  warnings_.Begin(now_);
  if (health_.stale) {
    Jump jump;
    jump.panel = Panel::kVerdict;
    warnings_.Raise("stale", Mood::kBad,
                    absl::StrCat("Data are ", FormatSpan(health_.data_age), " old"), jump, true);
  }
  for (const int id : census().noted_nodes) {
    const NodeState& node = nodes_[id];
    Jump jump;
    jump.panel = Panel::kNodes;
    jump.selection.node = node.executor_id;
    const auto raise = [&](absl::string_view kind, Mood mood, absl::string_view text) {
      warnings_.Raise(absl::StrCat(kind, "/", node.executor_id), mood,
                      absl::StrCat(node.name, " ", text), jump);
    };
    if (node.stopped) raise("stopped", Mood::kWarning, "is stopped by a signal");
    if (node.ended()) continue;
    if (node.restarts > 0 && node.restarts >= node.max_restarts) {
      raise("restarts", Mood::kWarning, "has used all its restarts");
    }
    if (node.state == v1::SLOT_STATE_RUNNING && !node.attached) {
      raise("detached", Mood::kWarning, "has lost the connection of its agent");
    }
    if (node.state == v1::SLOT_STATE_RUNNING && !health_.stale &&
        node.sampled != absl::InfinitePast() && IsOld(node.sampled)) {
      raise("silent", Mood::kWarning,
            absl::StrCat("was last sampled ", FormatAge(node.sampled, now_)));
    }
  }
  for (const int i : census().noted_gpus) {
    const GpuState& gpu = gpus_[i];
    Jump jump;
    jump.panel = Panel::kGpus;
    jump.selection.gpu = i;
    const auto raise = [&](absl::string_view kind, Mood mood, absl::string_view text) {
      warnings_.Raise(absl::StrCat(kind, "/gpu", i), mood, absl::StrCat(GpuName(i), " ", text),
                      jump);
    };
    if (!gpu.error.empty()) raise("gpu-error", Mood::kBad, gpu.error);
    if (gpu.throttled()) {
      raise("throttled", Mood::kWarning,
            absl::StrCat("throttles (", gpu.throttle_reasons.front(), ") at ",
                         FormatNumber(std::round(gpu.value(GpuMetric::kTemperature))), " °C"));
    }
    if (Known(gpu.ecc_uncorrected) && gpu.ecc_uncorrected > 0) {
      raise("ecc", Mood::kBad,
            absl::StrCat("has ", FormatNumber(gpu.ecc_uncorrected), " uncorrected memory errors"));
    }
    if (Known(gpu.xid_count) && gpu.xid_count > 0) {
      raise("xid", Mood::kBad, absl::StrCat("reported XID ", FormatNumber(gpu.last_xid)));
    }
  }
  warnings_.End();
}

int DashboardModel::FindNode(absl::string_view name) const {
  for (const NodeState& node : nodes_) {
    if (node.name == name) return node.executor_id;
  }
  int id = -1;
  if (absl::SimpleAtoi(name, &id) && id >= 0 && static_cast<size_t>(id) < nodes_.size()) return id;
  return -1;
}

std::string DashboardModel::NodeName(int executor_id) const {
  if (executor_id >= 0 && static_cast<size_t>(executor_id) < nodes_.size() &&
      !nodes_[executor_id].name.empty()) {
    return nodes_[executor_id].name;
  }
  return absl::StrCat("executor ", executor_id);
}

std::string DashboardModel::GpuName(int gpu) const {
  if (gpu < 0 || static_cast<size_t>(gpu) >= gpus_.size()) return "no GPU";
  return absl::StrCat(hosts_[gpus_[gpu].host].name, "/gpu", gpus_[gpu].index);
}

bool DashboardModel::IsOld(absl::Time sampled) const {
  return now_ - sampled > kStaleAfter + sample_pace_;
}

size_t DashboardModel::memory_bytes() const {
  size_t bytes = logs_.memory_bytes() + metrics_.memory_bytes();
  for (const ByteHistory& history : gpu_history_) bytes += history.memory_bytes();
  for (const FloatHistory& history : node_history_) bytes += history.memory_bytes();
  for (const FloatHistory& history : cluster_history_) bytes += history.memory_bytes();
  return bytes + nodes_.capacity() * (sizeof(NodeState) + sizeof(NodeCounters)) +
         gpus_.capacity() * sizeof(GpuState);
}

}  // namespace millrace::dashboard
