// File: dashboard/model/dashboard_model.h
//
// One cluster as the dashboard knows it: a source's updates folded into states, rates, histories,
// warnings and a verdict.
//
// Defines: DashboardModel, ModelOptions, LinkHealth.
//
//   DashboardModel model;
//   source->Poll(now, 64, &updates);
//   for (const SourceUpdate& update : updates) model.Apply(update);
//   model.Advance(source->ModelTime(now));     // once a frame
//   Draw(model.verdict().start.text);
//
// Time comes in by argument only. Apply() and Advance() take the viewer's clock; every time that
// the model gives out is on the coordinator's, which the model follows by the updates: now().
//
// Ownership: all of it is the model's; references are valid until the next Apply() or Advance().
// Thread safety: not thread-safe; const methods may run concurrently. Blocking: never.

#ifndef DASHBOARD_MODEL_DASHBOARD_MODEL_H_
#define DASHBOARD_MODEL_DASHBOARD_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dashboard/model/census.h"
#include "dashboard/model/cluster_state.h"
#include "dashboard/model/history.h"
#include "dashboard/model/log_ring.h"
#include "dashboard/model/membership.h"
#include "dashboard/model/metric_book.h"
#include "dashboard/model/source_update.h"
#include "dashboard/model/timeline.h"
#include "dashboard/model/verdict.h"
#include "dashboard/model/warnings.h"

namespace millrace::dashboard {

struct ModelOptions {
  absl::TimeZone zone = absl::LocalTimeZone();  // of clock times within texts
  size_t max_log_lines = 1'000'000;
};

// How the data come in.
struct LinkHealth {
  LinkState link;
  // Since the last update; InfiniteDuration() before the first.
  absl::Duration data_age = absl::InfiniteDuration();
  // Values are shown greyed with their age: no update for more than three seconds beyond the pace.
  bool stale = false;
  uint64_t updates = 0;  // transactions
  uint64_t bytes = 0;    // on the wire, as far as known
  float bytes_per_second = kUnknown;
  float updates_per_second = kUnknown;
  // What this viewer missed: dropped by the coordinator because it was not read in time, and
  // dropped here.
  uint64_t dropped_metrics = 0;
  uint64_t dropped_events = 0;
  uint64_t dropped_log_lines = 0;
  uint64_t dropped_updates = 0;
  uint64_t refused_updates = 0;  // that made no sense
  std::string last_refusal;
};

class DashboardModel {
 public:
  explicit DashboardModel(ModelOptions options = {});
  DashboardModel(const DashboardModel&) = delete;
  DashboardModel& operator=(const DashboardModel&) = delete;

  // Takes one update. What makes no sense in it (an executor id out of bounds, say) is left out and
  // counted.
  void Apply(const SourceUpdate& update);
  // Lets time pass: ages, gaps, warnings, verdict. `now` is on the viewer's clock.
  void Advance(absl::Time now);
  // Lets totals, verdict and warnings be of what is known now, at once, however large the cluster
  // is.
  void Settle();

  // ---- what is known ----

  // A first update has come.
  [[nodiscard]] bool has_data() const { return has_data_; }
  // On the coordinator's clock: goes on while the link is down.
  [[nodiscard]] absl::Time now() const { return now_; }
  // The viewer's clock less the coordinator's, as of the last update.
  [[nodiscard]] absl::Duration clock_offset() const { return clock_offset_; }
  // Of the newest update.
  [[nodiscard]] absl::Time data_time() const { return data_time_; }
  [[nodiscard]] const ModelOptions& options() const { return options_; }
  [[nodiscard]] const LinkHealth& health() const { return health_; }
  [[nodiscard]] const ClusterFacts& cluster() const { return cluster_; }
  // By executor id, without gaps.
  [[nodiscard]] const std::vector<NodeState>& nodes() const { return nodes_; }
  // In the order in which they were seen; they stay when they are not used any more.
  [[nodiscard]] const std::vector<HostState>& hosts() const { return hosts_; }
  [[nodiscard]] const std::vector<GpuState>& gpus() const { return gpus_; }
  // By feed id.
  [[nodiscard]] const std::map<std::string, FeedState>& feeds() const { return feeds_; }
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  [[nodiscard]] const LogRing& logs() const { return logs_; }
  [[nodiscard]] const MetricBook& metrics() const { return metrics_; }
  [[nodiscard]] const Membership& membership() const { return membership_; }
  // When all slots ran for the first time; InfinitePast(): not yet, or not known.
  [[nodiscard]] absl::Time all_ran() const { return all_ran_; }
  // The executor id of "worker:1"; -1 if there is none.
  [[nodiscard]] int FindNode(absl::string_view name) const;
  // "worker:1"; "executor 7" for one that is not known.
  [[nodiscard]] std::string NodeName(int executor_id) const;
  // "h2/gpu5".
  [[nodiscard]] std::string GpuName(int gpu) const;
  // A value of a node or GPU is old: three seconds beyond the pace at which samples come.
  [[nodiscard]] bool IsOld(absl::Time sampled) const;

  // ---- the past ----

  [[nodiscard]] const ByteHistory& gpu_history(GpuMetric metric) const {
    return gpu_history_[static_cast<size_t>(metric)];
  }
  // Series: the place in gpus().
  [[nodiscard]] const FloatHistory& node_history(NodeMetric metric) const {
    return node_history_[static_cast<size_t>(metric)];
  }
  // Series 0.
  [[nodiscard]] const FloatHistory& cluster_history(ClusterMetric metric) const {
    return cluster_history_[static_cast<size_t>(metric)];
  }
  // Newest, over all nodes and GPUs that are known.
  [[nodiscard]] float cluster_value(ClusterMetric metric) const {
    return cluster_values_[static_cast<size_t>(metric)];
  }

