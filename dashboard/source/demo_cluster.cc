#include "dashboard/source/demo_cluster.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"
#include "millrace/cluster_spec.h"

namespace millrace::dashboard {
namespace {

constexpr double kRowBytes = 3136;         // 28 x 28 floats
constexpr double kRowsPerSecond = 12'000;  // of one node whose GPUs are busy
constexpr double kRunSeconds = 600;        // until the feed is done
constexpr int kPartitionsPerNode = 40;
constexpr int kMetricNodes = 64;
constexpr double kLogLinesPerSecond = 150;  // of all nodes
constexpr uint64_t kFeedBudget = uint64_t{256} << 20;

// Scenarios' moments, seconds after the start.
constexpr double kOutOfMemoryAt = 40.3;
constexpr double kReplayFailsAt = 200.3;
constexpr double kFlapsEvery = 14;
constexpr double kIdleFrom = 20;

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t Counter(double value) { return static_cast<uint64_t>(std::llround(std::max(value, 0.0))); }

}  // namespace

DemoCluster::DemoCluster(const DemoShape& shape) : shape_(shape) {
  const int n = shape_.nodes;
  const int ps = n >= 8 ? std::max(1, n / 32) : 0;
  const int chief = n >= 2 ? 1 : 0;
  const int evaluator = n >= 8 ? 1 : 0;
  nodes_.resize(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    Node& node = nodes_[i];
    if (i < ps) {
      node.job = "ps";
      node.task = i;
    } else if (i < ps + chief) {
      node.job = "chief";
    } else if (i < ps + chief + evaluator) {
      node.job = "evaluator";
    } else {
      node.job = "worker";
      node.task = i - ps - chief - evaluator;
    }
    node.fed = node.job == "chief" || node.job == "worker";
    if (node.fed) ++workers_;
    node.pid = 4200 + i;
    node.port = 41000 + i % 1000;
  }
  // As many samples as a coordinator takes: 2,500 a second.
  sample_every_ = shape.sample_every > 0 ? shape.sample_every : std::max(1, (n + 2499) / 2500);
}

double DemoCluster::Noise(uint64_t a, uint64_t b, uint64_t c) const {
  const uint64_t bits = Mix(Mix(Mix(shape_.seed * 1'000'003 + a) + b) + c);
  return static_cast<double>(bits >> 11) / 9007199254740992.0;
}

std::string DemoCluster::Name(int node) const {
  return absl::StrCat(nodes_[node].job, ":", nodes_[node].task);
}

int DemoCluster::Find(absl::string_view job, int task) const {
  int last_fed = -1;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].job == job && nodes_[i].task == task) return static_cast<int>(i);
    if (nodes_[i].fed) last_fed = static_cast<int>(i);
  }
  return last_fed;  // of a small cluster the last one plays the part
}

double DemoCluster::ReachedAfter(int node, v1::SlotState state) const {
  const Node& of = nodes_[node];
  const uint64_t id = static_cast<uint64_t>(node);
  // A cluster that is slow to start takes six to nine seconds for what others do in half a one.
  const double pace = shape_.scenario == "starting" ? 6 + 10 * Noise(id, 1) : 1;
  const bool missing = shape_.scenario == "missing-slot" && node == Find("worker", 3);
  const auto up_to_registered = [&](int which, uint64_t who) {
    const double slow = shape_.scenario == "starting" ? 6 + 10 * Noise(who, 1) : 1;
    const double steps[] = {0.04 + 0.05 * Noise(who, 2), 0.2 + 0.1 * Noise(who, 3),
                            0.05 + 0.1 * Noise(who, 4)};
    double sum = 0;
    for (int i = 0; i <= which; ++i) sum += steps[i] * slow;
    return sum;
  };
  switch (state) {
    case v1::SLOT_STATE_REQUESTED:
      return 0;
    case v1::SLOT_STATE_STARTED:
      return up_to_registered(0, id);
    case v1::SLOT_STATE_CONNECTED:
      return missing ? 1e18 : up_to_registered(1, id);
    case v1::SLOT_STATE_REGISTERED:
      return missing ? 1e18 : up_to_registered(2, id);
    default:
      break;
  }
  // The first attempts wait for each other: the spec needs all of them.
  double registered = up_to_registered(2, id);
  if (of.attempt == 0) {
    if (shape_.scenario == "missing-slot") return 1e18;
    registered = shape_.scenario == "starting" ? 0.45 * 16 : 0.55;
  }
  const double ready = registered + (0.1 + 0.1 * Noise(id, 5)) * std::sqrt(pace);
  if (state == v1::SLOT_STATE_READY) return ready;
  return state == v1::SLOT_STATE_RUNNING ? ready + (0.2 + 0.2 * Noise(id, 6)) * std::sqrt(pace)
                                         : 1e18;
}

