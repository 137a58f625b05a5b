// A ReceiveQueue of a program that had used some rows before it was started.

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_queue_testing.h"
#include "feed/receiver/receive_session.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ResumedQueueTest : public ReceiveQueueTest {
 protected:
  ResumedQueueTest() { queue_.SetMode(FeedMode::kTrain); }

  void Resume(std::vector<FeedRows> rows) { ASSERT_THAT(queue_.Resume({"f1", rows}), IsOk()); }
};

TEST_F(ResumedQueueTest, APositionHasWhatNextBatchHasReturned) {
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 6), IsOk());
  ASSERT_THAT(Feed(b, 6), IsOk());
  EXPECT_THAT(Next(4), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(queue_.Position().feed_id, "f1");
  EXPECT_THAT(queue_.Position().rows, ElementsAre(FeedRows{0, 0, 0, 4}));
  EXPECT_THAT(Next(4), ElementsAre(4, 5, 1000, 1001));
  EXPECT_THAT(queue_.Position().rows, ElementsAre(FeedRows{0, 0, 0, 6}, FeedRows{0, 1, 0, 2}));
  queue_.Fail(b.get(), absl::UnavailableError("gone"));
  EXPECT_THAT(queue_.Position().rows, ElementsAre(FeedRows{0, 0, 0, 6}, FeedRows{0, 1, 0, 2}));
}

TEST_F(ResumedQueueTest, RowsThatWereUsedAreLeftOutOfABatch) {
  Resume({{0, 0, 0, 2}, {0, 0, 4, 5}, {0, 0, 8, 10}});
  SessionPtr a = Train(0);
  FeedAll(a, 10);
  EXPECT_THAT(Next(3), ElementsAre(2, 3, 5));
  EXPECT_THAT(Next(2), ElementsAre(6, 7));
  EXPECT_EQ(a->used_row, 6);
  EXPECT_THAT(Next(2), IsEmpty());
  EXPECT_TRUE(queue_.FinishIfDone(a.get()));
  EXPECT_EQ(*DecodeDone(a->final->second), (DoneFrame{.rows_in = 10, .rows_out = 0}));
  EXPECT_EQ(a->released_bytes, 100);
}

TEST_F(ResumedQueueTest, APartitionThatWasUsedIsDoneAtOnce) {
  Resume({{0, 0, 0, 10}});
  SessionPtr a = Train(0), b = Train(1);
  FeedAll(a, 10);
  FeedAll(b, 3);
  EXPECT_THAT(Next(3), ElementsAre(1000, 1001, 1002));
  EXPECT_EQ(a->released_bytes, 100);
  EXPECT_TRUE(queue_.FinishIfDone(a.get()));
  EXPECT_THAT(queue_.Position().rows, ElementsAre(FeedRows{0, 0, 0, 10}, FeedRows{0, 1, 0, 3}));
}

TEST_F(ResumedQueueTest, RowsBehindAPieceCountAsUsedOnlyWithIt) {
  Resume({{0, 0, 2, 4}});
  SessionPtr a = Train(0);
  ASSERT_THAT(Feed(a, 2), IsOk());
  ASSERT_THAT(Feed(a, 2), IsOk());
  EXPECT_EQ(AskFor(3), State::kWait) << "one row is missing";
  EXPECT_EQ(a->used_row, 0);
  EXPECT_EQ(a->handed.row(), 0);
  ASSERT_THAT(Feed(a, 2), IsOk());
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(0, 1, 4));
  EXPECT_EQ(a->used_row, 0);
  EXPECT_THAT(Next(1), ElementsAre(5));
  EXPECT_EQ(a->used_row, 5);
}

TEST_F(ResumedQueueTest, AShortTailTakesWhatIsBehindItAlong) {
  Resume({{0, 0, 2, 4}});
  SessionPtr a = Train(0);
  ASSERT_THAT(Feed(a, 2), IsOk());
  FeedAll(a, 2);
  queue_.FeedEnd("f1", false);
  EXPECT_THAT(Next(3), ElementsAre(0, 1));
  EXPECT_EQ(a->handed.row(), 4);
  EXPECT_THAT(Next(3), IsEmpty());
  EXPECT_TRUE(queue_.FinishIfDone(a.get()));
}

TEST_F(ResumedQueueTest, ALaterCallIsReadInFull) {
  Resume({{0, 0, 0, 2}});
  SessionPtr a = Train(0, "f1");
  FeedAll(a, 3);
  queue_.FeedEnd("f1", false);
  EXPECT_THAT(Next(4), ElementsAre(2));
  SessionPtr b = Train(0, "f2");
  FeedAll(b, 3);
  EXPECT_THAT(Next(3), ElementsAre(0, 1, 2));
  EXPECT_EQ(queue_.Position().feed_id, "f2");
  EXPECT_THAT(queue_.Position().rows, ElementsAre(FeedRows{0, 0, 0, 3}));
}

// Whatever the batches, and wherever one program stops: two together have each row once.
TEST(ResumedQueuePropertyTest, AProgramThatGoesOnHasEachRowThatTheOneBeforeHadNot) {
  class Program : public ReceiveQueueTest {
   public:
    // Reads at most `batches`, of partitions of these sizes.
    std::vector<int64_t> Read(const std::vector<int64_t>& partitions, int batches,
                              std::mt19937* random) {
      queue_.SetMode(FeedMode::kTrain);
      std::vector<SessionPtr> sessions;
      for (size_t i = 0; i < partitions.size(); ++i) {
        sessions.push_back(Train(static_cast<int64_t>(i)));
        while (sessions[i]->next_row < partitions[i]) {
          const int64_t left = partitions[i] - sessions[i]->next_row;
          EXPECT_THAT(Feed(sessions[i], 1 + static_cast<int64_t>((*random)() % left)), IsOk());
        }
        EXPECT_THAT(queue_.EndPartition(sessions[i].get(), partitions[i]), IsOk());
      }
      queue_.FeedEnd("f1", false);
      std::vector<int64_t> all;
      for (int i = 0; i < batches; ++i) {
        const std::vector<int64_t> rows = Next(1 + static_cast<int64_t>((*random)() % 7));
        all.insert(all.end(), rows.begin(), rows.end());
        if (!rows.empty()) continue;
        for (const SessionPtr& session : sessions) {
          EXPECT_TRUE(queue_.FinishIfDone(session.get()) || Final(session) == FrameType::kDone);
          EXPECT_EQ(session->released_bytes, session->received_bytes);
        }
      }
      return all;
    }
    FeedPosition Position() const { return queue_.Position(); }
    void Resume(const FeedPosition& position) { ASSERT_THAT(queue_.Resume(position), IsOk()); }
    void TestBody() override {}
  };
  std::mt19937 random(1);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<int64_t> partitions;
    std::multiset<int64_t> expected;
    partitions.resize(1 + random() % 4);
    for (size_t i = 0; i < partitions.size(); ++i) {
      partitions[i] = 1 + static_cast<int64_t>(random() % 25);
      for (int64_t row = 0; row < partitions[i]; ++row) {
        expected.insert(static_cast<int64_t>(i) * 1000 + row);
      }
    }
    std::multiset<int64_t> used;
    FeedPosition position;
    for (const int batches : {3, 3, 1000}) {
      Program program;
      program.Resume(position);
      for (const int64_t row : program.Read(partitions, batches, &random)) used.insert(row);
      position = program.Position();
    }
    ASSERT_EQ(used, expected) << "trial " << trial;
  }
}

}  // namespace
}  // namespace millrace
