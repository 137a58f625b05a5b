// The feeder's side and the node's side together, in one process: whole Train and Inference calls
// against real receivers.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/arrow/record_batch_testing.h"
#include "feed/feeder/fake_node_directory.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/inference_job.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/train_job.h"
#include "feed/receiver/receiver.h"
#include "feed/source/id_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch.h"
#include "millrace/batch_builder.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One node process: a receiver, and a program on a thread of its own.
class Node {
 public:
  using Program = std::function<absl::Status(Node&)>;

  Node(const std::string& name, Program program, int64_t budget_bytes, FakeNodeDirectory* directory)
      : name_(name), nonce_(RandomHex(8)) {
    auto receiver =
        FeedReceiver::Start({.node_name = name, .nonce = nonce_, .budget_bytes = budget_bytes});
    EXPECT_THAT(receiver, IsOk());
    receiver_ = *std::move(receiver);
    directory->Set(target());
    program_ = Thread("program", [this, directory, program = std::move(program)] {
      const absl::Status status = receiver_->Finish(program(*this));
      directory->SetState(
          name_, status.ok() ? FeedTarget::State::kFinished : FeedTarget::State::kFailed, status);
    });
  }
  ~Node() {
    receiver_->EndAllFeeds();
    program_.Join();
  }

  FeedReceiver& receiver() { return *receiver_; }

  FeedTarget target() const {
    const FeedEndpoints& endpoints = receiver_->endpoints();
    return {.node = name_,
            .nonce = nonce_,
            .ipc_endpoint = endpoints.ipc,
            .tcp_endpoint = endpoints.tcp,
            .key = endpoints.key};
  }

  void Note(const Batch& batch) {
    const auto ids = batch.column<int64_t>("id");
    MutexLock lock(&mu_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    if (!batch.empty()) sizes_.push_back(batch.num_rows());
  }
  std::vector<int64_t> ids() {
    MutexLock lock(&mu_);
    return ids_;
  }
  std::vector<int64_t> sizes() {
    MutexLock lock(&mu_);
    return sizes_;
  }

 private:
  const std::string name_;
  const std::string nonce_;
  std::unique_ptr<FeedReceiver> receiver_;
  Mutex mu_;
  std::vector<int64_t> ids_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> sizes_ ABSL_GUARDED_BY(mu_);
  Thread program_;
};

// Reads batches of `rows` until the feed ends, or for `batches` batches and then terminates.
Node::Program Train(int64_t rows, std::optional<int> batches = std::nullopt) {
  return [rows, batches](Node& node) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto feed, node.receiver().GetDataFeed());
    for (int i = 0; !feed->ShouldStop(); ++i) {
      if (i == batches) return feed->Terminate();
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(rows));
      if (batch.empty()) break;
      node.Note(batch);
    }
    return absl::OkStatus();
  };
}

// Answers each id with its double.
Node::Program Double(int64_t rows) {
  return [rows](Node& node) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto feed, node.receiver().GetDataFeed({.train_mode = false}));
    while (!feed->ShouldStop()) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(rows));
      if (batch.empty()) break;
      std::vector<int64_t> doubled;
      for (const int64_t id : batch.column<int64_t>("id")) doubled.push_back(2 * id);
      MILLRACE_ASSIGN_OR_RETURN(const RecordBatch results,
                                BatchBuilder().AddColumn("twice", std::move(doubled)).Build());
      MILLRACE_RETURN_IF_ERROR(feed->BatchResults(results));
    }
    return absl::OkStatus();
  };
}

class FeederReceiverTest : public ::testing::Test, public TrainObserver {
 protected:
  void SetUp() override { feeder_ = *Feeder::Start({}); }
  void TearDown() override {
    nodes_.clear();  // first: their programs end
  }

  Node& AddNode(Node::Program program, int64_t budget_bytes = int64_t{256} << 20) {
    const std::string name = absl::StrCat("worker:", nodes_.size());
    nodes_.push_back(std::make_unique<Node>(name, std::move(program), budget_bytes, &directory_));
    return *nodes_.back();
  }

  void OnPartition(const PartitionProgress&) override {}
  absl::Status FeedEnd(const std::string& feed_id, bool aborted) override {
    for (const auto& node : nodes_) node->receiver().FeedEnd(feed_id, aborted);
    return absl::OkStatus();
  }

  absl::StatusOr<TrainTally> RunTrain(const PartitionedSource& source, int64_t epochs = 1,
                                      absl::Duration feed_timeout = absl::Seconds(30)) {
    TrainJob job(feeder_.get(), &directory_, &source, this,
                 {.feed_id = RandomHex(8),
                  .num_epochs = epochs,
                  .feed_timeout = feed_timeout,
                  .batch_bytes = 400});
    return job.Run();
  }