v1::SlotState DemoCluster::StateAt(int node, double second) const {
  const Node& of = nodes_[node];
  if (second >= of.ends) return v1::SLOT_STATE_FAILED;
  if (second >= stopped_at_) {
    return second >= stopped_at_ + 2 ? v1::SLOT_STATE_FINISHED : v1::SLOT_STATE_DRAINING;
  }
  v1::SlotState state = v1::SLOT_STATE_REQUESTED;
  for (const v1::SlotState next :
       {v1::SLOT_STATE_STARTED, v1::SLOT_STATE_CONNECTED, v1::SLOT_STATE_REGISTERED,
        v1::SLOT_STATE_READY, v1::SLOT_STATE_RUNNING}) {
    if (second >= of.attempt_from + ReachedAfter(node, next)) state = next;
  }
  return state;
}

DemoCluster::Load DemoCluster::LoadOf(int node, int second) const {
  const uint64_t id = static_cast<uint64_t>(node);
  const double jitter = Noise(id, 7, static_cast<uint64_t>(second)) - 0.5;
  const double wave = std::sin(second / 9.0 + static_cast<double>(node));
  Load load;
  const auto set = [&](double speed, double starved, double backpressured, double gpu) {
    load.rows_per_second = kRowsPerSecond * speed * (1 + 0.1 * jitter + 0.03 * wave);
    load.starved = std::clamp(starved + 0.04 * jitter, 0.0, 1.0);
    load.backpressured = std::clamp(backpressured + 0.05 * jitter, 0.0, 1.0);
    load.decode = 0.03 * speed;
    load.compute = std::clamp(0.98 - load.starved, 0.0, 1.0);
    load.gpu_percent = std::clamp(gpu + 8 * jitter + 2 * wave, 0.0, 100.0);
    load.queued_bytes = (0.1 + backpressured) * 24e6 * (1 + 0.2 * jitter);
  };
  set(1, 0.03, 0.08, 89);
  if (shape_.scenario == "slow-source") {
    set(0.26, 0.61 + 0.04 * std::sin(static_cast<double>(node)), 0, 34);
  } else if (shape_.scenario == "slow-node") {
    if (node == Find("worker", 2)) {
      set(0.4, 0.01, 0.93, 96);
    } else {
      set(0.42, 0.56, 0, 38);
    }
  } else if (shape_.scenario == "skewed") {
    if (node == Find("worker", 0)) {
      set(1.05, 0.01, 0.6, 95);
    } else {
      set(0.23 / std::max(1, workers_ - 1), 0.92, 0, 5);
    }
  } else if (shape_.scenario == "idle" && second > kIdleFrom) {
    load = Load();
    load.starved = 1;
    load.gpu_percent = 0.6 * Noise(id, 8, static_cast<uint64_t>(second));
  }
  return load;
}

std::string DemoCluster::FailureText(int node, absl::string_view what) const {
  return absl::StrCat(Name(node), " (executor ", node, ", attempt ", nodes_[node].attempt,
                      ", host h", node, ", pid ", nodes_[node].pid, ") ", what);
}

