#include "feed/receiver/used_rows.h"

#include <cstdint>
#include <random>
#include <set>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Stretch = UsedRows::Stretch;

OpenFrame Open(int64_t partition, int64_t first_row = 0, const char* feed_id = "f1") {
  return {.feed_id = feed_id, .partition = partition, .first_row = first_row};
}

TEST(UsedRowsTest, APositionHasWhatWasGivenOfTheCallThatIsRead) {
  UsedRows used;
  used.Add(Open(3), 10);
  EXPECT_THAT(used.Position().rows, IsEmpty()) << "none is read yet";
  used.Read("f1");
  used.Add(Open(3), 0);
  used.Add(Open(3), 10);
  used.Add(Open(3, 20), 25);
  used.Add(Open(3, 10), 12);
  used.Add({.feed_id = "f1", .partition = 3, .data_epoch = 1}, 4);
  used.Add(Open(1, 5, "f1.2"), 7);
  EXPECT_EQ(used.Position().feed_id, "f1");
  EXPECT_THAT(used.Position().rows, ElementsAre(FeedRows{0, 1, 5, 7}, FeedRows{0, 3, 0, 12},
                                                FeedRows{0, 3, 20, 25}, FeedRows{1, 3, 0, 4}));
}

TEST(UsedRowsTest, ACallThatHasEndedIsForgottenWhenTheNextOneIsRead) {
  UsedRows used;
  used.Read("f1");
  used.Add(Open(0), 10);
  used.End("f1", /*aborted=*/false);
  EXPECT_THAT(used.Position().rows, ElementsAre(FeedRows{0, 0, 0, 10}));
  used.Read("f1.1");  // what it feeds after its end
  EXPECT_THAT(used.Position().rows, ElementsAre(FeedRows{0, 0, 0, 10}));
  used.End("f1.1", /*aborted=*/false);
  used.Read("f2");
  EXPECT_EQ(used.Position().feed_id, "f2");
  EXPECT_THAT(used.Position().rows, IsEmpty());
  used.Add(Open(0), 10);  // its session ends only now
  used.Read("f1");
  EXPECT_THAT(used.Position().rows, IsEmpty()) << "calls that have ended take no memory";
}

TEST(UsedRowsTest, ACallThatLostItsTurnIsRemembered) {
  UsedRows used;
  used.Read("f1");
  used.Add(Open(0), 10);
  used.Read("f2");
  used.End("f2", /*aborted=*/false);
  used.Read("f1");
  EXPECT_THAT(used.Position().rows, ElementsAre(FeedRows{0, 0, 0, 10}));
}

TEST(UsedRowsTest, RowsOfAPositionAreLeftOut) {
  UsedRows used;
  ASSERT_THAT(used.LeaveOut({"f1", {{0, 3, 0, 10}, {0, 3, 20, 30}}}), IsOk());
  ASSERT_THAT(used.LeaveOut({"f1", {{0, 3, 10, 12}}}), IsOk()) << "another node's";
  EXPECT_THAT(used.Position().rows, ElementsAre(FeedRows{0, 3, 0, 12}, FeedRows{0, 3, 20, 30}));
  used.Read("f1");
  EXPECT_EQ(used.FirstUnused(Open(3), 0, 8), (Stretch{8, 8}));
  EXPECT_EQ(used.FirstUnused(Open(3), 8, 100), (Stretch{12, 20}));
  EXPECT_EQ(used.FirstUnused(Open(3), 12, 15), (Stretch{12, 15}));
  EXPECT_EQ(used.FirstUnused(Open(3), 15, 100), (Stretch{15, 20}));
  EXPECT_EQ(used.FirstUnused(Open(3), 20, 100), (Stretch{30, 100}));
  EXPECT_EQ(used.FirstUnused(Open(4), 0, 100), (Stretch{0, 100}));
  used.Read("f2");
  EXPECT_EQ(used.FirstUnused(Open(3), 0, 8), (Stretch{0, 8})) << "another call";
}

TEST(UsedRowsTest, APositionOfAnotherClusterHoldsForTheFirstCallAlone) {
  UsedRows used;
  ASSERT_THAT(used.LeaveOut({"", {{0, 3, 0, 10}}}), IsOk());
  used.Read("g1");
  EXPECT_EQ(used.FirstUnused(Open(3), 0, 20), (Stretch{10, 20}));
  used.Add(Open(3, 0, "g1"), 15);
  EXPECT_THAT(used.Position().rows, ElementsAre(FeedRows{0, 3, 0, 15}));
  used.End("g1", /*aborted=*/false);
  used.Read("g2");
  EXPECT_EQ(used.FirstUnused(Open(3), 0, 20), (Stretch{0, 20}));
  EXPECT_FALSE(used.LeavesOut());
}

