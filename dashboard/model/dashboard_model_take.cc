// How DashboardModel takes the parts of an update.

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/time_proto.h"
#include "dashboard/model/dashboard_model.h"

namespace millrace::dashboard {
namespace {

constexpr int kMaxSlots = 1 << 20;  // as ClusterView
constexpr size_t kMaxGpus = 1 << 20;

// A rate over `seconds`; kUnknown if the counter went back, since it has started again from zero.
float Rate(uint64_t now, uint64_t before, double seconds) {
  return now < before ? kUnknown : static_cast<float>(static_cast<double>(now - before) / seconds);
}

// Microseconds of a state as a fraction of the time between two samples.
float Fraction(uint64_t now_us, uint64_t before_us, double seconds) {
  const float rate = Rate(now_us, before_us, seconds);
  return Known(rate) ? std::clamp(rate / 1e6f, 0.0f, 1.0f) : kUnknown;
}

float Max(float a, float b) {
  if (!Known(a)) return b;
  return Known(b) ? std::max(a, b) : a;
}

float Sum(float a, float b) {
  if (!Known(a)) return b;
  return Known(b) ? a + b : a;
}

}  // namespace

void DashboardModel::TakeCluster(const v1::ClusterInfo& info) {
  cluster_.cluster_id = info.cluster_id();
  cluster_.phase = info.phase();
  cluster_.epoch = info.epoch();
  if (info.has_started()) cluster_.started = TimeFromProto(info.started());
  cluster_.input_mode = info.input_mode();
  cluster_.num_slots = info.num_slots();
  cluster_.by_state.fill(0);
  for (int i = 0; i < std::min(info.by_state_size(), kSlotStates); ++i) {
    cluster_.by_state[i] = info.by_state(i);
  }
  cluster_.first_cause = info.has_first_cause() ? info.first_cause().message() : "";
  cluster_.first_cause_executor = info.has_first_cause() ? info.first_cause_executor() : -1;
  cluster_.folded_failures = info.folded_failures();
  cluster_.name = info.name();
  cluster_.program = info.program();
  cluster_.command = info.command();
  cluster_.driver_host = info.driver_host();
  cluster_.driver_pid = info.driver_pid();
  cluster_.version = info.version();
  cluster_.queues.assign(info.queues().begin(), info.queues().end());
  cluster_.log_dir = info.log_dir();
  cluster_.fenced_updates = info.fenced_updates();
  cluster_.illegal_updates = info.illegal_updates();
  cluster_.quarantined.clear();
  for (const v1::QuarantinedHost& host : info.quarantined()) {
    cluster_.quarantined.push_back({host.host(), TimeFromProto(host.until())});
  }
  timeline_.SetPhase(info.phase(), timeline_.phases().empty() && info.has_started() &&
                                           info.phase() == v1::ClusterInfo::PHASE_RESERVING
                                       ? cluster_.started
                                       : data_time_);
}

bool DashboardModel::Reserve(int executor_id) {
  if (executor_id < 0 || executor_id >= kMaxSlots) {
    Refuse(absl::StrCat("an update names executor ", executor_id));
    return false;
  }
  while (nodes_.size() <= static_cast<size_t>(executor_id)) {
    slots_changed_ = true;
    NodeState& node = nodes_.emplace_back();
    node.executor_id = static_cast<int>(nodes_.size()) - 1;
    counters_.emplace_back();
  }
  return true;
}

int DashboardModel::HostOf(const std::string& name) {
  if (name.empty()) return -1;
  const auto [found, fresh] = host_ids_.try_emplace(name, static_cast<int>(hosts_.size()));
  if (fresh) {
    hosts_.emplace_back().name = name;
    hosts_changed_ = true;
  }
  return found->second;
}

void DashboardModel::TakeSlot(const v1::SlotStatus& slot) {
  const int id = slot.executor_id();
  if (!Reserve(id)) return;
  slots_changed_ = true;
  NodeState& node = nodes_[id];
  if (node.job != slot.job_name() || node.task != slot.task_index() || node.name.empty()) {
    node.job = slot.job_name();
    node.task = slot.task_index();
    node.name = absl::StrCat(node.job, ":", node.task);
  }
  const bool same_attempt = node.attempt == slot.attempt();
  const auto told = std::exchange(node.reached, NodeState().reached);
  node.state = slot.state();
  node.attempt = slot.attempt();
  node.address = slot.address();
  node.pid = slot.pid();
  for (const v1::StateTime& reached : slot.reached()) {
    const v1::SlotState state = reached.state();
    if (state < 0 || state >= kSlotStates) continue;
    node.reached[state] = TimeFromProto(reached.time());
    if (same_attempt && told[state] == node.reached[state]) continue;
    timeline_.AddState({node.reached[state], id, node.attempt, state});
  }
  node.error = slot.has_error() ? slot.error().message() : "";
  node.stopped = slot.stopped();
  node.attached = slot.attached();
  node.restart_at = slot.has_restart_at() ? TimeFromProto(slot.restart_at()) : absl::InfinitePast();
  if (node.ended()) {
    // It uses nothing any more.
    node.cpu_percent = node.rows_per_second = node.bytes_per_second = kUnknown;
    node.starved = node.backpressured = kUnknown;
    for (const int gpu : node.gpus) {
      if (gpus_[gpu].owner == id) gpus_[gpu].owner = -1;
    }
    node.gpus.clear();
  }
  if (node.host == slot.host()) return;
  if (node.host_index >= 0) std::erase(hosts_[node.host_index].nodes, id);
  node.host = slot.host();
  node.host_index = HostOf(node.host);
  if (node.host_index >= 0) hosts_[node.host_index].nodes.push_back(id);
}

void DashboardModel::TakeNode(const v1::WatchUpdate::Node& proto) {
  const int id = proto.executor_id();
  if (!Reserve(id)) return;
  NodeState& node = nodes_[id];
  NodeCounters& before = counters_[id];
  node.restarts = proto.restarts();
  node.max_restarts = proto.max_restarts();
  node.endpoints.clear();
  node.endpoints.insert(proto.endpoints().begin(), proto.endpoints().end());
  if (!proto.has_sample()) return;
  const v1::NodeSample& sample = proto.sample();
  const absl::Time received = proto.has_received() ? TimeFromProto(proto.received()) : data_time_;
  if (node.sampled != absl::InfinitePast() && received > node.sampled) {
    const absl::Duration pace = std::min(received - node.sampled, absl::Seconds(30));
    sample_pace_ = std::max(absl::Seconds(1), sample_pace_ + (pace - sample_pace_) / 64);
  }
  // Of a host without GPUs nothing else tells that it has none.
  if (node.sampled == absl::InfinitePast()) hosts_changed_ = true;
  node.sampled = std::max(node.sampled, received);
  const absl::Time time = TimeFromProto(sample.time());
  const bool same_attempt = before.attempt == sample.attempt();
  const double seconds = same_attempt && before.time != absl::InfinitePast()
                             ? absl::ToDoubleSeconds(time - before.time)
                             : 0;
  if (same_attempt && before.time != absl::InfinitePast() && seconds <= 0) return;  // seen
  if (!same_attempt) {
    before = NodeCounters{.gpu_ids = std::move(before.gpu_ids)};
    before.attempt = sample.attempt();
    node.cpu_percent = kUnknown;
  }

  const auto known = [](bool has, double value) {
    return has ? static_cast<float>(value) : kUnknown;
  };
  const v1::ProcessSample& process = sample.process();
  if (process.has_cpu_us() && before.cpu_known && seconds > 0) {
    node.cpu_percent = Rate(process.cpu_us(), before.cpu_us, seconds) / 1e4f;
  } else if (!process.has_cpu_us()) {
    node.cpu_percent = kUnknown;
  }
  before.cpu_known = process.has_cpu_us();
  before.cpu_us = process.cpu_us();
  node.rss_bytes = known(process.has_rss_bytes(), static_cast<double>(process.rss_bytes()));
  node.threads = known(process.has_threads(), process.threads());
  node.open_files = known(process.has_open_files(), process.open_files());
  node.feed_budget_bytes =
      known(sample.has_feed_budget_bytes(), static_cast<double>(sample.feed_budget_bytes()));
  node.feed_held_bytes =
      known(sample.has_feed_held_bytes(), static_cast<double>(sample.feed_held_bytes()));
  if (node.why_not_shared != sample.why_not_shared()) {
    node.why_not_shared = sample.why_not_shared();
  }
  if (sample.has_step()) {
    node.step = sample.step();
    node.step_time = TimeFromProto(sample.step_time());
  }
  TakeQueues(sample, seconds, &node);
  TakeGpus(sample, &node, &before);
  before.time = time;

  node.rows_lately.Add(node.rows_per_second, data_time_);
  node.bytes_lately.Add(node.bytes_per_second, data_time_);
  node.starved_lately.Add(node.starved, data_time_);
  node.backpressured_lately.Add(node.backpressured, data_time_);
  const auto record = [&](NodeMetric metric, float value) {
    node_history_[static_cast<size_t>(metric)].Record(static_cast<size_t>(id), data_time_, value);
  };
  record(NodeMetric::kCpu, node.cpu_percent);
  record(NodeMetric::kRss, node.rss_bytes);
  if (node.queues.empty()) return;
  float queued = 0;
  for (const QueueState& queue : node.queues) {
    queued += static_cast<float>(queue.sample.queued_bytes());
  }
  record(NodeMetric::kRows, node.rows_per_second);
  record(NodeMetric::kBytes, node.bytes_per_second);
  record(NodeMetric::kStarved, node.starved);
  record(NodeMetric::kBackpressured, node.backpressured);
  record(NodeMetric::kQueued, queued);
}

void DashboardModel::TakeQueues(const v1::NodeSample& sample, double seconds, NodeState* node) {
  const size_t count = static_cast<size_t>(sample.queues_size());
  queues_changed_ = queues_changed_ || node->queues.size() != count;
  node->queues.resize(count);
  node->rows_per_second = node->bytes_per_second = kUnknown;
  node->starved = node->backpressured = kUnknown;
  for (size_t i = 0; i < count; ++i) {
    const v1::QueueSample& proto = sample.queues(static_cast<int>(i));
    QueueState& queue = node->queues[i];
    const v1::QueueSample& last = queue.sample;
    // Queues keep their order; another one at this place has nothing to be compared with.
    const bool comparable = last.queue() == proto.queue() && seconds > 0;
    const auto rate = [&](uint64_t now, uint64_t then) {
      return comparable ? Rate(now, then, seconds) : kUnknown;
    };
    const auto fraction = [&](uint64_t now, uint64_t then) {
      return comparable ? Fraction(now, then, seconds) : kUnknown;
    };
    queue.rows_per_second = rate(proto.rows_received(), last.rows_received());
    queue.bytes_per_second = rate(proto.bytes_received(), last.bytes_received());
    queue.batches_per_second = rate(proto.batches_received(), last.batches_received());
    queue.returned_per_second = rate(proto.rows_returned(), last.rows_returned());
    queue.starved = fraction(proto.wait_us(), last.wait_us());
    queue.compute = fraction(proto.compute_us(), last.compute_us());
    queue.decode = fraction(proto.decode_us(), last.decode_us());
    queue.backpressured = fraction(proto.full_us(), last.full_us());
    queue.sample = proto;
    node->rows_per_second = Sum(node->rows_per_second, queue.rows_per_second);
    node->bytes_per_second = Sum(node->bytes_per_second, queue.bytes_per_second);
    // The program waits in one queue at a time, so its waits add up.
    node->starved = Sum(node->starved, queue.starved);
    node->backpressured = Max(node->backpressured, queue.backpressured);
  }
  if (Known(node->starved)) node->starved = std::min(node->starved, 1.0f);
}

void DashboardModel::TakeGpus(const v1::NodeSample& sample, NodeState* node, NodeCounters* before) {
  if (node->host_index >= 0) {
    HostState& host = hosts_[node->host_index];
    if (!sample.gpus_unknown().empty()) {
      hosts_changed_ = hosts_changed_ || host.gpus_unknown != sample.gpus_unknown();
      host.gpus_unknown = sample.gpus_unknown();
      host.reports_gpus = true;
      // The last known values say nothing about now.
      for (const int gpu : host.gpus) gpus_[gpu].values.fill(kUnknown);
    } else if (sample.gpus_size() > 0) {
      hosts_changed_ = hosts_changed_ || !host.gpus_unknown.empty();
      host.gpus_unknown.clear();
      host.reports_gpus = true;
    }
    std::vector<int>& ids = before->gpu_ids;
    ids.resize(static_cast<size_t>(sample.gpus_size()), -1);
    for (int i = 0; i < sample.gpus_size(); ++i) {
      const v1::GpuSample& proto = sample.gpus(i);
      // A host's GPUs keep their order, so that they are nearly never looked for.
      int& id = ids[static_cast<size_t>(i)];
      if (id < 0 || gpus_[id].uuid != proto.uuid() || gpus_[id].host != node->host_index) {
        id = GpuOf(node->host_index, proto, static_cast<size_t>(sample.gpus_size()));
      }
      if (id >= 0) TakeGpu(proto, id);
    }
  }
  for (const int gpu : node->gpus) {
    if (gpus_[gpu].owner == node->executor_id) gpus_[gpu].owner = -1;
  }
  node->gpus.clear();
  if (node->ended()) return;
  for (const std::string& uuid : sample.claimed_gpus()) {
    const auto found = gpu_by_uuid_.find(uuid);
    if (found == gpu_by_uuid_.end()) continue;
    gpus_[found->second].owner = node->executor_id;
    node->gpus.push_back(found->second);
  }
}

int DashboardModel::GpuOf(int host, const v1::GpuSample& sample, size_t of_node) {
  const std::string key =
      absl::StrCat(host, "\n", sample.uuid(), "\n",
                   sample.uuid().empty() ? static_cast<int>(sample.index()) : 0);
  const auto found = gpu_ids_.find(key);
  if (found != gpu_ids_.end()) return found->second;
  if (gpus_.size() >= kMaxGpus) {
    Refuse("more GPUs than can be");
    return -1;
  }
  const int id = static_cast<int>(gpus_.size());
  if (gpus_.size() == gpus_.capacity()) {
    // For those of all nodes, if each has as many: to move them later takes long.
    const size_t all = std::min(nodes_.size() * of_node, kMaxGpus);
    gpus_.reserve(std::max(2 * gpus_.size(), all));
    gpu_ids_.reserve(gpus_.capacity());
    gpu_by_uuid_.reserve(gpus_.capacity());
  }
  gpu_ids_.emplace(key, id);
  if (!sample.uuid().empty()) gpu_by_uuid_[sample.uuid()] = id;
  hosts_changed_ = true;
  GpuState& gpu = gpus_.emplace_back();
  gpu.host = host;
  gpu.index = sample.index();
  gpu.uuid = sample.uuid();
  std::vector<int>& siblings = hosts_[host].gpus;
  siblings.push_back(id);
  std::stable_sort(siblings.begin(), siblings.end(),
                   [this](int a, int b) { return gpus_[a].index < gpus_[b].index; });
  return id;
}

void DashboardModel::TakeGpu(const v1::GpuSample& proto, int id) {
  GpuState& gpu = gpus_[id];
  const auto known = [](bool has, double value) {
    return has ? static_cast<float>(value) : kUnknown;
  };
  gpu.index = proto.index();
  if (gpu.name != proto.name()) gpu.name = proto.name();
  if (gpu.pci_bus_id != proto.pci_bus_id()) gpu.pci_bus_id = proto.pci_bus_id();
  if (gpu.source != proto.source()) gpu.source = proto.source();
  if (gpu.error != proto.error()) gpu.error = proto.error();
  if (gpu.parent_uuid != proto.parent_uuid()) gpu.parent_uuid = proto.parent_uuid();
  gpu.time = data_time_;
  gpu.memory_used_bytes =
      known(proto.has_memory_used_bytes(), static_cast<double>(proto.memory_used_bytes()));
  gpu.memory_total_bytes =
      known(proto.has_memory_total_bytes(), static_cast<double>(proto.memory_total_bytes()));
  gpu.values = {
      known(proto.has_utilization_percent(), proto.utilization_percent()),
      gpu.memory_total_bytes > 0 ? 100 * gpu.memory_used_bytes / gpu.memory_total_bytes : kUnknown,
      known(proto.has_power_watts(), proto.power_watts()),
      known(proto.has_temperature_celsius(), proto.temperature_celsius()),
      known(proto.has_sm_clock_mhz(), proto.sm_clock_mhz()),
      known(proto.has_memory_utilization_percent(), proto.memory_utilization_percent())};
  gpu.utilization_lately.Add(gpu.value(GpuMetric::kUtilization), data_time_);
  gpu.power_limit_watts = known(proto.has_power_limit_watts(), proto.power_limit_watts());
  gpu.memory_clock_mhz = known(proto.has_memory_clock_mhz(), proto.memory_clock_mhz());
  gpu.max_clock_mhz = known(proto.has_max_sm_clock_mhz(), proto.max_sm_clock_mhz());
  gpu.pcie_rx_bytes_per_second = known(proto.has_pcie_rx_bytes_per_second(),
                                       static_cast<double>(proto.pcie_rx_bytes_per_second()));
  gpu.pcie_tx_bytes_per_second = known(proto.has_pcie_tx_bytes_per_second(),
                                       static_cast<double>(proto.pcie_tx_bytes_per_second()));
  gpu.sm_active_percent = known(proto.has_sm_active_percent(), proto.sm_active_percent());
  gpu.sm_occupancy_percent = known(proto.has_sm_occupancy_percent(), proto.sm_occupancy_percent());
  gpu.tensor_active_percent =
      known(proto.has_tensor_active_percent(), proto.tensor_active_percent());
  gpu.dram_active_percent = known(proto.has_dram_active_percent(), proto.dram_active_percent());
  gpu.pcie_generation = known(proto.has_pcie_generation(), proto.pcie_generation());
  gpu.pcie_width = known(proto.has_pcie_width(), proto.pcie_width());
  gpu.ecc_corrected = known(proto.has_ecc_corrected(), static_cast<double>(proto.ecc_corrected()));
  gpu.ecc_uncorrected =
      known(proto.has_ecc_uncorrected(), static_cast<double>(proto.ecc_uncorrected()));
  gpu.xid_count = known(proto.has_xid_count(), proto.xid_count());
  gpu.last_xid = known(proto.has_last_xid(), proto.last_xid());
  gpu.throttle_known = proto.throttle_known();
  if (!std::equal(gpu.throttle_reasons.begin(), gpu.throttle_reasons.end(),
                  proto.throttle_reasons().begin(), proto.throttle_reasons().end())) {
    gpu.throttle_reasons.assign(proto.throttle_reasons().begin(), proto.throttle_reasons().end());
    gpu.slowed = SlowsDown(gpu.throttle_reasons);
  }
  gpu.noted = gpu.slowed || !gpu.error.empty() || gpu.ecc_uncorrected > 0 || gpu.xid_count > 0;
  gpu.processes.resize(static_cast<size_t>(proto.processes_size()));
  for (int i = 0; i < proto.processes_size(); ++i) {
    gpu.processes[static_cast<size_t>(i)] = {
        proto.processes(i).pid(), known(proto.processes(i).has_memory_bytes(),
                                        static_cast<double>(proto.processes(i).memory_bytes()))};
  }
  for (int i = 0; i < kGpuMetrics; ++i) {
    gpu_history_[static_cast<size_t>(i)].Record(static_cast<size_t>(id), data_time_,
                                                gpu.values[static_cast<size_t>(i)]);
  }
}

void DashboardModel::TakeFeed(const v1::FeedInfo& info) {
  FeedState& feed = feeds_[info.feed_id()];
  FeedCounters& before = feed_counters_[info.feed_id()];
  const double seconds =
      before.time == absl::InfinitePast() ? 0 : absl::ToDoubleSeconds(data_time_ - before.time);
  feed.info = info;
  feed.opened = info.has_opened() ? TimeFromProto(info.opened()) : absl::InfinitePast();
  if (seconds > 0) {
    feed.rows_per_second = Rate(info.rows_received(), before.rows_received, seconds);
    feed.acked_per_second = Rate(info.rows_acked(), before.rows_acked, seconds);
  }
  if (seconds > 0 || before.time == absl::InfinitePast()) {
    before = FeedCounters{data_time_, info.rows_received(), info.rows_acked()};
  }
  feed.progress = info.partitions() > 0 ? static_cast<float>(static_cast<double>(info.done()) /
                                                             static_cast<double>(info.partitions()))
                                        : kUnknown;
  feed.eta = absl::InfiniteDuration();
  if (info.done() > 0 && info.partitions() > 0 && feed.opened != absl::InfinitePast()) {
    const double left =
        static_cast<double>(info.partitions() - info.done()) / static_cast<double>(info.done());
    feed.eta = std::max(absl::ZeroDuration(), (data_time_ - feed.opened) * left);
  }
}

void DashboardModel::TakeMetric(const v1::MetricPoint& point) {
  if (!Reserve(point.executor_id())) return;
  MetricSample sample;
  sample.step = point.step();
  sample.value = static_cast<float>(point.value());
  sample.time = TimeFromProto(point.time());
  sample.attempt = point.attempt();
  NodeState& node = nodes_[point.executor_id()];
  node.last_metric = point.name();
  node.last_metric_value = sample.value;
  node.step = std::max(node.step, point.step());
  metrics_.Add(point.name(), point.executor_id(), sample);
}

void DashboardModel::TakeLogs(const v1::LogBatch& batch) {
  logs_.AddDropped(batch.dropped());
  LogLine line;
  line.time = TimeFromProto(batch.time());
  line.executor_id = batch.executor_id();
  line.attempt = batch.attempt();
  switch (batch.source()) {
    case v1::LogLines::SOURCE_STDERR:
      line.source = LogSource::kStderr;
      break;
    case v1::LogLines::SOURCE_AGENT:
      line.source = LogSource::kAgent;
      break;
    default:
      line.source = LogSource::kStdout;
  }
  for (const std::string& text : batch.lines()) {
    line.text = text;
    line.level = GuessLogLevel(text);
    logs_.Add(line);
  }
}

}  // namespace millrace::dashboard