v1::Event* DemoCluster::AddEvent(double second, absl::string_view kind,
                                 v1::Event::Severity severity, int node, absl::string_view text,
                                 v1::WatchUpdate* update) {
  v1::Event* event = update->add_events();
  event->set_number(events_++);
  *event->mutable_time() = TimeToProto(At(second));
  event->set_kind(std::string(kind));
  event->set_severity(severity);
  event->set_executor_id(node);
  if (node >= 0) event->set_attempt(nodes_[node].attempt);
  event->set_text(std::string(text));
  return event;
}

void DemoCluster::AddLog(int node, double second, v1::LogLines::Source source,
                         absl::string_view line, v1::WatchUpdate* update) {
  v1::LogBatch* batch = update->add_logs();
  batch->set_executor_id(node);
  batch->set_attempt(nodes_[node].attempt);
  batch->set_source(source);
  *batch->mutable_time() = TimeToProto(At(second));
  batch->add_lines(std::string(line));
}

void DemoCluster::Fail(int node, double second, absl::string_view what, bool folded,
                       v1::WatchUpdate* update) {
  nodes_[node].ends = second;
  AddEvent(second, "failure", folded ? v1::Event::SEVERITY_WARNING : v1::Event::SEVERITY_ERROR,
           node, FailureText(node, what), update)
      ->set_folded(folded);
  if (folded) ++folded_;
}

void DemoCluster::Restart(int node, double second, absl::string_view why, v1::WatchUpdate* update) {
  Node& of = nodes_[node];
  AddLog(node, second - 0.1, v1::LogLines::SOURCE_STDERR,
         "E data: checksum mismatch in shard 17: error, giving up", update);
  AddEvent(second, "restart", v1::Event::SEVERITY_WARNING, node,
           absl::StrCat(Name(node), " is started again in 1 s (restart ", of.attempt + 1,
                        " of 20): ", FailureText(node, why)),
           update);
  Node next;
  next.job = of.job;
  next.task = of.task;
  next.fed = of.fed;
  next.attempt = of.attempt + 1;
  next.attempt_from = second + 1;
  next.last_sample = second + 1;
  next.pid = of.pid + 1000;
  next.port = of.port + 1;
  of = next;
  membership_changed_ = true;
}

// What the scenario does in the second before `second`.
void DemoCluster::Script(int second, v1::WatchUpdate* update) {
  const auto now = [second](double at) { return at > second - 1 && at <= second; };
  if (second == 0) {
    AddEvent(0, "cluster", v1::Event::SEVERITY_INFO, -1,
             absl::StrCat("the cluster begins with ", nodes_.size(), " slots"), update);
  }
  if (nodes_.empty()) return;
  if (shape_.scenario == "missing-slot" && second == 5) {
    const int node = Find("worker", 3);
    if (node < 0) return;
    AddEvent(4.6, "agent", v1::Event::SEVERITY_WARNING, node,
             absl::StrCat("host h", node, " cannot reach 10.0.0.5:41233: No route to host"),
             update);
  }
  const double fails_at = shape_.scenario == "oom-cascade" ? kOutOfMemoryAt
                          : shape_.scenario == "replay"    ? kReplayFailsAt
                                                           : 1e18;
  if (now(fails_at)) {
    const int node = Find("worker", 3);
    AddLog(node, fails_at - 0.2, v1::LogLines::SOURCE_STDERR,
           "W allocator: 61.8 GiB of 62.0 GiB in use, warning: the next batch may not fit", update);
    first_cause_ = node;
    Fail(
        node, fails_at,
        "was killed by SIGKILL (if nobody did that, its host was short of memory: see dmesg there)",
        false, update);
  }
  if (now(fails_at + 1.4) && first_cause_ >= 0) {
    int followers = 0;
    for (size_t i = 0; i < nodes_.size() && followers < 4; ++i) {
      const int node = static_cast<int>(i);
      if (!nodes_[i].fed || node == first_cause_) continue;
      const double at = fails_at + 0.8 + 0.1 * followers++;
      AddLog(node, at - 0.05, v1::LogLines::SOURCE_STDERR,
             absl::StrCat("E all-reduce: error: ", Name(first_cause_), " closed the connection"),
             update);
      Fail(node, at, "exited with code 1", true, update);
    }
    first_cause_text_ =
        FailureText(first_cause_,
                    absl::StrCat("was killed by SIGKILL (if nobody did that, its host was short of "
                                 "memory: see dmesg there); ",
                                 folded_, " later failures folded"));
    AddEvent(fails_at + 1.35, "cluster", v1::Event::SEVERITY_ERROR, first_cause_,
             "the cluster has failed: " + first_cause_text_, update)
        ->set_first_cause(true);
    stopped_at_ = fails_at + 1.4;
  }
  if (shape_.scenario == "flapping" && second > 3) {
    const int node = Find("worker", 4);
    const double at = std::floor((second - 1) / kFlapsEvery) * kFlapsEvery + 0.7;
    if (at > 5 && now(at) && nodes_[node].attempt < 20) {
      Restart(node, at,
              "exited with code 3. Last stderr line: 'data: checksum mismatch in shard 17'",
              update);
    }
  }
}