TEST(UsedRowsTest, TheFirstCallMayEndWithoutARowForThisNode) {
  UsedRows used;
  ASSERT_THAT(used.LeaveOut({"", {{0, 3, 0, 10}}}), IsOk());
  used.End("g0", /*aborted=*/true);  // that one is fed anew
  used.End("g1", /*aborted=*/false);
  used.Read("g2");
  EXPECT_EQ(used.FirstUnused(Open(3), 0, 20), (Stretch{0, 20}));
  EXPECT_FALSE(used.LeavesOut());
}

// Its rows may have come, and its end, before the program has loaded its checkpoint.
TEST(UsedRowsTest, TheFirstCallMayHaveEndedBeforeThePositionIsKnown) {
  UsedRows used;
  used.End("g1", /*aborted=*/false);
  ASSERT_THAT(used.LeaveOut({"", {{0, 3, 0, 10}}}), IsOk());
  used.Read("g1");
  EXPECT_EQ(used.FirstUnused(Open(3), 0, 20), (Stretch{10, 20}));
  used.End("g1", /*aborted=*/false);
  used.Read("g2");
  EXPECT_FALSE(used.LeavesOut());
}

TEST(UsedRowsTest, TheFirstCallMayBeOverBeforeThePositionIsKnown) {
  UsedRows used;
  used.End("g1", /*aborted=*/false);
  ASSERT_THAT(used.LeaveOut({"", {{0, 3, 0, 10}}}), IsOk());
  used.Read("g2");
  EXPECT_EQ(used.FirstUnused(Open(3), 0, 20), (Stretch{0, 20}));
  EXPECT_FALSE(used.LeavesOut());
}

TEST(UsedRowsTest, ACallThatFailedIsNotTheFirstOne) {
  UsedRows used;
  ASSERT_THAT(used.LeaveOut({"", {{0, 3, 0, 10}}}), IsOk());
  used.End("g0", /*aborted=*/true);
  used.Read("g1");
  EXPECT_EQ(used.FirstUnused(Open(3), 0, 20), (Stretch{10, 20}));
}

TEST(UsedRowsTest, RowsThatCannotBeAreRefused) {
  UsedRows used;
  for (const FeedRows& rows : {FeedRows{-1, 0, 0, 1}, FeedRows{0, -1, 0, 1}, FeedRows{0, 0, -1, 1},
                               FeedRows{0, 0, 1, 1}}) {
    EXPECT_THAT(used.LeaveOut({"f1", {{0, 0, 0, 1}, rows}}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Position()")));
  }
  EXPECT_FALSE(used.LeavesOut()) << "all or nothing";
  used.Read("f1");
  EXPECT_THAT(used.LeaveOut({"f1", {{0, 0, 0, 1}}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("NextBatch")));
}

// Against a set of single rows.
TEST(UsedRowsTest, StretchesAreTheRowsThatTheyWereMadeOf) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    UsedRows used;
    std::set<int64_t> rows;
    for (int i = 0; i < 8; ++i) {
      const auto first = static_cast<int64_t>(random() % 30);
      const auto end = first + 1 + static_cast<int64_t>(random() % 8);
      ASSERT_THAT(used.LeaveOut({"f1", {{0, 0, first, end}}}), IsOk());
      for (int64_t row = first; row < end; ++row) rows.insert(row);
    }
    used.Read("f1");
    std::set<int64_t> in_position;
    int64_t last_end = -1;
    for (const FeedRows& each : used.Position().rows) {
      EXPECT_GT(each.first_row, last_end) << "apart";
      last_end = each.end_row;
      for (int64_t row = each.first_row; row < each.end_row; ++row) in_position.insert(row);
    }
    EXPECT_EQ(in_position, rows);
    const auto end = static_cast<int64_t>(random() % 45);
    std::set<int64_t> unused;
    for (int64_t row = 0; row < end;) {
      const Stretch stretch = used.FirstUnused(Open(0), row, end);
      ASSERT_LE(row, stretch.first);
      ASSERT_LE(stretch.first, stretch.end);
      ASSERT_LE(stretch.end, end);
      ASSERT_LT(row, stretch.end) << "it goes on";
      for (row = stretch.first; row < stretch.end; ++row) unused.insert(row);
    }
    for (int64_t row = 0; row < end; ++row) EXPECT_NE(rows.contains(row), unused.contains(row));
  }
}

}  // namespace
}  // namespace millrace
