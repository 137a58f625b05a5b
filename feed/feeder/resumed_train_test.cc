// Train calls that go on where a feeder that is gone left off.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/partition_progress.h"
#include "feed/feeder/train_job.h"
#include "feed/feeder/train_job_fixture.h"
#include "feed/source/id_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/source.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Event = FakeFeedNode::Event;
using Session = FakeFeedNode::Session;

// Partition p has the rows 10 * p to 10 * p + 9.
class ResumedTrainTest : public TrainJobTest {
 protected:
  // Reads all; of resumed sessions its program was given the rows before `given`.
  FakeFeedNode& AddResumedNode(const std::string& name, int64_t given,
                               const std::string& nonce = "") {
    return AddNode(
        name,
        [given, read = FakeFeedNode::ReadAll()](Session& session, FrameType type) {
          if (type == FrameType::kOpen && session.open.resumed) {
            session.row = session.open.first_row = given;
            session.Ack(given);
          }
          read(session, type);
        },
        nonce);
  }
  TrainJobOptions Resumed(TrainResume resume, int64_t epochs = 1) {
    TrainJobOptions options = Options(epochs);
    options.resume = std::move(resume);
    return options;
  }
  static std::vector<OpenFrame> Opens(const FakeFeedNode& node) {
    std::vector<OpenFrame> opens;
    for (const Event& event : node.events()) {
      if (event.type == FrameType::kOpen) opens.push_back(event.open);
    }
    return opens;
  }
  // The rows that were done and refed, as the ledger is told.
  std::map<int64_t, PartitionProgress> Acknowledged() {
    std::map<int64_t, PartitionProgress> last;
    for (const PartitionProgress& report : observer_.reports()) {
      if (report.state == PartitionProgress::State::kAcknowledged) last[report.partition] = report;
    }
    return last;
  }
};

