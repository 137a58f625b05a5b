// File: feed/feeder/train_job_fixture.h
//
// What the tests of TrainJob share: nodes that are scripts, and an observer that remembers. Test
// only.
//
// Defines: TrainJobTest, RecordingObserver, Sorted().

#ifndef FEED_FEEDER_TRAIN_JOB_FIXTURE_H_
#define FEED_FEEDER_TRAIN_JOB_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/fake_node_directory.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/partition_progress.h"
#include "feed/feeder/train_job.h"
#include "gtest/gtest.h"
#include "millrace/source.h"

namespace millrace {

class RecordingObserver final : public TrainObserver {
 public:
  void OnPartition(const PartitionProgress& report) override {
    {
      MutexLock lock(&mu_);
      reports_.push_back(report);
    }
    if (on_partition) on_partition(report);
  }
  absl::Status FeedEnd(const std::string& feed_id, bool aborted) override {
    {
      MutexLock lock(&mu_);
      ends_.emplace_back(feed_id, aborted);
    }
    const auto call = on_feed_end;  // it may replace itself
    if (call) call(feed_id);
    return result;
  }
  std::vector<std::pair<std::string, bool>> ends() {
    MutexLock lock(&mu_);
    return ends_;
  }
  std::vector<PartitionProgress> reports() {
    MutexLock lock(&mu_);
    return reports_;
  }
  int64_t Count(PartitionProgress::State state) {
    MutexLock lock(&mu_);
    return std::count_if(
        reports_.begin(), reports_.end(),
        [state](const PartitionProgress& report) { return report.state == state; });
  }

  std::function<void(const PartitionProgress&)> on_partition;
  std::function<void(const std::string&)> on_feed_end;
  absl::Status result;

 private:
  Mutex mu_;
  std::vector<std::pair<std::string, bool>> ends_;
  std::vector<PartitionProgress> reports_;
};

inline std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

class TrainJobTest : public ::testing::Test {
 protected:
  void SetUp() override { feeder_ = *Feeder::Start({}); }

  FakeFeedNode& AddNode(const std::string& name, FakeFeedNode::Script script,
                        const std::string& nonce = "") {
    nodes_.push_back(std::make_unique<FakeFeedNode>(name, std::move(script), nonce));
    directory_.Set(nodes_.back()->target());
    return *nodes_.back();
  }

  static TrainJobOptions Options(int64_t epochs = 1) {
    return {.feed_id = "f", .num_epochs = epochs, .feed_timeout = absl::Seconds(20)};
  }

  absl::StatusOr<TrainTally> Run(const PartitionedSource& source, const TrainJobOptions& options) {
    TrainJob job(feeder_.get(), &directory_, &source, &observer_, options);
    return job.Run();
  }

  std::unique_ptr<Feeder> feeder_;
  FakeNodeDirectory directory_;
  RecordingObserver observer_;
  std::vector<std::unique_ptr<FakeFeedNode>> nodes_;
};

}  // namespace millrace

#endif  // FEED_FEEDER_TRAIN_JOB_FIXTURE_H_