  std::vector<int64_t> AllIds() {
    std::vector<int64_t> all;
    for (const auto& node : nodes_) {
      const std::vector<int64_t> ids = node->ids();
      all.insert(all.end(), ids.begin(), ids.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  static std::vector<int64_t> Range(int64_t to, int copies = 1) {
    std::vector<int64_t> ids;
    for (int64_t id = 0; id < to; ++id) ids.insert(ids.end(), copies, id);
    return ids;
  }

  std::unique_ptr<Feeder> feeder_;
  FakeNodeDirectory directory_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

TEST_F(FeederReceiverTest, EveryRowOfEveryEpochIsReadOnce) {
  AddNode(Train(64));
  AddNode(Train(64));
  const MemorySource source = **MemorySource::Split(Ids(0, 10007), /*num_partitions=*/9);
  auto result = RunTrain(source, /*epochs=*/3);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 3 * 10007);
  EXPECT_THAT(result->refed, IsEmpty());
  EXPECT_EQ(AllIds(), Range(10007, 3));
  // The tail of each node, and of what moved once the feed had ended, may be short.
  int64_t short_batches = 0;
  for (const auto& node : nodes_) {
    ASSERT_FALSE(node->sizes().empty());
    for (const int64_t size : node->sizes()) {
      EXPECT_LE(size, 64);
      short_batches += size < 64;
    }
  }
  EXPECT_LE(short_batches, 2 + result->moved);
}

TEST_F(FeederReceiverTest, TrainCallsFollowOneAnotherAndABatchNeverSpansTwo) {
  Node& node = AddNode(Train(64));
  const MemorySource source = **MemorySource::Split(Ids(0, 100), 3);
  for (int call = 0; call < 3; ++call) ASSERT_THAT(RunTrain(source), IsOk());
  EXPECT_EQ(AllIds(), Range(100, 3));
  EXPECT_THAT(node.sizes(), testing::ElementsAre(64, 36, 64, 36, 64, 36));
}

// The tail of each partition waits in a batch for rows of the next one, whose task begins later.
TEST_F(FeederReceiverTest, ABatchLargerThanAllPartitionsInHandDoesNotBlock) {
  AddNode(Train(1000));
  const MemorySource source = **MemorySource::Split(Ids(0, 2500), 50);
  auto result = RunTrain(source);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(AllIds(), Range(2500));
}

TEST_F(FeederReceiverTest, ABatchLargerThanTheBudgetDoesNotBlock) {
  AddNode(Train(5000), /*budget_bytes=*/4096);
  const MemorySource source = **MemorySource::Split(Ids(0, 12000), 4);
  ASSERT_THAT(RunTrain(source), IsOk());
  EXPECT_EQ(AllIds(), Range(12000));
}

// 8 bytes a row are answered by 256 KiB: what nobody reads is not made.
TEST_F(FeederReceiverTest, ASlowReaderHoldsTheProgramUp) {
  constexpr int64_t kValues = 32 << 10;
  constexpr int64_t kRows = 300;
  auto answered = std::make_shared<std::atomic<int64_t>>(0);
  AddNode([answered](Node& node) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto feed, node.receiver().GetDataFeed({.train_mode = false}));
    while (!feed->ShouldStop()) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(1));
      if (batch.empty()) break;
      MILLRACE_ASSIGN_OR_RETURN(
          const RecordBatch results,
          BatchBuilder()
              .AddFixedSizeList("x", std::vector<int64_t>(kValues), static_cast<int>(kValues))
              .Build());
      MILLRACE_RETURN_IF_ERROR(feed->BatchResults(results));
      ++*answered;
    }
    return absl::OkStatus();
  });
  const MemorySource source = **MemorySource::Split(Ids(0, kRows), 1);
  InferenceJob job(feeder_.get(), &directory_, &source, /*observer=*/nullptr, {.feed_id = "slow"});
  auto reader = *job.OpenPartition(0);
  ASSERT_THAT(reader->Next(), IsOk());
  // 16 MiB are 64 results.
  EXPECT_TRUE(Eventually([&] { return *answered >= 64; })) << *answered;
  absl::SleepFor(absl::Milliseconds(500));  // in which it could answer all
  EXPECT_LE(*answered, 70);
  while (true) {
    auto results = reader->Next();
    ASSERT_THAT(results, IsOk());
    if (!results->has_value()) break;
  }
  EXPECT_EQ(reader->rows(), kRows);
}