TEST_F(ResumedTrainTest, WhatIsDoneIsLeftOutAndWhatWasBegunGoesOnBehindTheRowsThatWereGiven) {
  FakeFeedNode& node = AddResumedNode("worker:0", /*given=*/4);
  const MemorySource source = IdSource(4, 10);
  auto result = Run(source, Resumed({.begun = {{1, {.node = "worker:0", .first_row = 2}}},
                                     .done = {{0, 10}, {3, 10}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(Sorted(node.values()), Sorted({14, 15, 16, 17, 18, 19,  //
                                           20, 21, 22, 23, 24, 25, 26, 27, 28, 29}));
  EXPECT_THAT(result->refed, IsEmpty());
  EXPECT_EQ(result->rows(), 16);
  ASSERT_EQ(Opens(node).size(), 2);
  EXPECT_EQ(Opens(node)[0].partition, 1) << "what was begun goes first";
  EXPECT_TRUE(Opens(node)[0].resumed);
  EXPECT_EQ(Opens(node)[1].partition, 2);
  EXPECT_FALSE(Opens(node)[1].resumed);
  EXPECT_EQ(Acknowledged()[1].first_row, 4);
  EXPECT_EQ(Acknowledged()[1].acked_rows, 10);
  EXPECT_THAT(observer_.ends(), ElementsAre(Pair("f", false)));
}

TEST_F(ResumedTrainTest, EpochsCountOn) {
  FakeFeedNode& node = AddResumedNode("worker:0", /*given=*/9);
  const MemorySource source = IdSource(2, 10);
  auto result = Run(source, Resumed({.begun = {{3, {.node = "worker:0"}}},
                                     .done = {{0, 10}, {1, 10}, {2, 10}, {4, 10}}},
                                    /*epochs=*/3));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(Opens(node)[0].data_epoch, 1);
  EXPECT_EQ(Opens(node)[0].partition, 1);
  EXPECT_EQ(Opens(node)[1].data_epoch, 2);
  EXPECT_EQ(Opens(node)[1].partition, 1);
  EXPECT_EQ(result->rows(), 11);
}

TEST_F(ResumedTrainTest, WhereAllIsDoneOnlyTheEndIsTold) {
  FakeFeedNode& node = AddResumedNode("worker:0", 0);
  const MemorySource source = IdSource(2, 10);
  auto result = Run(source, Resumed({.rounds = 2, .done = {{0, 10}, {1, 10}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(node.events(), IsEmpty());
  EXPECT_THAT(observer_.ends(), ElementsAre(Pair("f.2", false)));
}

TEST_F(ResumedTrainTest, WhatFollowsAnEndTravelsInTheNextRound) {
  FakeFeedNode& node = AddResumedNode("worker:0", 10);
  const MemorySource source = IdSource(1, 10);
  auto result = Run(source, Resumed({.rounds = 1, .begun = {{0, {.node = "worker:0"}}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(Opens(node)[0].feed_id, "f.1");
  EXPECT_THAT(node.values(), IsEmpty()) << "all had been given";
  EXPECT_THAT(observer_.ends(), ElementsAre(Pair("f.1", false)));
}

TEST_F(ResumedTrainTest, WhatARestartedNodeHadIsFedAgainAndCounted) {
  FakeFeedNode& node = AddResumedNode("worker:0", 4);
  FeedTarget target = node.target();
  target.attempt = 1;
  directory_.Set(target);
  const MemorySource source = IdSource(1, 10);
  auto result = Run(source, Resumed({.begun = {{0, {.node = "worker:0", .first_row = 3}}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(Opens(node)[0].resumed);
  EXPECT_EQ(node.values().size(), 10);
  EXPECT_EQ(result->rows_refed(), 10);
  EXPECT_EQ(Acknowledged()[0].refed_all, 1);
  EXPECT_EQ(Acknowledged()[0].refed_from, 0);
  EXPECT_THAT(Acknowledged()[0].reason, HasSubstr("restarted"));
}

TEST_F(ResumedTrainTest, WhatANodeHadThatIsGoneGoesToAnotherAndIsCounted) {
  AddResumedNode("worker:0", 4);
  FakeFeedNode& other = AddResumedNode("worker:1", 4);
  directory_.SetState("worker:0", FeedTarget::State::kFinished);
  const MemorySource source = IdSource(1, 10);
  auto result = Run(source, Resumed({.begun = {{0, {.node = "worker:0", .first_row = 3}}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(other.values(), ElementsAre(3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(result->rows_refed(), 7);
  EXPECT_EQ(Acknowledged()[0].refed_from, 3);
}

TEST_F(ResumedTrainTest, AProgramThatReadsNoMoreHasUsedWhatItWasGiven) {
  AddNode("worker:0", [](Session& session, FrameType type) {
    if (type != FrameType::kOpen) return;
    session.Ack(6);
    session.Terminated();
  });
  FakeFeedNode& other = AddResumedNode("worker:1", 0);
  const MemorySource source = IdSource(1, 10);
  auto result = Run(source, Resumed({.begun = {{0, {.node = "worker:0"}}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(other.values(), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(result->refed, IsEmpty());
}

// It has the rows of the session before, and does not say how many.
TEST_F(ResumedTrainTest, ANodeThatDoesNotSayIsFedAllAgain) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(1, 10);
  auto result = Run(source, Resumed({.begun = {{0, {.node = "worker:0", .first_row = 3}}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(node.values(), ElementsAre(3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(result->rows_refed(), 7);
  EXPECT_EQ(Acknowledged()[0].refed_from, 3);
}

TEST_F(ResumedTrainTest, AConnectionThatIsLostBeforeTheAnswerIsTriedAgain) {
  bool lost = false;
  FakeFeedNode& node = AddNode(
      "worker:0", [&lost, read = FakeFeedNode::ReadAll()](Session& session, FrameType type) {
        if (type == FrameType::kOpen && !std::exchange(lost, true)) {
          return session.Error(absl::UnavailableError("lost"));
        }
        if (type == FrameType::kOpen) {
          session.row = session.open.first_row = 4;
          session.Ack(4);
        }
        read(session, type);
      });
  const MemorySource source = IdSource(1, 10);
  auto result = Run(source, Resumed({.begun = {{0, {.node = "worker:0"}}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(node.values(), ElementsAre(4, 5, 6, 7, 8, 9));
  EXPECT_THAT(result->refed, IsEmpty());
  EXPECT_TRUE(Opens(node)[1].resumed);
}

TEST_F(ResumedTrainTest, ANodeThatIsRestartedBeforeItAnswersIsFedAllAgain) {
  FakeFeedNode& second = AddNode("worker:0", FakeFeedNode::ReadAll(), "second");
  FakeFeedNode& first = AddNode(
      "worker:0",
      [&](Session& session, FrameType type) {
        if (type != FrameType::kOpen) return;
        FeedTarget target = second.target();
        target.attempt = 1;
        directory_.Set(target);
        session.Error(absl::UnavailableError("gone"));
      },
      "first");
  const MemorySource source = IdSource(1, 10);
  auto result = Run(source, Resumed({.begun = {{0, {.node = "worker:0", .first_row = 3}}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(first.values(), IsEmpty());
  EXPECT_EQ(second.values().size(), 10);
  EXPECT_FALSE(Opens(second)[0].resumed);
  EXPECT_EQ(result->rows_refed(), 10);
}

TEST_F(ResumedTrainTest, ACountThatWasOwedIsStillOwed) {
  FakeFeedNode& node = AddResumedNode("worker:0", 8);
  const MemorySource source = IdSource(1, 10);
  const BegunPartition begun = {
      .node = "worker:0", .first_row = 3, .refed_all = 2, .refed_from = 1};
  auto result = Run(source, Resumed({.begun = {{0, begun}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(node.values(), ElementsAre(8, 9));
  EXPECT_EQ(result->rows_refed(), 18);
}

TEST_F(ResumedTrainTest, WhatIsFedAgainTwiceCountsTwice) {
  FakeFeedNode& node = AddResumedNode("worker:0", 4);
  FeedTarget target = node.target();
  target.attempt = 2;
  directory_.Set(target);
  const MemorySource source = IdSource(1, 10);
  const BegunPartition begun = {.node = "worker:0", .node_attempt = 1, .refed_all = 1};
  auto result = Run(source, Resumed({.begun = {{0, begun}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(node.values().size(), 10);
  EXPECT_EQ(result->rows_refed(), 20);
  EXPECT_EQ(Acknowledged()[0].refed_all, 2);
}

// Its rows come in another order: the number of those that were given says nothing.
TEST_F(ResumedTrainTest, ASourceThatIsNotDeterministicIsFedAllAgain) {
  FakeFeedNode& node = AddResumedNode("worker:0", 4);
  const UnstableSource source(IdSource(1, 10));
  auto result = Run(source, Resumed({.begun = {{0, {.node = "worker:0"}}}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(Opens(node)[0].resumed);
  EXPECT_EQ(node.values().size(), 10);
  EXPECT_EQ(result->rows_refed(), 10);
}

TEST_F(ResumedTrainTest, ASourceThatHasFewerRowsNowIsDataLoss) {
  AddResumedNode("worker:0", 12);
  const MemorySource source = IdSource(1, 10);
  EXPECT_THAT(Run(source, Resumed({.begun = {{0, {.node = "worker:0"}}}})),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("10")));
}

}  // namespace
}  // namespace millrace
