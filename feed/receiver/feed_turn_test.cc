// Training feeds that keep others waiting: one that nobody has opened at the driver, so that nobody
// ends it either, and one whose rows do not come.

#include <cstdint>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/receiver/data_feed.h"
#include "feed/receiver/receiver_core.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using SessionPtr = ReceiverCore::SessionPtr;

constexpr int64_t kBudget = 8000;
constexpr absl::Duration kTurnPatience = absl::Seconds(10);  // as receiver_core.cc has it

RecordBatch Row(int64_t value) {
  return *BatchBuilder().AddColumn("id", std::vector<int64_t>{value}).Build();
}

class FeedTurnTest : public testing::Test {
 protected:
  FeedTurnTest() {
    const absl::StatusOr<size_t> queue = core_->OpenReader("input", FeedMode::kTrain);
    EXPECT_THAT(queue, IsOk());
    feed_ = MakeDataFeed(core_, *queue, DataFeedOptions{});
    Collect();
  }

  SessionPtr Open(const std::string& feed_id) {
    return core_->Open("feeder/a", ++sessions_, /*link=*/1, /*connection=*/1,
                       {.feed_id = feed_id, .queue = "input", .node_nonce = "nonce"});
  }
  absl::Status Feed(const SessionPtr& session, int64_t value, int64_t bytes = 100) {
    return core_->AddRows(session,
                          {.rows = Row(value), .first_row = session->next_row, .bytes = bytes});
  }
  void Collect() {
    for (std::string& warning : core_->Collect().warnings) warnings_.push_back(std::move(warning));
  }
  void Pass(absl::Duration time) {
    Collect();
    clock_.Advance(time);
    Collect();
  }

  // The program asks for rows that are not there, on a thread of its own: what follows happens
  // while it waits.
  void Ask(int64_t rows = 1) {
    while (wakes_.try_acquire()) {
    }
    program_ = Thread("program", [this, rows] { read_ = Next(rows); });
    wakes_.acquire();  // before it waits it lets the feeders know
  }
  std::vector<int64_t> Next(int64_t rows = 1) {
    const absl::StatusOr<Batch> batch = feed_->NextBatch(rows);
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok()) return {};
    const auto ids = batch->column<int64_t>("id");
    return {ids.begin(), ids.end()};
  }
  std::vector<int64_t> Read() {
    program_.Join();
    return std::exchange(read_, {});
  }

  FakeClock clock_;
  std::counting_semaphore<> wakes_{0};
  std::shared_ptr<ReceiverCore> core_ =
      std::make_shared<ReceiverCore>(ReceiverCore::Options{.node_name = "worker:0",
                                                           .nonce = "nonce",
                                                           .queues = {"input"},
                                                           .budget_bytes = kBudget,
                                                           .clock = &clock_},
                                     [this] { wakes_.release(); });
  std::unique_ptr<DataFeed> feed_;
  Thread program_;
  std::vector<int64_t> read_;
  std::vector<std::string> warnings_;
  uint64_t sessions_ = 0;
};

TEST_F(FeedTurnTest, AFeedThatNobodyOpenedHoldsTheNextUpForTenSeconds) {
  const SessionPtr unknown = Open("unknown");
  const SessionPtr session = Open("f1");
  Ask();
  Pass(kTurnPatience - absl::Milliseconds(1));
  EXPECT_FALSE(session->accepted);
  EXPECT_THAT(warnings_, IsEmpty());
  Pass(absl::Milliseconds(1));
  EXPECT_TRUE(session->accepted);
  ASSERT_THAT(Feed(session, 1), IsOk());
  EXPECT_THAT(Read(), ElementsAre(1));
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("the feed unknown brings no rows"),
                                           HasSubstr("the feed f1"))));
}

TEST_F(FeedTurnTest, WhatComesLateOfAFeedIsReadAfterTheOneThatGotItsTurn) {
  const SessionPtr late = Open("late");
  Collect();
  const SessionPtr session = Open("f1");
  Ask();
  Pass(kTurnPatience);
  ASSERT_THAT(Feed(late, 7), IsOk());
  ASSERT_THAT(Feed(session, 1), IsOk());
  EXPECT_THAT(Read(), ElementsAre(1));
  ASSERT_THAT(core_->EndPartition(session, 1), IsOk());
  core_->FeedEnd("f1", /*aborted=*/false);
  EXPECT_THAT(Next(), ElementsAre(7));
}

