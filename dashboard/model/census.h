// File: dashboard/model/census.h
//
// What is counted over all nodes, hosts and GPUs of a cluster: what its verdict, its warnings and
// its totals are made of. Of a large cluster it is counted in slices, so that no frame waits for
// it.
//
// Defines: Census, CensusTaker.
//
//   CensusTaker taker;
//   taker.Begin();
//   while (!taker.Count(model, /*work=*/5000)) Frame();
//   const Census& census = taker.last();
//
// Values that are not known are kUnknown. "Lately": averages of the last half minute or so.
//
// Thread safety: not thread-safe; const methods may run concurrently. Blocking: never.

#ifndef DASHBOARD_MODEL_CENSUS_H_
#define DASHBOARD_MODEL_CENSUS_H_

#include <array>
#include <cstddef>
#include <vector>

#include "dashboard/model/cluster_state.h"
#include "dashboard/model/history.h"

namespace millrace::dashboard {

class DashboardModel;

struct Census {
  static constexpr size_t kListed = 50;
  // From this fraction of its time on, a node is held up by what it waits for.
  static constexpr float kHeldUp = 0.3f;

  // ---- nodes; executor ids, -1: none ----
  int nodes = 0;
  std::array<int, kSlotStates> by_state{};
  int ended = 0;
  // Of those that do not run yet: the lowest on the ladder, of these the one that is there longest.
  int slowest = -1;
  // The first that neither runs, nor drains, nor has finished.
  int absent = -1;
  int restarts = 0;   // of all
  int restless = -1;  // was started again most often
  int restless_restarts = 0;
  bool all_ran = false;                        // each slot's first attempt has been running
  absl::Time last_ran = absl::InfinitePast();  // the last of these
  std::vector<int> noted_nodes;                // the first kListed that deserve a warning

  // ---- feed, of nodes that have not ended ----
  int fed = 0;
  float starved_lately = kUnknown;  // mean
  int most_starved = -1;
  float most_starved_by = 0;
  int fullest = -1;  // holds back its feeders most
  float fullest_by = 0;
  float least_full_by = 1;  // of all others too
  double rows_lately = 0;   // per second
  double bytes_lately = 0;  // per second
  int richest = -1;         // receives most rows
  float richest_share = 0;
  int waiting = 0;  // wait more than kHeldUp of their time
  // Newest values, of nodes whose samples are not old.
  float rows_per_second = kUnknown;
  float bytes_per_second = kUnknown;
  float starved = kUnknown;        // mean
  float backpressured = kUnknown;  // mean

  // ---- GPUs; indexes into DashboardModel::gpus() ----
  int gpus_counted = 0;                     // known, and claimed by a node if any is
  float gpu_utilization_lately = kUnknown;  // means of these
  float gpu_utilization = kUnknown;         // newest
  int gpus_throttled = 0;
  int hottest = -1;                    // of the throttled ones
  float power_limit_watts = kUnknown;  // the greatest
  float max_clock_mhz = kUnknown;      // the greatest
  std::vector<int> noted_gpus;         // the first kListed that deserve a warning

  // ---- hosts; indexes into DashboardModel::hosts() ----
  int hosts_reporting = 0;     // that have said something about their GPUs
  int hosts_without_gpus = 0;  // that have said why they cannot
  int host_without_gpus = -1;  // the last one of these
};

class CensusTaker {
 public:
  // Begins anew.
  void Begin();
  [[nodiscard]] bool under_way() const { return under_way_; }
  // Counts about `work` nodes, hosts or GPUs more. Returns whether all have been counted: last() is
  // then the new one.
  bool Count(const DashboardModel& model, size_t work);
  [[nodiscard]] const Census& last() const { return last_; }
  // Forgets what was counted.
  void Clear();

 private:
  // Sums that become means at the end.
  struct Sums {
    double starved_lately = 0, starved = 0, backpressured = 0;
    int timed_lately = 0, timed = 0;
    double rows = 0, bytes = 0;
    int fed = 0;
    float richest = 0;
    double gpu = 0, claimed_now = 0, gpu_lately = 0, claimed_lately = 0;
    int gpus = 0, claimed = 0;
    bool any_claimed = false;
    float hottest = 0;
  };

  void CountNode(const DashboardModel& model, const NodeState& node);
  void CountHost(const HostState& host, int index);
  void CountGpu(const DashboardModel& model, const GpuState& gpu, int index);
  void Finish(const DashboardModel& model);

  bool under_way_ = false;
  size_t next_node_ = 0;
  size_t next_host_ = 0;
  size_t next_gpu_ = 0;
  Census census_;
  Sums sums_;
  Census last_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_CENSUS_H_
