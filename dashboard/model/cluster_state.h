// File: dashboard/model/cluster_state.h
//
// A cluster as the panels draw it: values that are current, rates already divided.
//
// Defines: Lately, ClusterFacts, NodeState, QueueState, HostState, GpuState, GpuMetric, NodeMetric,
// ClusterMetric, FeedState, SlowsDown().
//
// Numbers that are not known are kUnknown (dashboard/model/history.h), never 0; check with Known().
// Times are on the coordinator's clock; InfinitePast() means: not (yet). Rates are per second.
//
// Thread safety: values.

#ifndef DASHBOARD_MODEL_CLUSTER_STATE_H_
#define DASHBOARD_MODEL_CLUSTER_STATE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/watch.pb.h"
#include "dashboard/model/history.h"

namespace millrace::dashboard {

inline constexpr int kSlotStates = 11;  // v1::SlotState, 0 to SLOT_STATE_LOST

// Histories that are kept of each GPU. Memory is in percent of the GPU's memory.
enum class GpuMetric { kUtilization, kMemory, kPower, kTemperature, kClock, kMemoryBandwidth };
inline constexpr int kGpuMetrics = 6;
// "utilisation", "memory", ...
[[nodiscard]] absl::string_view GpuMetricName(GpuMetric metric);

// Histories that are kept of each node.
enum class NodeMetric { kCpu, kRss, kRows, kBytes, kStarved, kBackpressured, kQueued };
inline constexpr int kNodeMetrics = 7;

// Histories that are kept of the cluster.
enum class ClusterMetric { kRunning, kRows, kBytes, kGpuUtilization, kStarved, kBackpressured };
inline constexpr int kClusterMetrics = 6;

// An average over what came lately: older values count less and less.
struct Lately {
  float mean = kUnknown;
  absl::Time at = absl::InfinitePast();
  int values = 0;

  // kUnknown ends the average: the next value begins it anew.
  void Add(float value, absl::Time time);
};

struct ClusterFacts {
  std::string cluster_id;
  v1::ClusterInfo::Phase phase = v1::ClusterInfo::PHASE_UNSPECIFIED;
  uint64_t epoch = 0;
  absl::Time started = absl::InfinitePast();
  v1::InputMode input_mode = v1::INPUT_MODE_UNSPECIFIED;
  int num_slots = 0;
  std::array<int, kSlotStates> by_state{};
  std::string first_cause;        // empty: none
  int first_cause_executor = -1;  // -1: nobody's
  int folded_failures = 0;
  std::string name;  // may be empty
  std::string program;
  std::string command;  // program with its arguments; may be empty
  std::string driver_host;
  int64_t driver_pid = 0;
  std::string version;
  std::vector<std::string> queues;
  std::string log_dir;
  uint64_t fenced_updates = 0;
  uint64_t illegal_updates = 0;
  struct Quarantine {
    std::string host;
    absl::Time until;
  };
  std::vector<Quarantine> quarantined;

  // What people know the program by: its command, or its path where the coordinator says no more.
  [[nodiscard]] const std::string& shown_program() const {
    return command.empty() ? program : command;
  }
};

// One input queue of a node's feed. Fractions are of the time between the last two samples, 0 to 1.
struct QueueState {
  v1::QueueSample sample;                // the newest
  float rows_per_second = kUnknown;      // received
  float bytes_per_second = kUnknown;     // received
  float batches_per_second = kUnknown;   // received
  float returned_per_second = kUnknown;  // rows, results
  float starved = kUnknown;              // the program waited for rows
  float compute = kUnknown;              // the program worked between two batches
  float decode = kUnknown;               // the receiver checked and decoded
  float backpressured = kUnknown;        // feeders had no credit left
  // The share of all its batches that came through shared memory.
  [[nodiscard]] float placed() const;
};

struct NodeState {
  int executor_id = 0;
  std::string job;
  int task = 0;
  std::string name;  // "worker:1"
  v1::SlotState state = v1::SLOT_STATE_UNSPECIFIED;
  uint32_t attempt = 0;
  std::string host;
  std::string address;
  int64_t pid = 0;  // 0: does not run
  // When this attempt reached each state, by v1::SlotState.
  std::array<absl::Time, kSlotStates> reached;
  std::string error;
  bool stopped = false;
  bool attached = false;
  absl::Time restart_at = absl::InfinitePast();
  uint32_t restarts = 0;
  uint32_t max_restarts = 0;
  std::map<std::string, std::string> endpoints;