void DemoCluster::AddSlots(int second, v1::WatchUpdate* update) {
  bool all = true;
  double last = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    const int id = static_cast<int>(i);
    const v1::SlotState state = StateAt(id, second);
    if (running_since_ < 0) {
      all = all && state >= v1::SLOT_STATE_RUNNING;
      last = std::max(last, node.attempt_from + ReachedAfter(id, v1::SLOT_STATE_RUNNING));
    }
    if (state == node.state) continue;
    node.state = state;
    v1::SlotStatus* slot = update->add_slots();
    slot->set_executor_id(id);
    slot->set_job_name(node.job);
    slot->set_task_index(node.task);
    slot->set_state(state);
    slot->set_attempt(node.attempt);
    const auto reached = [&](v1::SlotState step, double at) {
      v1::StateTime* time = slot->add_reached();
      time->set_state(step);
      *time->mutable_time() = TimeToProto(At(at));
    };
    for (int step = v1::SLOT_STATE_REQUESTED; step <= v1::SLOT_STATE_RUNNING; ++step) {
      const auto which = static_cast<v1::SlotState>(step);
      const double at = node.attempt_from + ReachedAfter(id, which);
      if (at <= second && at <= node.ends) reached(which, at);
    }
    if (state == v1::SLOT_STATE_DRAINING || state == v1::SLOT_STATE_FINISHED) {
      reached(v1::SLOT_STATE_DRAINING, stopped_at_);
      if (state == v1::SLOT_STATE_FINISHED) reached(state, stopped_at_ + 2);
    }
    if (state == v1::SLOT_STATE_FAILED) {
      reached(state, node.ends);
      slot->mutable_error()->set_code(10);
      slot->mutable_error()->set_message(
          FailureText(id, id == first_cause_ ? "was killed by SIGKILL" : "exited with code 1"));
    }
    if (state >= v1::SLOT_STATE_STARTED) slot->set_host(absl::StrCat("h", id));
    slot->set_attached(state >= v1::SLOT_STATE_CONNECTED && state <= v1::SLOT_STATE_DRAINING);
    if (state >= v1::SLOT_STATE_REGISTERED) {
      slot->set_address(
          absl::StrFormat("10.%d.%d.%d:%d", id / 62500, id / 250 % 250, id % 250 + 1, node.port));
    }
    if (state == v1::SLOT_STATE_RUNNING || state == v1::SLOT_STATE_DRAINING) {
      slot->set_pid(node.pid);
    }
    if (second < node.attempt_from) {
      *slot->mutable_restart_at() = TimeToProto(At(node.attempt_from));
    }
  }
  if (running_since_ < 0 && all && !nodes_.empty()) {
    running_since_ = last;
    AddEvent(last, "cluster", v1::Event::SEVERITY_INFO, -1,
             absl::StrCat("all ", nodes_.size(), " nodes have been started"), update);
  }
}

