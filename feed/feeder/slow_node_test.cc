// What TrainJob takes back from a node that is slower than the others (docs/feed_protocol.md,
// REVOKE).
#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/train_job.h"
#include "feed/feeder/train_job_fixture.h"
#include "feed/source/id_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/source.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;
using Event = FakeFeedNode::Event;
using Session = FakeFeedNode::Session;
using State = FeedTarget::State;

// worker:0 takes 40 rows of each partition, acknowledges none, and answers REVOKE as the test
// wants; worker:1 reads whatever it gets at once.
class SlowNodeTest : public TrainJobTest {
 protected:
  using Answer = std::function<void(Session&)>;

  FakeFeedNode& AddSlowNode(Answer answer, const std::string& nonce = "") {
    return AddNode(
        "worker:0",
        [answer = std::move(answer)](Session& session, FrameType type) {
          FakeFeedNode::ReceiveOnly()(session, type);
          if (type == FrameType::kRevoke) answer(session);
        },
        nonce);
  }
  static int64_t Count(const FakeFeedNode& node, FrameType type) {
    int64_t count = 0;
    for (const Event& event : node.events()) count += event.type == type;
    return count;
  }
  // The first rows of worker:1's sessions with partitions that worker:0 had before.
  std::vector<int64_t> ResumedAt() {
    std::set<int64_t> slow;
    for (const Event& event : nodes_[0]->events()) slow.insert(event.open.partition);
    std::vector<int64_t> rows;
    for (const Event& event : nodes_[1]->events()) {
      if (event.type == FrameType::kOpen && slow.contains(event.open.partition)) {
        rows.push_back(event.open.first_row);
      }
    }
    return rows;
  }
};

TEST_F(SlowNodeTest, WhatItHasNotBegunMovesAsAWhole) {
  FakeFeedNode& slow = AddSlowNode([](Session& session) {
    session.Revoked(0);
    session.Done(0, 0);
  });
  AddNode("worker:1", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(6, 40);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->rows_by_node, ElementsAre(Pair("worker:1", 240)));
  EXPECT_EQ(Sorted(nodes_[1]->values()), IdRange(0, 240));
  EXPECT_EQ(result->moved, Count(slow, FrameType::kOpen));
  EXPECT_GE(result->moved, 1);
  EXPECT_EQ(result->rows_refed(), 0);
}

TEST_F(SlowNodeTest, TheRestOfWhatItHasBegunMovesOnceItsRowsAreUsed) {
  AddSlowNode([](Session& session) {
    session.Revoked(20);
    session.Ack(20);
    session.Done(20, 0);
  });
  AddNode("worker:1", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(6, 40);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 240);
  EXPECT_EQ(result->rows_by_node["worker:0"], 20 * result->moved);
  EXPECT_THAT(ResumedAt(), testing::Each(20));
  EXPECT_EQ(result->rows_refed(), 0);
}

TEST_F(SlowNodeTest, OfAnUnstableSourceOnlyWhatIsNotBegunIsAskedFor) {
  FakeFeedNode& slow = AddNode("worker:0", [](Session& session, FrameType type) {
    FakeFeedNode::ReceiveOnly()(session, type);
    if (type == FrameType::kRevoke) {  // nobody has begun it
      session.Revoked(0);
      session.Done(0, 0);
    }
  });
  AddNode("worker:1", FakeFeedNode::ReadAll());
  const UnstableSource source(IdSource(6, 40));
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 240);
  EXPECT_THAT(ResumedAt(), testing::Each(0));
  ASSERT_GE(result->moved, 1);
  for (const Event& event : slow.events()) {
    if (event.type != FrameType::kRevoke) continue;
    EXPECT_EQ(event.rows, 0) << "max_row";
  }
}

TEST_F(SlowNodeTest, ANodeThatIgnoresItHoldsNothingUp) {
  FakeFeedNode& slow = AddSlowNode([](Session&) {});
  AddNode("worker:1", FakeFeedNode::ReadAll());
  observer_.on_feed_end = [&](const std::string&) {
    slow.Post([](Session& session) { session.Done(session.row, 0); });
  };
  const MemorySource source = IdSource(6, 40);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 240);
  EXPECT_EQ(result->moved, 0);
}

TEST_F(SlowNodeTest, ARevokeThatCrossesDoneMovesNothing) {
  AddSlowNode([](Session& session) {
    session.Ack(40);
    session.Done(40, 0);
  });
  AddNode("worker:1", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(6, 40);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 240);
  EXPECT_EQ(result->moved, 0);
  EXPECT_EQ(result->rows_refed(), 0);
}

// The node had given its program all rows by the time that it heard.
TEST_F(SlowNodeTest, RevokedBehindTheLastRowIsDone) {
  AddSlowNode([](Session& session) {
    session.Revoked(40);
    session.Ack(40);
    session.Done(40, 0);
  });
  AddNode("worker:1", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(6, 40);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 240);
  EXPECT_EQ(result->moved, 0);
}

TEST_F(SlowNodeTest, ARevokeThatCrossesTerminateGoesOnAfterTheRowsThatWereUsed) {
  AddSlowNode([](Session& session) {
    session.Ack(12);
    session.Terminated();
  });
  AddNode("worker:1", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(6, 40);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->terminated);
  EXPECT_EQ(result->rows(), 240);
  EXPECT_THAT(ResumedAt(), testing::Each(testing::AnyOf(0, 12)));
  EXPECT_EQ(result->rows_refed(), 0);
}

// It dies with the rows before REVOKED's in hand: these may have been used, the others were not.
TEST_F(SlowNodeTest, ANodeKilledWhileItGivesBackIsFedAgainOnlyWhatItWasGiven) {
  Notification revoked;
  std::atomic<bool> first{true};
  FakeFeedNode& old = AddSlowNode(
      [&](Session& session) {
        if (!first.exchange(false)) return;
        session.Revoked(20);
        session.Ack(12);
        revoked.Notify();
      },
      "old");
  AddNode("worker:1", FakeFeedNode::ReadAll());
  Thread restart("restart", [&] {
    revoked.WaitForNotification();
    directory_.SetState("worker:0", State::kRestarting);
    old.Kill();
    AddNode("worker:0", FakeFeedNode::ReadAll(), "new");
  });
  const MemorySource source = IdSource(2, 40);
  auto result = Run(source, Options());
  restart.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 80 + 12) << "twelve rows were acknowledged by the node that died";
  ASSERT_THAT(result->refed, SizeIs(1));
  EXPECT_EQ(result->refed[0].rows, 20);
  EXPECT_EQ(result->refed[0].reason, "worker:0 was restarted");
}

}  // namespace
}  // namespace millrace
