#include "testing/bench/dashboard_hour.h"

#include <malloc.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/proto/time_proto.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/source/demo_source.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/dashboard_viewer.h"

namespace millrace::bench {
namespace {

using dashboard::DashboardModel;
using dashboard::DemoOptions;
using dashboard::SourceUpdate;
using dashboard::UpdateSource;

constexpr int kFramesPerSecond = 60;
// Values that differ from sample to sample; `turn` from GPU to GPU too.
void Vary(int turn, v1::GpuSample* gpu) {
  const auto among = [turn](int step, int count) {
    return static_cast<float>(turn * step % count);
  };
  if (!gpu->has_utilization_percent()) return;
  gpu->set_utilization_percent(80 + among(7, 19));
  gpu->set_memory_utilization_percent(40 + among(5, 17));
  gpu->set_power_watts(500 + 8 * among(11, 21));
  gpu->set_temperature_celsius(60 + among(1, 24) / 8);
}

// The parts of one second, to be told again at another time.
class Second {
 public:
  void Add(const SourceUpdate& update) {
    updates_.push_back(update);
    messages_.push_back(std::make_unique<v1::WatchUpdate>(*update.watch));
    bytes_ += update.bytes;
  }

  // Moves all of it to `time`. What is told once only is left out.
  void MoveTo(absl::Time time, int second) {
    for (size_t i = 0; i < updates_.size(); ++i) {
      v1::WatchUpdate& watch = *messages_[i];
      watch.set_snapshot(false);
      watch.clear_events();
      *watch.mutable_time() = TimeToProto(time);
      for (v1::WatchUpdate::Node& node : *watch.mutable_nodes()) {
        *node.mutable_received() = watch.time();
        *node.mutable_sample()->mutable_time() = watch.time();
        int place = node.executor_id();
        for (v1::GpuSample& gpu : *node.mutable_sample()->mutable_gpus())
          Vary(second + ++place, &gpu);
        for (v1::QueueSample& queue : *node.mutable_sample()->mutable_queues()) {
          queue.set_rows_received(queue.rows_received() + 12'000);
          queue.set_wait_us(queue.wait_us() + 30'000 + static_cast<uint64_t>(second % 7));
        }
      }
      for (v1::MetricPoint& point : *watch.mutable_metrics()) {
        *point.mutable_time() = watch.time();
        point.set_step(point.step() + 4);
      }
      for (v1::LogBatch& batch : *watch.mutable_logs()) *batch.mutable_time() = watch.time();
      updates_[i].arrived = time;
      // Nobody keeps it: it is read during Apply() only.
      updates_[i].watch =
          std::shared_ptr<const v1::WatchUpdate>(std::shared_ptr<void>(), messages_[i].get());
    }
  }

  [[nodiscard]] const std::vector<SourceUpdate>& updates() const { return updates_; }
  [[nodiscard]] double bytes() const { return static_cast<double>(bytes_); }

 private:
  std::vector<SourceUpdate> updates_;
  std::vector<std::unique_ptr<v1::WatchUpdate>> messages_;
  uint64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<HourCost> RunHour(int nodes, int gpus, int sample_every, int seconds) {
  // Seconds after which all nodes have been sampled.
  const int cycle = sample_every > 0 ? sample_every : std::max(1, (nodes + 2499) / 2500);
  const absl::Duration begin = absl::Seconds(8 + cycle);
  const double before = SelfResidentBytes();
  DemoOptions options;
  options.nodes = nodes;
  options.gpus_per_node = gpus;
  options.sample_every = absl::Seconds(sample_every);
  options.started = absl::FromUnixSeconds(1'700'000'000);
  options.begin_at = begin;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, MakeDemoSource(options));
  std::vector<SourceUpdate> updates;
  source->Poll(options.started + begin, 1'000'000, &updates);
  DashboardModel model;
  std::vector<Second> told(static_cast<size_t>(cycle));
  for (const SourceUpdate& update : updates) {
    model.Apply(update);
    const int64_t second = absl::ToInt64Seconds(update.arrived - options.started);
    if (update.arrived > options.started + begin - absl::Seconds(cycle))
      told[static_cast<size_t>(second % cycle)].Add(update);
  }
  updates.clear();
  source.reset();

  HourCost cost;
  absl::Duration taken;
  for (int second = 1; second <= seconds; ++second) {
    const absl::Time time = options.started + begin + absl::Seconds(second);
    Second& now = told[static_cast<size_t>(absl::ToInt64Seconds(time - options.started) % cycle)];
    now.MoveTo(time, second);
    cost.message_bytes += now.bytes() / seconds;
    for (const SourceUpdate& update : now.updates()) {
      const absl::Duration start = ThreadCpuTime();
      model.Apply(update);
      const absl::Duration part = ThreadCpuTime() - start;
      taken += part;
      cost.part_ms.push_back(absl::ToDoubleMilliseconds(part));
      for (const v1::WatchUpdate::Node& node : update.watch->nodes()) {
        cost.samples += 1 + node.sample().gpus_size();
      }
    }
    for (int frame = 0; frame < kFramesPerSecond; ++frame) {
      const absl::Duration start = ThreadCpuTime();
      model.Advance(time + frame * absl::Seconds(1) / kFramesPerSecond);
      const absl::Duration part = ThreadCpuTime() - start;
      taken += part;
      cost.advance_ms.push_back(absl::ToDoubleMilliseconds(part));
    }
  }
  cost.samples /= seconds;
  cost.cpu_per_second = absl::ToDoubleSeconds(taken) / seconds;
  told.clear();
  told.shrink_to_fit();
  malloc_trim(0);  // what the simulation left
  for (int i = 0; i < dashboard::kGpuMetrics; ++i) {
    cost.history_bytes +=
        static_cast<double>(model.gpu_history(static_cast<dashboard::GpuMetric>(i)).memory_bytes());
  }
  for (int i = 0; i < dashboard::kNodeMetrics; ++i) {
    cost.history_bytes += static_cast<double>(
        model.node_history(static_cast<dashboard::NodeMetric>(i)).memory_bytes());
  }
  cost.model_bytes = static_cast<double>(model.memory_bytes());
  cost.resident_bytes = SelfResidentBytes() - before;
  return cost;
}

}  // namespace millrace::bench