void DemoCluster::AddSample(int id, int second, v1::WatchUpdate* update) {
  Node& node = nodes_[id];
  const double dt = second - node.last_sample;
  node.last_sample = second;
  const bool runs = node.state == v1::SLOT_STATE_RUNNING;
  v1::WatchUpdate::Node* out = update->add_nodes();
  out->set_executor_id(id);
  *out->mutable_received() = TimeToProto(At(second - 0.01 * Noise(static_cast<uint64_t>(id), 9)));
  out->set_max_restarts(shape_.scenario == "flapping" ? 20 : 3);
  out->set_restarts(node.attempt);
  if (runs && id == 0) (*out->mutable_endpoints())["metrics"] = "10.0.0.1:9100";
  v1::NodeSample* sample = out->mutable_sample();
  *sample->mutable_time() = TimeToProto(At(second));
  sample->set_attempt(node.attempt);
  const bool feeding = runs && node.fed && feed_opened_;
  const Load load = feeding ? LoadOf(id, second) : Load();
  if (runs) {
    const double cores = node.fed ? 2 + 5 * load.compute : 0.4;
    node.cpu_us += dt * 1e6 * cores;
    v1::ProcessSample* process = sample->mutable_process();
    process->set_cpu_us(Counter(node.cpu_us));
    process->set_rss_bytes(
        Counter((3.2 + 0.3 * Noise(static_cast<uint64_t>(id), 10) + 0.002 * std::min(second, 600)) *
                (1 << 30)));
    process->set_threads(static_cast<uint32_t>(24 + id % 5));
    process->set_open_files(static_cast<uint32_t>(61 + id % 7));
  }
  if (node.fed && feed_opened_) {
    node.rows += dt * load.rows_per_second;
    node.bytes += dt * load.rows_per_second * kRowBytes;
    node.wait_us += dt * 1e6 * load.starved;
    node.compute_us += dt * 1e6 * load.compute;
    node.decode_us += dt * 1e6 * load.decode;
    node.full_us += dt * 1e6 * load.backpressured;
    node.step = static_cast<int64_t>(node.rows / 256);
    rows_done_ += dt * load.rows_per_second;
    v1::QueueSample* queue = sample->add_queues();
    queue->set_queue("input");
    queue->set_rows_received(Counter(node.rows));
    queue->set_rows_acked(Counter(node.rows - load.queued_bytes / kRowBytes));
    queue->set_bytes_received(Counter(node.bytes));
    queue->set_batches_received(Counter(node.rows / 1024));
    queue->set_batches_placed(queue->batches_received() - queue->batches_received() / 50);
    queue->set_credit_outstanding_bytes(Counter(load.queued_bytes * 1.5 + 8e6));
    queue->set_queued_bytes(Counter(load.queued_bytes));
    queue->set_queued_rows(Counter(load.queued_bytes / kRowBytes));
    queue->set_open_sessions(load.rows_per_second > 0 ? 1 : 0);
    queue->set_partitions_received(
        Counter(node.rows / (kRowsPerSecond * kRunSeconds) * kPartitionsPerNode));
    queue->set_wait_us(Counter(node.wait_us));
    queue->set_compute_us(Counter(node.compute_us));
    queue->set_decode_us(Counter(node.decode_us));
    queue->set_full_us(Counter(node.full_us));
    sample->set_feed_budget_bytes(kFeedBudget);
    sample->set_feed_held_bytes(Counter(load.queued_bytes * 1.2));
    sample->set_step(node.step);
    *sample->mutable_step_time() = TimeToProto(At(second - 0.2));
  }
  AddGpus(id, second, load, sample);
}

