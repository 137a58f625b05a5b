// A Train call into two nodes of which one computes longer. See README.md.

#include <algorithm>
#include <cstdint>
#include <map>
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
#include "core/base/deadlock_detector.h"
#include "core/base/random.h"
#include "core/base/thread.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/train_job.h"
#include "feed/receiver/receiver.h"
#include "millrace/batch.h"
#include "millrace/data_feed.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/feed_shapes.h"

namespace millrace::bench {
namespace {

constexpr char kShape[] = "f32x64";
constexpr double kGoal = 1.3;

struct Flags : BenchFlags {
  std::vector<int> ratios = {2, 10, 100};
  std::vector<int> partitions = {8, 16, 640};
  int64_t batch_rows = 16;
  int step_us = 1000;  // that the fast node computes for each batch
  double seconds = 3;  // ideal
  int64_t budget_mib = 256;
};

struct Case {
  int ratio = 1;
  int partitions = 1;
};

struct Measured {
  Case which;
  Samples seconds;
  Samples ideal;
  Samples slow_rows;  // of a hundred
  Samples moved;
};

class Directory final : public NodeDirectory {
 public:
  void Add(FeedTarget target) { targets_[target.node] = std::move(target); }
  std::vector<std::string> fed_nodes() override {
    std::vector<std::string> names;
    for (const auto& [name, target] : targets_) names.push_back(name);
    return names;
  }
  absl::StatusOr<FeedTarget> Lookup(const std::string& node) override { return targets_.at(node); }
  bool IsEqual(const std::string& /*queue*/) override { return false; }
  absl::Status Cause(const std::string&) override { return absl::OkStatus(); }

 private:
  std::map<std::string, FeedTarget> targets_;  // not changed any more once nodes are looked up
};

// A node, and a program that sleeps for `step` for each batch.
class Node {
 public:
  Node(std::string name, absl::Duration step, const Flags& flags)
      : name_(std::move(name)), step_(step), flags_(flags) {}
  ~Node() {
    if (receiver_ != nullptr) receiver_->EndAllFeeds();
    if (program_.joinable()) program_.Join();
  }

  absl::Status Start(Directory* directory) {
    const std::string nonce = RandomHex(8);
    MILLRACE_ASSIGN_OR_RETURN(
        receiver_,
        FeedReceiver::Start(
            {.node_name = name_, .nonce = nonce, .budget_bytes = flags_.budget_mib << 20}));
    const FeedEndpoints& endpoints = receiver_->endpoints();
    directory->Add({.node = name_,
                    .nonce = nonce,
                    .ipc_endpoint = endpoints.ipc,
                    .tcp_endpoint = endpoints.tcp,
                    .key = endpoints.key});
    MILLRACE_ASSIGN_OR_RETURN(feed_, receiver_->GetDataFeed());
    program_ = Thread("program", [this] { Run(); });
    return absl::OkStatus();
  }
  FeedReceiver& receiver() { return *receiver_; }
  // Ends the program. Rows per second, without the time that it waited for them.
  double Pace() {
    receiver_->EndAllFeeds();
    program_.Join();
    return computed_ > absl::ZeroDuration() ? rows_ / absl::ToDoubleSeconds(computed_) : 0;
  }

 private:
  void Run() {
    absl::Duration late;  // what the sleeps before took too long
    while (!feed_->ShouldStop()) {
      const absl::StatusOr<Batch> batch = feed_->NextBatch(flags_.batch_rows);
      if (!batch.ok() || batch->empty()) return;
      const absl::Time began = absl::Now();
      const absl::Duration pause =
          step_ * batch->num_rows() / flags_.batch_rows - std::min(late, step_);
      const absl::Time until = absl::Now() + pause;
      absl::SleepFor(pause);
      late = absl::Now() - until;
      rows_ += static_cast<double>(batch->num_rows());
      computed_ += absl::Now() - began;
    }
  }

  const std::string name_;
  const absl::Duration step_;
  const Flags& flags_;
  std::unique_ptr<FeedReceiver> receiver_;
  std::unique_ptr<DataFeed> feed_;
  // Of the program's thread until it has ended.
  double rows_ = 0;
  absl::Duration computed_;
  Thread program_;
};

class Observer final : public TrainObserver {
 public:
  explicit Observer(const std::vector<std::unique_ptr<Node>>* nodes) : nodes_(nodes) {}
  void OnPartition(const PartitionProgress&) override {}
  absl::Status FeedEnd(const std::string& feed_id, bool aborted) override {
    for (const auto& node : *nodes_) node->receiver().FeedEnd(feed_id, aborted);
    return absl::OkStatus();
  }

