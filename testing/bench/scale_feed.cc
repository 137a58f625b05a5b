// Several feeder processes into several node processes. See README.md.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/feed_shapes.h"
#include "testing/bench/json_child.h"
#include "testing/child_process.h"

namespace millrace::bench {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(300);
constexpr char kShape[] = "f32x784";
constexpr double kGiga = 1e9;

struct Flags : BenchFlags {
  std::vector<int> feeders = {1, 4, 16};
  std::vector<int> nodes = {1, 2, 8};
  int64_t batch_kib = 1024;
  int64_t mib = 1024;
};

struct Case {
  int feeders = 1;
  int nodes = 1;
};

struct Measured {
  Case which;
  Samples gb_per_s;      // all of them together
  Samples cpu_s_per_gb;  // of all processes
  Samples fairness;      // the slowest feeder's rate by the fastest one's
};

using Children = std::vector<std::unique_ptr<JsonChild>>;

absl::Status Once(const Flags& flags, Measured* out) {
  const std::string program = RunfilePath("testing/bench/feed_end");
  const FeedShape* shape = FindFeedShape(kShape);
  const int64_t batch_bytes = flags.batch_kib << 10;
  const int64_t pairs = out->which.feeders * out->which.nodes;
  const int64_t batches = std::max<int64_t>(4, (flags.mib << 20) / batch_bytes / pairs);
  Json task = {{"role", "receive"},          {"way", "ours"},
               {"transport", "ipc"},         {"shape", kShape},
               {"batch_bytes", batch_bytes}, {"batches", batches * out->which.feeders}};
  Children nodes;
  Json where = Json::array();
  for (int i = 0; i < out->which.nodes; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(auto node, JsonChild::Start(program));
    MILLRACE_ASSIGN_OR_RETURN(Json listens, node->Ask(task, kLongest));
    where.push_back(std::move(listens));
    nodes.push_back(std::move(node));
  }
  task["role"] = "send";
  task["batches"] = batches;
  task["to"] = where;
  Children feeders;
  Json principals = Json::array();
  for (int i = 0; i < out->which.feeders; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(auto feeder, JsonChild::Start(program));
    MILLRACE_ASSIGN_OR_RETURN(Json hello, feeder->Ask(task, kLongest));
    principals.push_back(std::move(hello));
    feeders.push_back(std::move(feeder));
  }
  for (const auto& node : nodes) {
    MILLRACE_RETURN_IF_ERROR(node->Ask(principals, kLongest).status());
  }
  const absl::Time start = absl::Now();
  for (const auto& feeder : feeders) MILLRACE_RETURN_IF_ERROR(feeder->Send(Json::object()));
  double cpu_s = 0;
  for (const auto& node : nodes) {
    MILLRACE_ASSIGN_OR_RETURN(const Json received, node->Receive(kLongest));
    cpu_s += received["cpu_s"].get<double>();
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  Samples feeder_seconds;
  for (const auto& feeder : feeders) {
    MILLRACE_ASSIGN_OR_RETURN(const Json sent, feeder->Receive(kLongest));
    cpu_s += sent["cpu_s"].get<double>();
    feeder_seconds.Add(sent["seconds"].get<double>());
  }
  const double gigabytes =
      static_cast<double>(pairs * batches * shape->RowsFor(batch_bytes) * shape->row_bytes) / kGiga;
  out->gb_per_s.Add(gigabytes / seconds);
  out->cpu_s_per_gb.Add(cpu_s / gigabytes);
  out->fairness.Add(feeder_seconds.Min() / feeder_seconds.Max());
  return absl::OkStatus();
}

absl::Status Main(const Flags& flags, BenchReport* report) {
  std::vector<Measured> all;
  for (const int feeders : flags.feeders) {
    for (const int nodes : flags.nodes) all.push_back({.which = {feeders, nodes}});
  }
  for (int i = 0; i < flags.repetitions; ++i) {
    for (Measured& measured : all) MILLRACE_RETURN_IF_ERROR(Once(flags, &measured));
  }
  BenchTable table(
      {"feeders", "nodes", "GB/s in all", "cpu s/GB in all", "slowest/fastest feeder"});
  for (const Measured& measured : all) {
    table.AddRow({absl::StrCat(measured.which.feeders), absl::StrCat(measured.which.nodes),
                  FormatNumber(measured.gb_per_s.Median()),
                  FormatNumber(measured.cpu_s_per_gb.Median()),
                  FormatNumber(measured.fairness.Median())});
    report->Add(Figure{
        .name = absl::StrCat("scale_feed_", measured.which.feeders, "_into_", measured.which.nodes),
        .unit = "GB/s",
        .ours = measured.gb_per_s.Median(),
        .ref = all.front().gb_per_s.Median(),
        .ref_is = absl::StrCat(all.front().which.feeders, " into ", all.front().which.nodes),
        .goal = RatioAtLeast(0.5)});
    if (measured.which.feeders == 1) continue;
    report->Add(Figure{.name = absl::StrCat("scale_feed_fairness_", measured.which.feeders,
                                            "_into_", measured.which.nodes),
                       .unit = "",
                       .ours = measured.fairness.Median(),
                       .ref = 1,
                       .ref_is = "all feeders alike",
                       .goal = AtLeast(0.5)});
  }
  report->Add(table, absl::StrCat("rows of 784 float32 in batches of ", flags.batch_kib,
                                  " KiB over ipc, each feeder to every node in turn; medians"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Flags flags;
  flags.repetitions = 3;
  CLI::App app("GB/s of several feeder processes into several node processes, and how even it is.");
  flags.AddTo(&app);
  app.add_option("--feeders", flags.feeders, "processes")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--nodes", flags.nodes, "processes")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--batch_kib", flags.batch_kib, "size of a batch")
      ->check(CLI::Range(4, 65536))
      ->capture_default_str();
  app.add_option("--mib", flags.mib, "moved in each measurement, in all")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report("scale_feed: several feeders into several nodes", flags);
  return report.Finish(millrace::bench::Main(flags, &report));
}