void DemoCluster::AddGpus(int id, int second, const Load& load, v1::NodeSample* sample) {
  if (shape_.gpus_per_node == 0 || (shape_.scenario == "gpu-unknown" && id == Find("worker", 1))) {
    sample->set_gpus_unknown("no NVML on this host");
    return;
  }
  const bool runs = nodes_[id].state == v1::SLOT_STATE_RUNNING;
  const int hot_host = Find("worker", 2);
  for (int i = 0; i < shape_.gpus_per_node; ++i) {
    const uint64_t gpu_id = static_cast<uint64_t>(id) * 16 + static_cast<uint64_t>(i);
    const double jitter = Noise(gpu_id, 11, static_cast<uint64_t>(second)) - 0.5;
    const bool hot = shape_.scenario == "gpu-hot" && id == hot_host && i % 3 == 1;
    const double busy =
        std::clamp(load.gpu_percent + (load.gpu_percent > 1 ? 10 * jitter : 0), 0.0, 100.0);
    v1::GpuSample* gpu = sample->add_gpus();
    gpu->set_index(static_cast<uint32_t>(i));
    gpu->set_uuid(absl::StrFormat("GPU-%08x-demo-%04x", id, i));
    gpu->set_name("Demo H100");
    gpu->set_pci_bus_id(absl::StrFormat("00000000:%02X:00.0", 0x10 + i));
    *gpu->mutable_time() = TimeToProto(At(second));
    gpu->set_source("fake");
    gpu->set_utilization_percent(static_cast<float>(std::round(busy)));
    gpu->set_memory_utilization_percent(static_cast<float>(std::round(busy * 0.45)));
    gpu->set_memory_total_bytes(uint64_t{80} << 30);
    gpu->set_memory_used_bytes(
        runs && nodes_[id].fed ? Counter((52 + 4 * Noise(gpu_id, 12)) * (1 << 30)) : 600 << 20);
    gpu->set_power_limit_watts(700);
    gpu->set_power_watts(static_cast<float>(std::round(75 + 5.6 * busy + 8 * jitter)));
    gpu->set_temperature_celsius(static_cast<float>(
        std::round(hot ? 90 + 2 * Noise(gpu_id, 13) : 34 + 0.36 * busy + jitter)));
    gpu->set_max_sm_clock_mhz(1980);
    gpu->set_sm_clock_mhz(hot ? 1275 : busy > 2 ? 1935 : 345);
    gpu->set_memory_clock_mhz(2619);
    gpu->set_throttle_known(true);
    if (hot) gpu->add_throttle_reasons("hw_thermal_slowdown");
    if (busy <= 2) gpu->add_throttle_reasons("gpu_idle");
    gpu->set_pcie_generation(5);
    gpu->set_pcie_width(16);
    gpu->set_pcie_rx_bytes_per_second(
        Counter(load.rows_per_second * kRowBytes / std::max(1, shape_.gpus_per_node)));
    gpu->set_pcie_tx_bytes_per_second(Counter(2e6 * busy));
    gpu->set_ecc_corrected(0);
    gpu->set_ecc_uncorrected(0);
    gpu->set_sm_active_percent(static_cast<float>(busy * 0.8));
    gpu->set_tensor_active_percent(static_cast<float>(busy * 0.41));
    gpu->set_dram_active_percent(static_cast<float>(busy * 0.38));
    if (runs && nodes_[id].fed) {
      v1::GpuProcess* process = gpu->add_processes();
      process->set_pid(nodes_[id].pid);
      process->set_memory_bytes(gpu->memory_used_bytes() - (uint64_t{500} << 20));
      sample->add_claimed_gpus(gpu->uuid());
    }
  }
}