 private:
  const std::vector<std::unique_ptr<Node>>* const nodes_;
};

absl::Status Once(const Flags& flags, Measured* out) {
  const absl::Duration step = absl::Microseconds(flags.step_us);
  const double paces = (1 + 1.0 / out->which.ratio) * static_cast<double>(flags.batch_rows) /
                       absl::ToDoubleSeconds(step);
  const auto rows = static_cast<int64_t>(flags.seconds * paces);
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MemorySource> source,
      MemorySource::Split(FindFeedShape(kShape)->Make(rows), out->which.partitions));
  Directory directory;
  std::vector<std::unique_ptr<Node>> nodes;
  nodes.push_back(std::make_unique<Node>("worker:0", step * out->which.ratio, flags));
  nodes.push_back(std::make_unique<Node>("worker:1", step, flags));
  for (const auto& node : nodes) MILLRACE_RETURN_IF_ERROR(node->Start(&directory));
  MILLRACE_ASSIGN_OR_RETURN(auto feeder, Feeder::Start({}));
  Observer observer(&nodes);
  TrainJob job(feeder.get(), &directory, source.get(), &observer, {.feed_id = RandomHex(8)});
  MILLRACE_ASSIGN_OR_RETURN(TrainTally result, job.Run());
  if (result.rows() != rows || result.rows_refed() != 0) {
    return absl::InternalError(absl::StrCat(result.rows(), " rows of ", rows, " were used, ",
                                            result.rows_refed(), " fed again"));
  }
  out->seconds.Add(absl::ToDoubleSeconds(result.elapsed));
  // A busy machine lets them sleep for longer.
  double true_paces = 0;
  for (const auto& node : nodes) true_paces += node->Pace();
  out->ideal.Add(static_cast<double>(rows) / true_paces);
  out->slow_rows.Add(100.0 * static_cast<double>(result.rows_by_node["worker:0"]) /
                     static_cast<double>(rows));
  out->moved.Add(static_cast<double>(result.moved));
  return absl::OkStatus();
}

absl::Status Main(const Flags& flags, BenchReport* report) {
  std::vector<Measured> all;
  for (const int ratio : flags.ratios) {
    for (const int partitions : flags.partitions) all.push_back({.which = {ratio, partitions}});
  }
  for (int i = 0; i < flags.repetitions; ++i) {
    for (Measured& measured : all) MILLRACE_RETURN_IF_ERROR(Once(flags, &measured));
  }
  BenchTable table({"ratio", "partitions", "seconds", "longest", "ideal", "of it",
                    "% of the rows at the slow node", "moved"});
  for (const Measured& measured : all) {
    const auto& [ratio, partitions] = measured.which;
    table.AddRow(
        {absl::StrCat(ratio), absl::StrCat(partitions), FormatNumber(measured.seconds.Median()),
         FormatNumber(measured.seconds.Max()), FormatNumber(measured.ideal.Median()),
         FormatNumber(measured.seconds.Median() / measured.ideal.Median()),
         FormatNumber(measured.slow_rows.Median()), FormatNumber(measured.moved.Median())});
    report->Add(Figure{.name = absl::StrCat("feed_skew_", ratio, "_of_", partitions),
                       .unit = "s",
                       .ours = measured.seconds.Median(),
                       .ref = measured.ideal.Median(),
                       .ref_is = "all rows by the sum of both paces",
                       .goal = RatioAtMost(kGoal)});
  }
  report->Add(table, absl::StrCat("a Train call, until every row is acknowledged; batches of ",
                                  flags.batch_rows, " rows of 64 float32, for each of which the ",
                                  "fast program sleeps ", flags.step_us, " us; medians"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::StopDeadlockDetector();  // as RunNode and the coordinator do
  millrace::bench::Flags flags;
  flags.repetitions = 3;
  CLI::App app("Seconds of a Train call into two nodes, one of which is slower.");
  flags.AddTo(&app);
  app.add_option("--ratios", flags.ratios, "how many times as long the slow node computes")
      ->delimiter(',')
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--partitions", flags.partitions, "of the source")
      ->delimiter(',')
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--batch_rows", flags.batch_rows, "rows that the programs ask for")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--step_us", flags.step_us, "that the fast program sleeps for each batch")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  app.add_option("--seconds", flags.seconds, "that the ideal takes")->capture_default_str();
  app.add_option("--budget_mib", flags.budget_mib, "a node's budget")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report("feed_skew: a slow node among two", flags);
  return report.Finish(millrace::bench::Main(flags, &report));
}
