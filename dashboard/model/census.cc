#include "dashboard/model/census.h"

#include <algorithm>
#include <utility>

#include "dashboard/model/dashboard_model.h"

namespace millrace::dashboard {
namespace {

float Greater(float a, float b) {
  if (!Known(a)) return b;
  return Known(b) ? std::max(a, b) : a;
}

float Mean(double sum, int count) { return count > 0 ? static_cast<float>(sum / count) : kUnknown; }

}  // namespace

void CensusTaker::Begin() {
  under_way_ = true;
  next_node_ = next_host_ = next_gpu_ = 0;
  census_ = Census();
  census_.all_ran = true;
  sums_ = Sums();
}

void CensusTaker::Clear() {
  under_way_ = false;
  last_ = Census();
}

bool CensusTaker::Count(const DashboardModel& model, size_t work) {
  // What comes while this goes on is counted in the end, or by the next one.
  for (; work > 0 && next_node_ < model.nodes().size(); --work) {
    CountNode(model, model.nodes()[next_node_++]);
  }
  for (; work > 0 && next_host_ < model.hosts().size(); --work) {
    CountHost(model.hosts()[next_host_], static_cast<int>(next_host_));
    ++next_host_;
  }
  for (; work > 0 && next_gpu_ < model.gpus().size(); --work) {
    CountGpu(model, model.gpus()[next_gpu_], static_cast<int>(next_gpu_));
    ++next_gpu_;
  }
  if (next_node_ < model.nodes().size() || next_host_ < model.hosts().size() ||
      next_gpu_ < model.gpus().size()) {
    return false;
  }
  Finish(model);
  return true;
}

void CensusTaker::CountNode(const DashboardModel& model, const NodeState& node) {
  const int id = node.executor_id;
  ++census_.nodes;
  if (node.state >= 0 && node.state < kSlotStates) ++census_.by_state[node.state];
  const bool ended = node.ended();
  census_.ended += ended ? 1 : 0;
  if (node.state < v1::SLOT_STATE_RUNNING) {
    const NodeState* slowest =
        census_.slowest < 0 ? nullptr : &model.nodes()[static_cast<size_t>(census_.slowest)];
    if (slowest == nullptr || node.state < slowest->state ||
        (node.state == slowest->state && node.since() < slowest->since())) {
      census_.slowest = id;
    }
  }
  if (census_.absent < 0 && node.state != v1::SLOT_STATE_RUNNING &&
      node.state != v1::SLOT_STATE_DRAINING && node.state != v1::SLOT_STATE_FINISHED) {
    census_.absent = id;
  }
  const int restarts = static_cast<int>(std::max(node.restarts, node.attempt));
  census_.restarts += restarts;
  if (restarts > census_.restless_restarts) {
    census_.restless = id;
    census_.restless_restarts = restarts;
  }
  // Only first attempts show how long the cluster took to start.
  if (node.attempt == 0) {
    const absl::Time ran = node.reached[v1::SLOT_STATE_RUNNING];
    if (ran == absl::InfinitePast()) census_.all_ran = false;
    census_.last_ran = std::max(census_.last_ran, ran);
  }
  const bool runs = node.state == v1::SLOT_STATE_RUNNING;
  const bool old = node.sampled != absl::InfinitePast() && model.IsOld(node.sampled);
  if ((node.stopped || (!ended && ((node.restarts > 0 && node.restarts >= node.max_restarts) ||
                                   (runs && (!node.attached || old))))) &&
      census_.noted_nodes.size() < Census::kListed) {
    census_.noted_nodes.push_back(id);
  }
  if (ended || node.queues.empty()) return;

  ++census_.fed;
  const float rows = node.rows_lately.mean;
  if (Known(rows)) {
    census_.rows_lately += rows;
    if (rows > sums_.richest) {
      sums_.richest = rows;
      census_.richest = id;
    }
  }
  if (Known(node.bytes_lately.mean)) census_.bytes_lately += node.bytes_lately.mean;
  const float full = node.backpressured_lately.mean;
  census_.least_full_by = Known(full) ? std::min(census_.least_full_by, full) : 0;
  if (Known(full) && full > census_.fullest_by) {
    census_.fullest_by = full;
    census_.fullest = id;
  }
  if (const float waits = node.starved_lately.mean; Known(waits)) {
    ++sums_.timed_lately;
    sums_.starved_lately += waits;
    if (waits > Census::kHeldUp) ++census_.waiting;
    if (waits > census_.most_starved_by) {
      census_.most_starved_by = waits;
      census_.most_starved = id;
    }
  }
  if (old || node.sampled == absl::InfinitePast()) return;
  if (Known(node.rows_per_second)) {
    ++sums_.fed;
    sums_.rows += node.rows_per_second;
    if (Known(node.bytes_per_second)) sums_.bytes += node.bytes_per_second;
  }
  if (Known(node.starved)) {
    ++sums_.timed;
    sums_.starved += node.starved;
    if (Known(node.backpressured)) sums_.backpressured += node.backpressured;
  }
}

void CensusTaker::CountHost(const HostState& host, int index) {
  if (!host.reports_gpus) return;
  ++census_.hosts_reporting;
  if (host.gpus_unknown.empty()) return;
  ++census_.hosts_without_gpus;
  census_.host_without_gpus = index;
}

void CensusTaker::CountGpu(const DashboardModel& model, const GpuState& gpu, int index) {
  if (gpu.owner >= 0) sums_.any_claimed = true;
  census_.power_limit_watts = Greater(census_.power_limit_watts, gpu.power_limit_watts);
  census_.max_clock_mhz = Greater(census_.max_clock_mhz, gpu.max_clock_mhz);
  if (gpu.noted && census_.noted_gpus.size() < Census::kListed) {
    census_.noted_gpus.push_back(index);
  }
  const float utilization = gpu.value(GpuMetric::kUtilization);
  if (!Known(utilization) || model.IsOld(gpu.time)) return;
  ++sums_.gpus;
  sums_.gpu += utilization;
  if (gpu.owner >= 0) sums_.claimed_now += utilization;
  sums_.gpu_lately += gpu.utilization_lately.mean;
  if (gpu.owner >= 0) {
    ++sums_.claimed;
    sums_.claimed_lately += gpu.utilization_lately.mean;
  }
  if (!gpu.throttled()) return;
  const float temperature = gpu.value(GpuMetric::kTemperature);
  if (++census_.gpus_throttled == 1 || temperature > sums_.hottest) {
    census_.hottest = index;
    sums_.hottest = Known(temperature) ? temperature : 0;
  }
}

void CensusTaker::Finish(const DashboardModel& model) {
  under_way_ = false;
  census_.starved_lately = Mean(sums_.starved_lately, sums_.timed_lately);
  if (census_.rows_lately > 0) {
    census_.richest_share = sums_.richest / static_cast<float>(census_.rows_lately);
  }
  if (sums_.fed > 0) {
    census_.rows_per_second = static_cast<float>(sums_.rows);
    census_.bytes_per_second = static_cast<float>(sums_.bytes);
  }
  census_.starved = Mean(sums_.starved, sums_.timed);
  census_.backpressured = Mean(sums_.backpressured, sums_.timed);
  // Others may use the GPUs that no node has claimed.
  census_.gpus_counted = sums_.any_claimed ? sums_.claimed : sums_.gpus;
  census_.gpu_utilization =
      Mean(sums_.any_claimed ? sums_.claimed_now : sums_.gpu, census_.gpus_counted);
  census_.gpu_utilization_lately =
      Mean(sums_.any_claimed ? sums_.claimed_lately : sums_.gpu_lately, census_.gpus_counted);
  if (census_.nodes == 0 || model.nodes().empty()) census_.all_ran = false;
  last_ = std::move(census_);
}

}  // namespace millrace::dashboard