  absl::Time sampled = absl::InfinitePast();  // when the coordinator had the newest sample
  float cpu_percent = kUnknown;               // 100: one core
  float rss_bytes = kUnknown;
  float threads = kUnknown;
  float open_files = kUnknown;
  float feed_budget_bytes = kUnknown;
  float feed_held_bytes = kUnknown;
  std::string why_not_shared;  // why a feeder of its host sends through a socket; may be empty
  int64_t step = -1;           // -1: none
  absl::Time step_time = absl::InfinitePast();
  std::vector<QueueState> queues;
  // Over all queues; kUnknown for a node that is not fed.
  float rows_per_second = kUnknown;
  float bytes_per_second = kUnknown;
  float starved = kUnknown;
  float backpressured = kUnknown;
  // The same, averaged over the last half minute or so: what verdicts are made of.
  Lately rows_lately;
  Lately bytes_lately;
  Lately starved_lately;
  Lately backpressured_lately;
  std::string last_metric;  // name of the newest user metric; empty: none
  float last_metric_value = kUnknown;

  int host_index = -1;    // into DashboardModel::hosts(); -1: on no host yet
  std::vector<int> gpus;  // that it has claimed, into DashboardModel::gpus()

  NodeState() { reached.fill(absl::InfinitePast()); }
  // Since when it is in its state; InfinitePast() if that is not known.
  [[nodiscard]] absl::Time since() const;
  // Nothing is expected of it any more: finished, failed or lost.
  [[nodiscard]] bool ended() const { return state >= v1::SLOT_STATE_FINISHED; }
};

struct HostState {
  std::string name;
  std::vector<int> nodes;     // executor ids
  std::vector<int> gpus;      // into DashboardModel::gpus(), by index on the host
  std::string gpus_unknown;   // why they could not be read; empty: they could, or nobody said
  bool reports_gpus = false;  // an agent has said something about its GPUs
};

// What is read of every GPU again and again stands together, at the beginning.
struct GpuState {
  absl::Time time = absl::InfinitePast();  // of the newest values
  std::array<float, kGpuMetrics> values;   // by GpuMetric
  Lately utilization_lately;
  float power_limit_watts = kUnknown;
  float max_clock_mhz = kUnknown;
  int owner = -1;  // executor id of the node that has claimed it; -1: nobody
  int host = -1;   // into DashboardModel::hosts()
  uint32_t index = 0;
  bool slowed = false;  // of throttle_reasons: see throttled()
  bool noted = false;   // it deserves a warning
  bool throttle_known = false;
  std::string error;  // why values are missing; empty: they are not
  std::string uuid;
  std::string parent_uuid;  // of a MIG instance; empty otherwise
  std::string name;
  std::string pci_bus_id;
  std::string source;  // "nvml", "nvidia-smi", "fake"

  float memory_used_bytes = kUnknown;
  float memory_total_bytes = kUnknown;
  float memory_clock_mhz = kUnknown;
  float pcie_rx_bytes_per_second = kUnknown;
  float pcie_tx_bytes_per_second = kUnknown;
  float sm_active_percent = kUnknown;
  float sm_occupancy_percent = kUnknown;
  float tensor_active_percent = kUnknown;
  float dram_active_percent = kUnknown;
  float pcie_generation = kUnknown;
  float pcie_width = kUnknown;
  float ecc_corrected = kUnknown;
  float ecc_uncorrected = kUnknown;
  float xid_count = kUnknown;
  float last_xid = kUnknown;
  std::vector<std::string> throttle_reasons;  // by their NVML names, lower case
  struct Process {
    int64_t pid = 0;
    float memory_bytes = kUnknown;
  };
  std::vector<Process> processes;

  GpuState() { values.fill(kUnknown); }
  [[nodiscard]] float value(GpuMetric metric) const { return values[static_cast<int>(metric)]; }
  // It runs slower than it could for its heat or its power brake; an idle GPU's and an
  // application's own limits do not count.
  [[nodiscard]] bool throttled() const { return slowed; }
};

// Whether these reasons make GpuState::throttled().
[[nodiscard]] bool SlowsDown(const std::vector<std::string>& throttle_reasons);

// One feed of the ledger.
struct FeedState {
  v1::FeedInfo info;
  float rows_per_second = kUnknown;   // received
  float acked_per_second = kUnknown;  // rows
  absl::Time opened = absl::InfinitePast();
  // 0 to 1 of its partitions; kUnknown without partitions.
  float progress = kUnknown;
  // Until all partitions are done, at the pace since it was opened. InfiniteDuration(): not known.
  absl::Duration eta = absl::InfiniteDuration();
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_CLUSTER_STATE_H_