TEST_F(FeederReceiverTest, ManyPartitionsOfOneBatchStayWithinTheBudget) {
  Node& node = AddNode(Train(50), /*budget_bytes=*/1000);
  const MemorySource source = **MemorySource::Split(Ids(0, 10000), 200);  // 400 bytes and a header
  TrainJob job(feeder_.get(), &directory_, &source, this,
               {.feed_id = "many", .feed_timeout = absl::Seconds(60), .max_feeding_threads = 32});
  ASSERT_THAT(job.Run(), IsOk());
  EXPECT_EQ(AllIds(), Range(10000));
  const FeedReceiverStats stats = node.receiver().stats();
  EXPECT_LE(stats.peak_committed_bytes, 1000);
  EXPECT_GT(stats.peak_committed_bytes, 400);
}

TEST_F(FeederReceiverTest, ANodeThatLeavesEarlyIsReplacedByTheOthers) {
  AddNode(Train(10, /*batches=*/3));
  AddNode(Train(10));
  const MemorySource source = **MemorySource::Split(Ids(0, 5000), 8);
  auto result = RunTrain(source);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->terminated);
  EXPECT_EQ(result->rows_by_node["worker:0"], 30);
  EXPECT_EQ(AllIds(), Range(5000));
}

// ----------------------------------------------------------------------------------- a slow node

// Reads `batches` batches of 10 rows, then nothing until what it has not been given was taken back,
// then on as any other.
Node::Program ReadLateAfter(int batches) {
  return [batches](Node& node) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto feed, node.receiver().GetDataFeed());
    for (int i = 0; i < batches; ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(10));
      node.Note(batch);
    }
    const auto queue = [&node] { return node.receiver().stats().queues[0]; };
    if (!Eventually([&] { return queue().rows_received > 0 && queue().queued_rows == 0; })) {
      return absl::DeadlineExceededError("nothing was taken back");
    }
    while (!feed->ShouldStop()) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(10));
      if (batch.empty()) break;
      node.Note(batch);
    }
    return absl::OkStatus();
  };
}

TEST_F(FeederReceiverTest, WhatASlowNodeHasBegunGoesOnAtAnother) {
  AddNode(ReadLateAfter(/*batches=*/1));
  AddNode(Train(10));
  const MemorySource source = **MemorySource::Split(Ids(0, 5000), 8);
  auto result = RunTrain(source);
  ASSERT_THAT(result, IsOk());
  EXPECT_GE(result->moved, 1);
  EXPECT_THAT(result->refed, IsEmpty());
  EXPECT_EQ(result->rows(), 5000);
  EXPECT_GE(result->rows_by_node["worker:0"], 10);
  EXPECT_GE(result->rows_by_node["worker:1"], 7 * 625) << "all but one partition, at least";
  EXPECT_EQ(AllIds(), Range(5000));
}

TEST_F(FeederReceiverTest, WhatASlowNodeHasNotBegunMovesWhateverTheSource) {
  AddNode(ReadLateAfter(/*batches=*/0));
  AddNode(Train(10));
  const UnstableSource source(**MemorySource::Split(Ids(0, 5000), 8));
  auto result = RunTrain(source);
  ASSERT_THAT(result, IsOk());
  EXPECT_GE(result->moved, 1);
  EXPECT_THAT(result->refed, IsEmpty());
  EXPECT_EQ(AllIds(), Range(5000));
}

TEST_F(FeederReceiverTest, WhenAllHaveLeftTheCallIsOver) {
  AddNode(Train(10, /*batches=*/3));
  AddNode(Train(10, /*batches=*/1));
  const MemorySource source = **MemorySource::Split(Ids(0, 500000), 100);
  auto result = RunTrain(source);
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->terminated);
  EXPECT_EQ(AllIds().size(), 40u);
}

TEST_F(FeederReceiverTest, AProgramThatDoesNotReadTimesOut) {
  auto release = std::make_shared<Notification>();
  AddNode([release](Node& node) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto feed, node.receiver().GetDataFeed());
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(64));
    release->WaitForNotification();
    return absl::OkStatus();
  });
  const MemorySource source = **MemorySource::Split(Ids(0, 200), 1);
  EXPECT_THAT(RunTrain(source, 1, absl::Milliseconds(300)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("worker:0 acknowledged no row of partition 0"),
                             HasSubstr("is not calling NextBatch"))));
  release->Notify();
}

TEST_F(FeederReceiverTest, AProgramThatFailsFailsTheCall) {
  AddNode([](Node& node) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto feed, node.receiver().GetDataFeed());
    MILLRACE_RETURN_IF_ERROR(feed->NextBatch(64).status());
    return absl::DataLossError("loss is NaN");
  });
  const MemorySource source = **MemorySource::Split(Ids(0, 200), 1);
  EXPECT_THAT(RunTrain(source), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("loss is NaN")));
}

