#include "core/coordinator/state/feed_moves.h"

#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "core/balance/node_load.h"
#include "core/coordinator/state/feed_ledger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

constexpr double kUsual = 1000;
constexpr absl::Duration kSlowPlan = absl::Milliseconds(60);  // longer than the pause between plans

PartitionReport Received(int64_t partition, int executor_id, uint64_t acked) {
  PartitionReport session;
  session.partition = partition;
  session.state = PartitionState::kReceived;
  session.executor_id = executor_id;
  session.feeder_attempt = 1;
  session.rows_received = 1000;
  session.rows_acked = acked;
  session.movable = Movable::kAnyRow;
  return session;
}

// Node 0 does 100 rows a second, node 1 does 1,000.
class FeedMovesTest : public ::testing::Test {
 protected:
  std::vector<TakeBack> Plan(const std::vector<PartitionReport>& open, double slow_rows,
                             double fast_rows, double waiting_rows = 0, bool complete = true) {
    now_ += kSlowPlan;
    EXPECT_TRUE(moves_.IsDue(now_, "f"));
    const std::map<int, NodeLoad> loads = {{0, {.rows = slow_rows, .pace = 100}},
                                           {1, {.rows = fast_rows, .pace = 1000}}};
    moves_.Plan(now_, "f", open, loads, kUsual, waiting_rows, complete);
    EXPECT_FALSE(moves_.IsDue(now_, "f"));
    return moves_.Of("f");
  }

  FeedMoves moves_;
  absl::Duration now_ = absl::Seconds(100);
};

auto IsPartition(int64_t partition) { return Field(&TakeBack::partition, partition); }

TEST_F(FeedMovesTest, WhatAFastNodeWouldDoSoonerIsTakenBackFromASlowOne) {
  const std::vector<PartitionReport> open = {Received(3, 0, 100), Received(4, 1, 900)};
  EXPECT_THAT(Plan(open, 900, 100), ElementsAre(IsPartition(3)));
  // Asked for again, as long as the session is open; what it will bring counts as the other's.
  EXPECT_THAT(Plan(open, 900, 100), ElementsAre(IsPartition(3)));
  EXPECT_EQ(moves_.Of("f")[0].executor_id, 0);
  EXPECT_EQ(moves_.Of("f")[0].feeder_attempt, 1u);
  EXPECT_THAT(moves_.Of("another"), IsEmpty());
  EXPECT_THAT(Plan({Received(4, 1, 900)}, 0, 100), IsEmpty());
}

TEST_F(FeedMovesTest, NothingIsTakenBackBeforeEveryPartitionIsWithANode) {
  EXPECT_THAT(Plan({Received(3, 0, 100)}, 900, 0, 0, /*complete=*/false), IsEmpty());
}

TEST_F(FeedMovesTest, WhatIsOnItsWayCountsAsTheFasterNodesWork) {
  // 9 s there against 5 s here; with what waits for a session it is 12.
  EXPECT_THAT(Plan({Received(3, 0, 100)}, 900, 0, /*waiting_rows=*/12000), IsEmpty());
  std::vector<PartitionReport> open;
  for (int64_t i = 0; i < 40; ++i) open.push_back(Received(i, 0, 0));
  const size_t first = Plan(open, 40000, 0).size();
  EXPECT_GE(first, 1u);
  EXPECT_LE(first, 2u);  // as much as keeps it busy for a second
  EXPECT_EQ(Plan(open, 40000, 0).size(), first);
}

TEST_F(FeedMovesTest, ASessionThatCannotBeResumedMovesOnlyIfNothingWasUsed) {
  PartitionReport begun = Received(3, 0, 100);
  begun.movable = Movable::kWhole;
  PartitionReport whole = Received(4, 0, 0);
  whole.movable = Movable::kWhole;
  PartitionReport fixed = Received(5, 0, 0);
  fixed.movable = Movable::kNo;
  EXPECT_THAT(Plan({begun, whole, fixed}, 2900, 0), ElementsAre(IsPartition(4)));
}

TEST_F(FeedMovesTest, WhatATaskStillHasToSendCountsAsWorkOfItsNode) {
  PartitionReport feeding = Received(3, 0, 10);
  feeding.state = PartitionState::kFeeding;
  feeding.rows_received = 20;
  EXPECT_THAT(Plan({feeding}, 10, 0), ElementsAre(IsPartition(3)));
}

TEST_F(FeedMovesTest, ANodeThatDoesNotAnswerIsNotAskedForEver) {
  const std::vector<PartitionReport> open = {Received(3, 0, 100)};
  EXPECT_THAT(Plan(open, 900, 0), ElementsAre(IsPartition(3)));
  now_ += absl::Seconds(10);
  EXPECT_THAT(Plan(open, 900, 0), IsEmpty());
  EXPECT_THAT(Plan(open, 900, 0), IsEmpty());
  // Another session of the partition is another matter.
  PartitionReport next = Received(3, 0, 100);
  next.feeder_attempt = 2;
  EXPECT_THAT(Plan({next}, 900, 0), ElementsAre(IsPartition(3)));
  moves_.Forget("f");
  EXPECT_THAT(moves_.Of("f"), IsEmpty());
}

}  // namespace
}  // namespace millrace