// Rows that were collected for the program are a batch of their own: it spans no two feeds.
TEST_F(FeedTurnTest, AFeedThatHasBegunAndStandsStillLosesItsTurnToo) {
  const SessionPtr begun = Open("begun");
  Collect();
  ASSERT_THAT(Feed(begun, 7), IsOk());
  const SessionPtr session = Open("f1");
  Ask(/*rows=*/4);
  Pass(kTurnPatience);
  ASSERT_THAT(Feed(session, 1), IsOk());
  EXPECT_THAT(Read(), ElementsAre(7));
  EXPECT_THAT(Next(), ElementsAre(1));
}

TEST_F(FeedTurnTest, AFeedWhoseSessionsAreOverAndThatIsNotEndedLosesItsTurn) {
  const SessionPtr over = Open("over");
  Collect();
  ASSERT_THAT(Feed(over, 7), IsOk());
  ASSERT_THAT(core_->EndPartition(over, 1), IsOk());
  const SessionPtr session = Open("f1");
  EXPECT_THAT(Next(), ElementsAre(7));
  Ask();
  Pass(kTurnPatience);
  ASSERT_THAT(Feed(session, 1), IsOk());
  EXPECT_THAT(Read(), ElementsAre(1));
}

TEST_F(FeedTurnTest, AFeedThatGoesOnKeepsItsTurn) {
  const SessionPtr slow = Open("slow");
  const SessionPtr session = Open("f1");
  for (int64_t i = 0; i < 5; ++i) {
    Ask();
    Pass(kTurnPatience - absl::Seconds(1));
    ASSERT_THAT(Feed(slow, i), IsOk());
    EXPECT_THAT(Read(), ElementsAre(i));
  }
  EXPECT_FALSE(session->accepted);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(FeedTurnTest, AFeedKeepsItsTurnWhileTheProgramDoesNotAsk) {
  Open("slow");
  const SessionPtr session = Open("f1");
  for (int i = 0; i < 5; ++i) Pass(kTurnPatience);
  EXPECT_FALSE(session->accepted);
}

TEST_F(FeedTurnTest, AFeedThatIsAloneKeepsItsTurn) {
  const SessionPtr slow = Open("slow");
  Ask();
  for (int i = 0; i < 5; ++i) Pass(kTurnPatience);
  ASSERT_THAT(Feed(slow, 1), IsOk());
  EXPECT_THAT(Read(), ElementsAre(1));
  EXPECT_THAT(warnings_, IsEmpty());
}

// What it was promised before it keeps; but nothing that it needs goes before what will be read.
TEST_F(FeedTurnTest, AFeedWithoutTheTurnGetsNoMoreCredit) {
  const SessionPtr unknown = Open("unknown");
  const SessionPtr session = Open("f1");
  Ask();
  Pass(kTurnPatience);
  ASSERT_THAT(core_->Block(unknown, kBudget), IsOk());
  ASSERT_THAT(core_->Block(session, kBudget), IsOk());
  Collect();
  EXPECT_TRUE(unknown->blocked());
  EXPECT_FALSE(session->blocked());
  ASSERT_THAT(Feed(session, 1, kBudget), IsOk());
  EXPECT_THAT(Read(), ElementsAre(1));
}

// It has said what it needs, and got it: that is not what the program waits for.
TEST_F(FeedTurnTest, WhatAFeedWithoutTheTurnDoesNotSendStarvesNobody) {
  const SessionPtr unknown = Open("unknown");
  Collect();
  ASSERT_THAT(core_->Block(unknown, kBudget), IsOk());
  Collect();
  ASSERT_FALSE(unknown->blocked());
  const SessionPtr session = Open("f1");
  Ask();
  Pass(kTurnPatience);
  ASSERT_THAT(core_->Block(session, kBudget), IsOk());
  Pass(absl::Milliseconds(100));
  EXPECT_FALSE(session->blocked());
  ASSERT_THAT(Feed(session, 1, kBudget), IsOk());
  EXPECT_THAT(Read(), ElementsAre(1));
}

}  // namespace
}  // namespace millrace
