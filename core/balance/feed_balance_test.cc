#include "core/balance/feed_balance.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "core/balance/node_load.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::DoubleNear;
using ::testing::Eq;
using ::testing::Optional;

absl::Duration Ms(int64_t ms) { return absl::Milliseconds(ms); }

constexpr FeedCandidate kSlow = {.executor_id = 0};
constexpr FeedCandidate kFast = {.executor_id = 1};

// Two nodes, of which the first does 100 rows a second and the second 1,000, fed by one feeder.
class FeedBalanceTest : public ::testing::Test {
 protected:
  // A second passes, in which both are busy; then this many rows are unread.
  void Run(int64_t slow_unread, int64_t fast_unread) {
    for (int i = 0; i < 10; ++i) {
      Tell(0, slow_acked_, 100);
      Tell(1, fast_acked_, 100);
      now_ += Ms(100);
      slow_acked_ += 10;
      fast_acked_ += 100;
    }
    Tell(0, slow_acked_, slow_unread);
    Tell(1, fast_acked_, fast_unread);
  }

  void Tell(int executor_id, int64_t acked, int64_t unread, const char* feeder = "feeder/1") {
    balance_.Tell(now_, feeder,
                  {.executor_id = executor_id,
                   .rows_acked = acked,
                   .rows_unread = unread,
                   .partitions = unread > 0 ? 1 : 0});
  }

  std::optional<int> Choose(bool patient, std::vector<FeedCandidate> candidates = {kSlow, kFast}) {
    return balance_.Choose(now_, candidates, /*partition_rows=*/100, patient);
  }

  FeedBalance balance_;
  absl::Duration now_ = Ms(5000);
  int64_t slow_acked_ = 0;
  int64_t fast_acked_ = 0;
};

TEST_F(FeedBalanceTest, WithoutAPaceTheNodeWithTheFewestOpenPartitionsIsChosen) {
  EXPECT_THAT(balance_.Room(0, "feeder/1"), Eq(std::nullopt));
  FeedCandidate busy = kSlow;
  busy.open = 3;
  EXPECT_THAT(Choose(false, {busy, kFast}), Optional(1));
  // The first one is on its way there, and one is enough for a node of which nothing is known.
  EXPECT_THAT(Choose(true, {busy, kFast}), Optional(0));
  EXPECT_THAT(Choose(false, {}), Eq(std::nullopt));
}

TEST_F(FeedBalanceTest, APartitionGoesToTheNodeThatIsDoneFirstNotToTheOneWithTheFewest) {
  Run(/*slow_unread=*/0, /*fast_unread=*/400);
  EXPECT_THAT(balance_.Load(0).pace, Optional(DoubleNear(100, 5)));
  EXPECT_THAT(balance_.Load(1).pace, Optional(DoubleNear(1000, 50)));
  FeedCandidate fast = kFast;
  fast.open = 9;
  EXPECT_THAT(Choose(false, {kSlow, fast}), Optional(1));
}

TEST_F(FeedBalanceTest, WhoIsPatientIsSentNowhereWhileAllHaveEnoughToDo) {
  Run(/*slow_unread=*/50, /*fast_unread=*/500);
  EXPECT_THAT(Choose(true), Eq(std::nullopt));
  EXPECT_THAT(Choose(false), Optional(1));
  now_ += Ms(300);
  fast_acked_ += 300;
  Tell(0, slow_acked_, 50);
  Tell(1, fast_acked_, 150);
  EXPECT_THAT(Choose(true), Optional(1));
  // What is on its way counts, until its feeder has told of it.
  EXPECT_THAT(Choose(true), Eq(std::nullopt));
  now_ += Ms(250);
  fast_acked_ += 250;
  Tell(1, fast_acked_, 150);
  EXPECT_THAT(Choose(true), Optional(1));
}

TEST_F(FeedBalanceTest, ProgramsThatWantMoreRowsThanTheyHaveGetThem) {
  Run(/*slow_unread=*/50, /*fast_unread=*/500);
  ASSERT_THAT(Choose(true), Eq(std::nullopt));
  // Neither acknowledges anything for much longer than it did before.
  for (int i = 0; i < 10; ++i) {
    now_ += Ms(100);
    Tell(0, slow_acked_, 50);
    Tell(1, fast_acked_, 500);
  }
  EXPECT_THAT(Choose(true), Optional(1));
  EXPECT_EQ(balance_.Load(1).allowance, 4);
  balance_.ForgetAllowances();
  EXPECT_EQ(balance_.Load(1).allowance, 1);
}

TEST_F(FeedBalanceTest, ANodeOfTheSameHostIsChosenUnlessAnotherIsMuchSooner) {
  FeedCandidate near = kSlow;
  near.near = true;
  Run(/*slow_unread=*/0, /*fast_unread=*/900);
  EXPECT_THAT(Choose(false, {near, kFast}), Optional(0));  // 1 s against 1
  now_ += Ms(250);
  EXPECT_THAT(Choose(true, {near, kFast}), Optional(0));
  Run(/*slow_unread=*/50, /*fast_unread=*/0);
  EXPECT_THAT(Choose(true, {near, kFast}), Optional(1));
}

TEST_F(FeedBalanceTest, TheRoomOfANodeIsSharedByItsFeeders) {
  Run(/*slow_unread=*/10, /*fast_unread=*/100);
  EXPECT_THAT(balance_.Room(1, "feeder/1"),
              Optional(testing::AllOf(testing::Ge(380), testing::Le(420))));
  Tell(1, 0, 150, "feeder/2");
  EXPECT_THAT(balance_.Room(1, "feeder/1"), Optional(testing::Le(270)));
  // One that has died is forgotten after a while.
  now_ += FeedBalance::kSilence + Ms(1);
  Tell(1, fast_acked_, 0);
  EXPECT_EQ(balance_.Load(1).rows, 0);
}

TEST_F(FeedBalanceTest, ANewAttemptOfANodeBeginsAnew) {
  Run(/*slow_unread=*/10, /*fast_unread=*/100);
  balance_.Tell(now_, "feeder/1", {.executor_id = 1, .attempt = 1, .rows_unread = 7});
  EXPECT_THAT(balance_.Load(1).pace, Eq(std::nullopt));
  Tell(1, fast_acked_, 100);  // of the attempt before
  EXPECT_EQ(balance_.Load(1).rows, 7);
}

}  // namespace
}  // namespace millrace
