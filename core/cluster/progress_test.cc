#include "core/cluster/progress.h"

#include <string>

#include "core/base/fake_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProgressTest : public ::testing::Test {
 protected:
  Progress Make(bool enabled) {
    return Progress(
        enabled, 3, [this](absl::string_view line) { text_ += "[" + std::string(line) + "]"; },
        &clock_);
  }
  // The lines that were shown since the last call.
  std::string Take() { return std::exchange(text_, ""); }
  static SlotStatus Slot(int executor_id, SlotState state) {
    SlotStatus slot;
    slot.executor_id = executor_id;
    slot.state = state;
    return slot;
  }

  FakeClock clock_;
  std::string text_;
};

TEST_F(ProgressTest, ShowsHowManyNodesStandOnEachStepOfTheLadder) {
  Progress progress = Make(true);
  progress.OnSlot(Slot(0, SlotState::kRunning));
  Take();
  clock_.Advance(absl::Milliseconds(1500));
  progress.OnSlot(Slot(1, SlotState::kRegistered));
  EXPECT_EQ(Take(), "[1.5 s  3 nodes: 1 requested 1 registered 1 running]");
}

TEST_F(ProgressTest, ShowsRowsPerSecondWhileFeeding) {
  Progress progress = Make(true);
  progress.FeedStarted();
  clock_.Advance(absl::Seconds(2));
  progress.OnFeed(5000, 3, 8);
  EXPECT_EQ(Take(), "[2.0 s  5.0 k rows, 2.5 k rows/s, 3 of 8 partitions]");
}

TEST_F(ProgressTest, WritesAtMostTenTimesASecondButAlwaysTheEnd) {
  Progress progress = Make(true);
  progress.FeedStarted();
  progress.OnFeed(1, 1, 8);
  Take();
  clock_.Advance(absl::Milliseconds(50));
  progress.OnFeed(2, 2, 8);
  EXPECT_THAT(Take(), IsEmpty());
  progress.OnFeed(8, 8, 8);
  EXPECT_THAT(Take(), HasSubstr("8 of 8 partitions"));
}

TEST_F(ProgressTest, ClearTakesTheLineAwayOnce) {
  Progress progress = Make(true);
  progress.OnSlot(Slot(0, SlotState::kStarted));
  Take();
  progress.Clear();
  EXPECT_EQ(Take(), "[]");
  progress.Clear();
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(ProgressTest, IsSilentWhereThereIsNoTerminal) {
  Progress progress = Make(false);
  progress.OnSlot(Slot(0, SlotState::kRunning));
  progress.FeedStarted();
  progress.OnFeed(8, 8, 8);
  progress.Clear();
  EXPECT_THAT(text_, IsEmpty());
}

}  // namespace
}  // namespace millrace