void DemoCluster::AddCluster(v1::WatchUpdate* update) {
  v1::ClusterInfo* info = update->mutable_cluster();
  info->set_cluster_id("demo");
  info->set_phase(!first_cause_text_.empty() ? v1::ClusterInfo::PHASE_FAILED
                  : running_since_ >= 0      ? v1::ClusterInfo::PHASE_RUNNING
                                             : v1::ClusterInfo::PHASE_RESERVING);
  info->set_epoch(epoch_);
  *info->mutable_started() = TimeToProto(shape_.started);
  info->set_input_mode(v1::INPUT_MODE_FEED);
  info->set_num_slots(static_cast<int>(nodes_.size()));
  std::array<int, v1::SlotState_ARRAYSIZE> by_state{};
  for (const Node& node : nodes_) ++by_state[node.state];
  for (const int count : by_state) info->add_by_state(count);
  info->set_first_cause_executor(-1);
  if (!first_cause_text_.empty()) {
    info->mutable_first_cause()->set_code(10);
    info->mutable_first_cause()->set_message(first_cause_text_);
    info->set_first_cause_executor(first_cause_);
    info->set_folded_failures(folded_);
  }
  info->set_program("/opt/demo/digits");
  info->set_driver_host("driver");
  info->set_driver_pid(4100);
  info->set_version("demo");
  info->add_queues("input");
  *info->mutable_heartbeat_interval() = DurationToProto(absl::Seconds(1));
}

void DemoCluster::AddFeed(int second, v1::WatchUpdate* update) {
  if (running_since_ < 0 || workers_ == 0) return;
  if (!feed_opened_) {
    feed_opened_ = true;
    AddEvent(running_since_ + 0.1, "feed", v1::Event::SEVERITY_INFO, -1,
             absl::StrCat("feed-1 opened: ", kPartitionsPerNode * workers_,
                          " partitions to queue input"),
             update);
  }
  if (feed_closed_) return;
  const double rows_total = kRowsPerSecond * kRunSeconds * workers_;
  const int64_t partitions = int64_t{kPartitionsPerNode} * workers_;
  const bool idle = shape_.scenario == "idle" && second > kIdleFrom;
  const double progress = idle ? 1 : std::min(1.0, rows_done_ / rows_total);
  v1::FeedInfo* feed = update->add_feeds();
  feed->set_feed_id("feed-1");
  feed->set_queue("input");
  feed->set_partitions(partitions);
  const int64_t done = static_cast<int64_t>(progress * static_cast<double>(partitions));
  const int64_t feeding = std::min<int64_t>(workers_, partitions - done);
  feed->set_done(done);
  feed->set_feeding(feeding);
  feed->set_pending(partitions - done - feeding);
  feed->set_rows_received(Counter(rows_done_));
  feed->set_rows_acked(Counter(rows_done_ * 0.99));
  feed->set_exactly_once(false);
  *feed->mutable_opened() = TimeToProto(At(running_since_ + 0.1));
  if (shape_.scenario == "flapping" && events_ > 4) {
    const int node = Find("worker", 4);
    feed->set_partitions_refed(nodes_[node].attempt);
    feed->set_rows_refed(nodes_[node].attempt * uint64_t{4200});
    feed->add_refed_partitions(17);
  }
  if (progress >= 1) {
    feed->set_closed(true);
    feed_closed_ = true;
    AddEvent(second, "feed", v1::Event::SEVERITY_INFO, -1,
             absl::StrCat("feed-1 ended: ", partitions, " partitions done"), update);
  }
}