TEST_F(FeederReceiverTest, AnUnknownQueueNamesThoseThereAre) {
  AddNode(Train(10));
  const MemorySource source = **MemorySource::Split(Ids(0, 10), 1);
  TrainJob job(feeder_.get(), &directory_, &source, this, {.feed_id = "f", .queue = "images"});
  EXPECT_THAT(job.Run(), StatusIs(absl::StatusCode::kNotFound,
                                  AllOf(HasSubstr("images"), HasSubstr("input"))));
}

TEST_F(FeederReceiverTest, ColumnsOfEveryTypeArrive) {
  const RecordBatch sent = RandomBatch(200, Nulls::kSome, /*seed=*/3);
  Mutex mu;
  std::vector<RecordBatch> read;
  AddNode([&](Node& node) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto feed, node.receiver().GetDataFeed());
    while (!feed->ShouldStop()) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(64));
      if (batch.empty()) break;
      MutexLock lock(&mu);
      read.push_back(batch.record_batch());
    }
    return absl::OkStatus();
  });
  const MemorySource source = **MemorySource::Create({{sent}});
  ASSERT_THAT(RunTrain(source), IsOk());
  MutexLock lock(&mu);
  auto joined = RecordBatch::Concat(read);
  ASSERT_THAT(joined, IsOk());
  EXPECT_TRUE(joined->Equals(sent));
}

TEST_F(FeederReceiverTest, InferenceAnswersEveryRowInOrder) {
  AddNode(Double(64));
  AddNode(Double(17));
  const MemorySource source = **MemorySource::Split(Ids(0, 10007), /*num_partitions=*/13);
  InferenceJob job(feeder_.get(), &directory_, &source, /*observer=*/nullptr,
                   {.feed_id = "i", .batch_bytes = 1000});
  int64_t next = 0;
  EXPECT_THAT(job.Collect([&](int, const RecordBatch& results) {
    EXPECT_EQ(results.schema().name(0), "twice");
    const int64_t* values = results.column(0).values<int64_t>();
    for (int64_t i = 0; i < results.num_rows(); ++i) EXPECT_EQ(values[i], 2 * next++);
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_EQ(next, 10007);
}

TEST_F(FeederReceiverTest, TwoReadersOfOneNodeAreServedInTurn) {
  AddNode(Double(64));
  const MemorySource source = **MemorySource::Split(Ids(0, 1000), 2);
  InferenceJob job(feeder_.get(), &directory_, &source, /*observer=*/nullptr, {.feed_id = "i"});
  std::vector<Thread> readers;
  for (int partition : {0, 1}) {
    readers.emplace_back("reader", [&job, partition] {
      auto reader = *job.OpenPartition(partition);
      int64_t rows = 0;
      while (true) {
        auto results = reader->Next();
        ASSERT_THAT(results, IsOk());
        if (!results->has_value()) break;
        rows += (*results)->num_rows();
      }
      EXPECT_EQ(rows, 500);
    });
  }
  for (Thread& reader : readers) reader.Join();
}

TEST_F(FeederReceiverTest, TooFewResultsAreAnErrorThatNamesTheRows) {
  AddNode([](Node& node) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto feed, node.receiver().GetDataFeed({.train_mode = false}));
    while (!feed->ShouldStop()) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(64));
      if (batch.empty()) break;
      MILLRACE_RETURN_IF_ERROR(feed->BatchResults(Ids(0, batch.num_rows() - 1)));
    }
    return absl::OkStatus();
  });
  const MemorySource source = **MemorySource::Split(Ids(0, 64), 1);
  InferenceJob job(feeder_.get(), &directory_, &source, /*observer=*/nullptr, {.feed_id = "i"});
  auto reader = *job.OpenPartition(0);
  absl::StatusOr<std::optional<RecordBatch>> results;
  do {
    results = reader->Next();
  } while (results.ok() && results->has_value());
  EXPECT_THAT(results, StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("worker:0, partition 0"), HasSubstr("63"))));
}

TEST_F(FeederReceiverTest, TrainingThenInferenceInOneProgram) {
  AddNode([](Node& node) -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(Train(64)(node));
    return Double(64)(node);
  });
  const MemorySource source = **MemorySource::Split(Ids(0, 1000), 2);
  ASSERT_THAT(RunTrain(source), IsOk());
  nodes_[0]->receiver().EndFeed("input");
  InferenceJob job(feeder_.get(), &directory_, &source, /*observer=*/nullptr, {.feed_id = "i"});
  int64_t rows = 0;
  EXPECT_THAT(job.Collect([&](int, const RecordBatch& results) {
    rows += results.num_rows();
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_EQ(rows, 1000);
}

}  // namespace
}  // namespace millrace
