#include "core/coordinator/state/equal_feeds.h"

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr EqualReading kReading = {.batch_rows = 10};

class EqualFeedsTest : public ::testing::Test {
 protected:
  EqualFeedsTest() : feeds_({{0, "worker:0"}, {1, "worker:1"}}) {}

  void JoinBoth(const EqualReading& reading = kReading) {
    ASSERT_THAT(feeds_.Join(0, "input", reading), IsOk());
    ASSERT_THAT(feeds_.Join(1, "input", reading), IsOk());
  }
  // The last of each rank that was told something.
  std::map<int, EqualGrant> Told() {
    std::map<int, EqualGrant> told;
    for (EqualGrant& grant : feeds_.TakeGrants()) told[grant.executor_id] = grant;
    return told;
  }
  void Tell(int rank, int64_t rows, uint64_t generation = 1) {
    feeds_.Tell(rank, "input", "f1", {.generation = generation, .rows = rows});
  }

  EqualFeeds feeds_;
};

TEST_F(EqualFeedsTest, RanksReadAlike) {
  ASSERT_THAT(feeds_.Join(0, "input", kReading), IsOk());
  ASSERT_THAT(feeds_.Join(0, "input", {.batch_rows = 20}),
              IsOk());  // alone, it may think better of it
  EXPECT_THAT(feeds_.Join(1, "input", kReading),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker:1"), HasSubstr("worker:0"), HasSubstr("20 rows"))));
  EXPECT_THAT(feeds_.Join(0, "input", {.batch_rows = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(feeds_.Join(7, "input", kReading), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(feeds_.IsEqual("input"));
  EXPECT_FALSE(feeds_.IsEqual("other"));
}

TEST_F(EqualFeedsTest, EveryRankHearsOfTheCallAndOfWhatIsNew) {
  JoinBoth();
  EXPECT_THAT(feeds_.TakeGrants(), IsEmpty());
  Tell(0, 35);
  std::map<int, EqualGrant> told = Told();
  ASSERT_EQ(told.size(), 2);
  EXPECT_EQ(told[1].feed_id, "f1");
  EXPECT_EQ(told[1].steps, 0);
  Tell(1, 20);
  told = Told();
  EXPECT_EQ(told[0].steps, 2);
  EXPECT_EQ(told[1].steps, 2);
  Tell(1, 29);
  EXPECT_THAT(feeds_.TakeGrants(), IsEmpty());
  EXPECT_EQ(feeds_.GrantsOf(1).size(), 1);
}

TEST_F(EqualFeedsTest, TheNextCallBeginsWhenTheFirstIsClosed) {
  JoinBoth();
  Tell(0, 35);
  feeds_.Tell(1, "input", "f2", {.generation = 1, .rows = 100});
  static_cast<void>(feeds_.TakeGrants());
  feeds_.Close("f1");
  std::map<int, EqualGrant> told = Told();
  EXPECT_EQ(told[0].feed_id, "f2");
  EXPECT_EQ(told[0].generation, 2);
  Tell(0, 35, 2);  // late: f1 is no call any more
  EXPECT_THAT(feeds_.TakeGrants(), IsEmpty());
}

TEST_F(EqualFeedsTest, ADeathIsTheOthersError) {
  JoinBoth();
  Tell(0, 35);
  Tell(1, 35);
  static_cast<void>(feeds_.TakeGrants());
  feeds_.Ended(1, absl::AbortedError("worker:1 was killed"), /*another=*/true);
  std::map<int, EqualGrant> told = Told();
  ASSERT_EQ(told.size(), 1);
  EXPECT_EQ(told[0].generation, 2);
  EXPECT_EQ(told[0].steps, 0);
  EXPECT_FALSE(told[0].fatal);
  EXPECT_THAT(told[0].error, StatusIs(absl::StatusCode::kAborted, HasSubstr("worker:1")));
  ASSERT_THAT(feeds_.Join(1, "input", kReading), IsOk());
  told = Told();
  ASSERT_EQ(told.count(1), 1);  // the new process learns where the call is
  Tell(0, 20, 2);
  Tell(1, 50, 2);
  told = Told();
  EXPECT_EQ(told[1].steps, 2);
  feeds_.Ended(0, absl::AbortedError("worker:0 was killed"), /*another=*/false);
  told = Told();
  EXPECT_TRUE(told[1].fatal);
}

TEST_F(EqualFeedsTest, WhoLeavesEndsTheCallForAll) {
  JoinBoth();
  Tell(0, 35);
  Tell(1, 35);
  static_cast<void>(feeds_.TakeGrants());
  feeds_.Left(1, "input");
  std::map<int, EqualGrant> told = Told();
  EXPECT_TRUE(told[0].last);
  EXPECT_EQ(told[0].steps, 3);
}

TEST_F(EqualFeedsTest, CountsStayWhenTheCallIsClosed) {
  JoinBoth({.batch_rows = 10, .pad = false});
  Tell(0, 35);
  for (const int id : {0, 1}) feeds_.SetFed("f1", id, true);
  std::map<int, EqualGrant> told = Told();
  feeds_.Tell(0, "input", "f1", {.generation = 1, .answer = told[0].question, .rows = 35});
  bool settled = true;
  ASSERT_TRUE(feeds_.Counts("f1", &settled).has_value());
  EXPECT_FALSE(settled);
  feeds_.Tell(1, "input", "f1", {.generation = 1, .answer = told[1].question, .rows = 14});
  ASSERT_TRUE(feeds_.Counts("f1", &settled).has_value());
  EXPECT_TRUE(settled);
  feeds_.Close("f1");
  const auto counts = feeds_.Counts("f1", &settled);
  ASSERT_TRUE(counts.has_value());
  EXPECT_EQ((*counts)[0].dropped, 25);
  EXPECT_EQ((*counts)[1].dropped, 4);
  EXPECT_TRUE((*counts)[0].complete);
  EXPECT_TRUE((*counts)[1].complete);
  EXPECT_FALSE(feeds_.Counts("f9", &settled).has_value());
}

TEST_F(EqualFeedsTest, PaddingWithoutRowsSaysWhoHasNone) {
  JoinBoth({.batch_rows = 10, .pad = true});
  Tell(0, 35);
  feeds_.SetFed("f1", 1, true);
  const std::map<int, EqualGrant> asked = Told();
  feeds_.Tell(1, "input", "f1", {.generation = 1, .answer = asked.at(1).question});
  std::map<int, EqualGrant> told = Told();
  EXPECT_TRUE(told[0].fatal);
  EXPECT_THAT(told[0].error,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker:1")));
}

}  // namespace
}  // namespace millrace