void DemoCluster::AddMetricsAndLogs(int second, v1::WatchUpdate* update) {
  int metric_nodes = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    const int id = static_cast<int>(i);
    const uint64_t time = static_cast<uint64_t>(second);
    if (node.state != v1::SLOT_STATE_RUNNING) continue;
    const auto metric = [&](absl::string_view name, double value) {
      v1::MetricPoint* point = update->add_metrics();
      point->set_executor_id(id);
      point->set_name(std::string(name));
      point->set_step(node.step);
      point->set_value(value);
      *point->mutable_time() = TimeToProto(At(second - 0.3));
      point->set_attempt(node.attempt);
    };
    const double learned = static_cast<double>(node.step) / 700;
    const double loss =
        2.3 * std::exp(-learned) + 0.06 + (0.05 + 0.2 * std::exp(-learned)) * Noise(i, 14, time);
    const bool feeding = feed_opened_ && !feed_closed_;
    if (node.fed && feeding && metric_nodes < kMetricNodes) {
      ++metric_nodes;
      metric("loss", loss);
      metric("accuracy", std::clamp(1 - loss / 2.6, 0.0, 1.0));
    }
    if (node.job == "evaluator" && feeding && second % 15 == 14) {
      // It evaluates the checkpoint that the chief wrote.
      node.step = nodes_[static_cast<size_t>(Find("chief", 0))].step;
      metric("eval_accuracy", 0.985 - 0.8 * std::exp(-second / 25.0));
    }
    const double chance = std::min(0.4, kLogLinesPerSecond / static_cast<double>(nodes_.size()));
    if (Noise(i, 15, time) >= chance) continue;
    const double at = second - 0.9 * Noise(i, 16, time);
    const std::string stamp = absl::FormatTime("%m%d %H:%M:%E3S", At(at), absl::UTCTimeZone());
    const bool slow = Noise(i, 17, time) < 0.04;
    if (!node.fed) {
      AddLog(id, at, v1::LogLines::SOURCE_STDOUT,
             absl::StrFormat("I%s %s: %d requests served", stamp, node.job, second * 37 + id),
             update);
    } else if (!feeding) {
      AddLog(id, at, v1::LogLines::SOURCE_STDOUT, absl::StrFormat("I%s waiting for rows", stamp),
             update);
    } else if (slow) {
      AddLog(id, at, v1::LogLines::SOURCE_STDERR,
             absl::StrFormat("W%s batch %d took %d ms", stamp, node.step,
                             200 + static_cast<int>(600 * Noise(i, 18, time))),
             update);
    } else {
      AddLog(id, at, v1::LogLines::SOURCE_STDOUT,
             absl::StrFormat("I%s step %d loss %.4f", stamp, node.step, loss), update);
    }
  }
}

void DemoCluster::AddMembership(int second, v1::WatchUpdate* update) {
  const bool first = epoch_ == 0;
  if (first) {
    for (const Node& node : nodes_) {
      if (node.state < v1::SLOT_STATE_READY) return;
    }
    if (nodes_.empty()) return;
  } else if (!membership_changed_) {
    return;
  }
  ClusterSpec spec;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    // An evaluator is no member.
    if (nodes_[i].job == "evaluator") continue;
    const int id = static_cast<int>(i);
    spec.SetTask(nodes_[i].job, nodes_[i].task,
                 absl::StrFormat("10.%d.%d.%d:%d", id / 62500, id / 250 % 250, id % 250 + 1,
                                 nodes_[i].port))
        .IgnoreError();  // tasks are not negative
  }
  membership_changed_ = false;
  *update->add_membership() = MakeSpecUpdate(spec, ++epoch_);
  AddEvent(second, "membership", v1::Event::SEVERITY_INFO, -1,
           first ? absl::StrCat("epoch ", epoch_, ": ", spec.total_tasks(), " nodes are registered")
                 : absl::StrCat("epoch ", epoch_, ": a node has come again at another port"),
           update);
}

v1::WatchUpdate DemoCluster::Step(int second) {
  v1::WatchUpdate update;
  update.set_seq(static_cast<uint64_t>(second) + 1);
  update.set_snapshot(second == 0);
  update.set_incarnation("demo");
  *update.mutable_time() = TimeToProto(At(second));
  Script(second, &update);
  AddSlots(second, &update);
  AddMembership(second, &update);
  AddFeed(second, &update);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const int id = static_cast<int>(i);
    if ((second + id) % sample_every_ != 0) continue;
    const v1::SlotState state = nodes_[i].state;
    if (state < v1::SLOT_STATE_CONNECTED || state > v1::SLOT_STATE_DRAINING) continue;
    AddSample(id, second, &update);
  }
  AddMetricsAndLogs(second, &update);
  // In the order in which they came.
  auto* logs = update.mutable_logs();
  std::stable_sort(logs->pointer_begin(), logs->pointer_end(),
                   [](const v1::LogBatch* a, const v1::LogBatch* b) {
                     return TimeFromProto(a->time()) < TimeFromProto(b->time());
                   });
  AddCluster(&update);
  return update;
}

}  // namespace millrace::dashboard