  // ---- what follows from it ----

  // Of clusters with more than a thousand nodes it is counted over half a second, and verdict and
  // warnings follow it.
  [[nodiscard]] const Census& census() const { return taker_.last(); }
  [[nodiscard]] const Verdict& verdict() const { return verdict_; }
  [[nodiscard]] std::vector<const Warning*> warnings() const { return warnings_.active(); }

  // Of histories, log lines and metrics: nearly all that there is.
  [[nodiscard]] size_t memory_bytes() const;
  // Numbers that change with what is derived from them, once the transaction that changed it is
  // complete. No two models give the same ones.
  [[nodiscard]] uint64_t version() const { return version_; }              // anything
  [[nodiscard]] uint64_t slots_version() const { return slots_version_; }  // slots
  // Slots, or which queues nodes have.
  [[nodiscard]] uint64_t queues_version() const { return queues_version_; }
  // Which hosts and GPUs there are, and which of them are not known or have not told.
  [[nodiscard]] uint64_t hosts_version() const { return hosts_version_; }

 private:
  // Counters of the sample before, to divide by.
  struct NodeCounters {
    absl::Time time = absl::InfinitePast();  // of the sample, on the agent's clock
    uint32_t attempt = 0;
    uint64_t cpu_us = 0;
    bool cpu_known = false;
    std::vector<int> gpu_ids;  // of the sample's GPUs, in its order
  };
  struct FeedCounters {
    absl::Time time = absl::InfinitePast();
    uint64_t rows_received = 0, rows_acked = 0;
  };

  void Forget();
  void TakeWatch(const SourceUpdate& update);
  void TakeCluster(const v1::ClusterInfo& info);
  bool Reserve(int executor_id);
  void TakeSlot(const v1::SlotStatus& slot);
  void TakeNode(const v1::WatchUpdate::Node& node);
  void TakeQueues(const v1::NodeSample& sample, double seconds, NodeState* node);
  void TakeGpus(const v1::NodeSample& sample, NodeState* node, NodeCounters* before);
  // `of_node`: how many GPUs its node has.
  int GpuOf(int host, const v1::GpuSample& sample, size_t of_node);
  void TakeGpu(const v1::GpuSample& sample, int gpu);
  void TakeFeed(const v1::FeedInfo& info);
  void TakeMetric(const v1::MetricPoint& point);
  void TakeLogs(const v1::LogBatch& batch);
  int HostOf(const std::string& name);
  void Refuse(absl::string_view why);
  void Bump();
  [[nodiscard]] bool large() const;
  void CountAll();
  void TakeTotals();
  void Conclude();
  void Warn();

  ModelOptions options_;
  bool has_data_ = false;
  std::string incarnation_;
  bool mid_transaction_ = false;
  bool mid_slots_ = false;      // a part of the slots is there
  bool slots_changed_ = false;  // since slots_version_
  bool hosts_changed_ = false;
  bool queues_changed_ = false;  // there are more or fewer of them: lists of them are wrong at once
  absl::Time all_ran_ = absl::InfinitePast();
  absl::Time logs_known_until_ = absl::InfinitePast();
  uint64_t version_ = 0;
  uint64_t slots_version_ = 0;
  uint64_t queues_version_ = 0;
  uint64_t hosts_version_ = 0;
  absl::Time viewer_now_ = absl::InfinitePast();
  absl::Time now_ = absl::UnixEpoch();
  absl::Time data_time_ = absl::InfinitePast();
  absl::Time last_arrival_ = absl::InfinitePast();
  // Viewer's clock less coordinator's, as of the last update.
  absl::Duration clock_offset_;
  absl::Time derived_at_ = absl::InfinitePast();  // when verdict and warnings were last made
  uint64_t derived_version_ = 0;
  absl::Time counted_at_ = absl::InfinitePast();  // of a large cluster: a slice of it
  // Between samples of one node, a moving average; for IsOld().
  absl::Duration sample_pace_ = absl::Seconds(1);
  absl::Time rate_from_ = absl::InfinitePast();
  uint64_t rate_bytes_ = 0;
  uint64_t rate_updates_ = 0;

  LinkHealth health_;
  ClusterFacts cluster_;
  std::vector<NodeState> nodes_;
  std::vector<NodeCounters> counters_;  // as long as nodes_
  std::vector<HostState> hosts_;
  absl::flat_hash_map<std::string, int> host_ids_;
  std::vector<GpuState> gpus_;
  absl::flat_hash_map<std::string, int> gpu_ids_;  // "host\nuuid"
  absl::flat_hash_map<std::string, int> gpu_by_uuid_;
  std::map<std::string, FeedState> feeds_;
  std::map<std::string, FeedCounters> feed_counters_;
  Timeline timeline_;
  LogRing logs_;
  MetricBook metrics_;
  Membership membership_;
  std::vector<ByteHistory> gpu_history_;
  std::vector<FloatHistory> node_history_;
  std::vector<FloatHistory> cluster_history_;
  std::array<float, kClusterMetrics> cluster_values_;
  CensusTaker taker_;
  WarningBoard warnings_;
  Verdict verdict_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_DASHBOARD_MODEL_H_
