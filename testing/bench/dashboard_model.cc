// The dashboard's model under the load of the largest cluster: what taking an update costs the
// window's thread, what a verdict costs, and what an hour of history takes.

#include "dashboard/model/dashboard_model.h"

#include <time.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/proto/time_proto.h"
#include "dashboard/source/demo_source.h"
#include "testing/bench/bench_report.h"

namespace millrace::bench {
namespace {

using dashboard::DashboardModel;
using dashboard::DemoOptions;
using dashboard::SourceUpdate;
using dashboard::UpdateSource;

constexpr double kMegabyte = 1e6;
constexpr int kGpuMetrics = 6;

// CPU time of this thread: other programs on the machine do not count.
absl::Duration ThreadCpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))];
}

// The parts of one round in which every node is sampled once, to be told again at another time.
class Round {
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
        for (v1::QueueSample& queue : *node.mutable_sample()->mutable_queues()) {
          queue.set_rows_received(queue.rows_received() + 12'000);
          queue.set_wait_us(queue.wait_us() + 30'000 + static_cast<uint64_t>(second % 7));
        }
      }
      updates_[i].arrived = time;
      // Nobody keeps it: it is read during Apply() only.
      updates_[i].watch =
          std::shared_ptr<const v1::WatchUpdate>(std::shared_ptr<void>(), messages_[i].get());
    }
  }

  const std::vector<SourceUpdate>& updates() const { return updates_; }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  std::vector<SourceUpdate> updates_;
  std::vector<std::unique_ptr<v1::WatchUpdate>> messages_;
  uint64_t bytes_ = 0;
};

absl::Status Main(int nodes, int seconds, BenchReport* report) {
  DemoOptions options;
  options.nodes = nodes;
  options.started = absl::FromUnixSeconds(1'700'000'000);
  options.begin_at = absl::Seconds(7);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, MakeDemoSource(options));
  std::vector<SourceUpdate> updates;
  source->Poll(options.started + options.begin_at, 1'000'000, &updates);
  const double before = SelfResidentBytes();
  DashboardModel model;
  // The first seconds as they are; the last ones, in which each node is sampled once, again and
  // again.
  Round round;
  const int every = std::max(1, (nodes + 2499) / 2500);
  const absl::Time last = options.started + options.begin_at - absl::Seconds(every);
  for (const SourceUpdate& update : updates) {
    model.Apply(update);
    if (update.arrived > last) round.Add(update);
  }
  updates.clear();

  std::vector<double> part_ms, advance_ms;
  absl::Duration taken;
  double samples = 0;
  for (int second = 1; second <= seconds; ++second) {
    const absl::Time time = options.started + options.begin_at + absl::Seconds(second);
    round.MoveTo(time, second);
    for (const SourceUpdate& update : round.updates()) {
      const absl::Duration start = ThreadCpuTime();
      model.Apply(update);
      const absl::Duration cost = ThreadCpuTime() - start;
      taken += cost;
      part_ms.push_back(absl::ToDoubleMilliseconds(cost));
      for (const v1::WatchUpdate::Node& node : update.watch->nodes()) {
        samples += 1 + node.sample().gpus_size();
      }
    }
    const absl::Duration start = ThreadCpuTime();
    model.Advance(time);
    advance_ms.push_back(absl::ToDoubleMilliseconds(ThreadCpuTime() - start));
  }
  const double seconds_taken = absl::ToDoubleSeconds(taken);
  const double per_second = seconds_taken / seconds;
  BenchTable table({"", "p50", "p99", "max"});
  const auto row = [&](const std::string& name, const std::vector<double>& ms) {
    table.AddRow({name, FormatNumber(Percentile(ms, 0.5)), FormatNumber(Percentile(ms, 0.99)),
                  FormatNumber(Percentile(ms, 1))});
  };
  row("one part of an update, CPU ms", part_ms);
  row("verdict and warnings, CPU ms", advance_ms);
  report->Add(table,
              absl::StrCat(nodes, " nodes with 8 GPUs each, every one sampled each second, for ",
                           seconds, " s"));
  const double memory = static_cast<double>(model.memory_bytes());
  report->AddNote(absl::StrCat("a second of updates is ", FormatNumber(round.bytes() / kMegabyte),
                               " MB as messages, and takes ", FormatNumber(per_second * 1000),
                               " ms of CPU on the window's thread; resident memory grew by ",
                               FormatNumber((SelfResidentBytes() - before) / kMegabyte), " MB"));
  report->Add(Figure{.name = "dashboard_part_p99",
                     .unit = "ms",
                     .ours = Percentile(part_ms, 0.99),
                     .ref = 16.7,
                     .ref_is = "a frame at 60 Hz",
                     .goal = AtMost(8)});
  report->Add(Figure{.name = "dashboard_verdict_p99",
                     .unit = "ms",
                     .ours = Percentile(advance_ms, 0.99),
                     .ref = 16.7,
                     .ref_is = "a frame at 60 Hz",
                     .goal = AtMost(8)});
  report->Add(Figure{.name = "dashboard_values",
                     .unit = "/s",
                     .ours = samples * kGpuMetrics / seconds_taken,
                     .ref = static_cast<double>(nodes) * 8 * kGpuMetrics,
                     .ref_is = "what the cluster measures each second",
                     .goal = RatioAtLeast(2)});
  report->Add(Figure{.name = "dashboard_memory",
                     .unit = "MB",
                     .ours = memory / kMegabyte,
                     .ref = static_cast<double>(nodes) * 8 * kGpuMetrics * seconds * 4 / kMegabyte,
                     .ref_is = "each value of each second as a float",
                     .goal = AtMost(1000)});
  report->Add(Figure{.name = "dashboard_wire",
                     .unit = "MB/s",
                     .ours = round.bytes() / kMegabyte,
                     .ref = static_cast<double>(nodes) * 8 * kGpuMetrics * 4 / kMegabyte,
                     .ref_is = "each value of each second as a float",
                     .goal = AtMost(20)});
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::BenchFlags flags;
  int nodes = 10'000;
  int seconds = 3600;
  CLI::App app("What the dashboard's model costs for the largest cluster.");
  flags.AddTo(&app);
  app.add_option("--nodes", nodes, "simulated nodes with 8 GPUs each")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--seconds", seconds, "of the cluster's time")->check(CLI::Range(1, 36'000));
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report(
      "dashboard_model: updates, verdict and memory of the dashboard", flags);
  return report.Finish(millrace::bench::Main(nodes, seconds, &report));
}
