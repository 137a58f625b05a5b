// Sessions that go on where a feeder that is gone left off (OPEN's `resumed`).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_queue_testing.h"
#include "feed/receiver/receive_session.h"
#include "feed/receiver/receiver_core_testing.h"
#include "feed/receiver/receiver_rows_testing.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The rows of partition 0 hold their numbers.
class TakenOverTest : public ReceiverCoreTest {
 protected:
  TakenOverTest() : feed_(GetFeed()) {}

  SessionPtr Resume(uint64_t id, int64_t first_row = 0, const std::string& feed_id = "f1") {
    return core_->Open("feeder/b", id, /*link=*/id, /*connection=*/id,
                       {.feed_id = feed_id,
                        .queue = "input",
                        .node_nonce = "nonce",
                        .first_row = first_row,
                        .resumed = true});
  }
  std::vector<int64_t> Next(int64_t rows) {
    const absl::StatusOr<Batch> batch = feed_->NextBatch(rows);
    EXPECT_THAT(batch, IsOk());
    return batch.ok() ? Values(*batch) : std::vector<int64_t>();
  }
  void End(const SessionPtr& session) {
    ASSERT_THAT(core_->EndPartition(session, session->next_row), IsOk());
  }

  const std::unique_ptr<DataFeed> feed_;
};

TEST_F(TakenOverTest, ASessionBeginsBehindWhatTheProgramWasGiven) {
  const SessionPtr first = Open(77);
  Collect();
  ASSERT_THAT(Feed(first, 10, 100), IsOk());
  EXPECT_THAT(Next(4), ElementsAre(0, 1, 2, 3));
  core_->ConnectionLost(1);
  Collect();
  const SessionPtr second = Resume(78);
  EXPECT_THAT(Due(78), ElementsAre("ACK 4", StartsWith("CREDIT ")));
  EXPECT_EQ(second->next_row, 4);
  ASSERT_THAT(Feed(second, 6, 60), IsOk());
  End(second);
  EXPECT_THAT(Next(6), ElementsAre(4, 5, 6, 7, 8, 9));
  core_->FeedEnd("f1", false);
  core_->EndFeed("input");
  EXPECT_THAT(Next(1), IsEmpty());
  EXPECT_THAT(Due(78), ElementsAre("RECEIVED 10", "ACK 10", "DONE 6/0"));
}

// A driver may be replaced before anybody has seen that its connection is lost.
TEST_F(TakenOverTest, WhatTheFeederBeforeStillHasOpenEnds) {
  const SessionPtr first = Open(77);
  Collect();
  ASSERT_THAT(Feed(first, 10, 100), IsOk());
  EXPECT_THAT(Next(4), ElementsAre(0, 1, 2, 3));
  const SessionPtr second = Resume(78);
  EXPECT_THAT(Due(77), ElementsAre(AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("another driver"))));
  EXPECT_EQ(second->next_row, 4);
  ASSERT_THAT(Feed(second, 2, 20), IsOk());
  EXPECT_THAT(Next(2), ElementsAre(4, 5)) << "rows 4 and 5 are not those of the first session";
  EXPECT_EQ(second->handed.row(), 6);
}

TEST_F(TakenOverTest, AnotherPartitionOrCallIsLeftAlone) {
  const SessionPtr other = Open(77, FeedMode::kTrain, /*partition=*/1);
  Collect();
  const SessionPtr another_call = Resume(78, 0, "f2");
  const SessionPtr second = Resume(79, 3);
  EXPECT_EQ(second->next_row, 3) << "nothing of it was given";
  EXPECT_NE(other->stage, ReceiveSession::Stage::kEnded);
  EXPECT_NE(another_call->stage, ReceiveSession::Stage::kEnded);
}

TEST_F(TakenOverTest, RowsBeforeTheOneAskedForAreNotAskedForAgain) {
  const SessionPtr first = Open(77);
  Collect();
  ASSERT_THAT(Feed(first, 4, 40), IsOk());
  EXPECT_THAT(Next(4), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(Resume(78, 2)->next_row, 4);
  EXPECT_EQ(Resume(79, 9)->next_row, 9);
}

// The program has the last rows in hand: it has not used them before it asks again.
TEST_F(TakenOverTest, APartitionIsDoneOnceTheProgramHasUsedWhatItHadInHand) {
  const SessionPtr first = Open(77);
  Collect();
  ASSERT_THAT(Feed(first, 4, 40), IsOk());
  EXPECT_THAT(Next(4), ElementsAre(0, 1, 2, 3));
  for (uint64_t id = 78; id < 81; ++id) {  // one driver after the other
    core_->ConnectionLost(id - 1);
    const SessionPtr next = Resume(id);
    EXPECT_THAT(Due(id), ElementsAre("ACK 4", StartsWith("CREDIT ")));
    End(next);
    EXPECT_THAT(Due(id), ElementsAre("RECEIVED 4")) << "and not DONE";
  }
  core_->FeedEnd("f1", false);
  core_->EndFeed("input");
  EXPECT_THAT(Next(1), IsEmpty());
  EXPECT_THAT(Due(80), ElementsAre("DONE 0/0"));
}

// All rows had come, the feed had ended, and the program had read some.
TEST_F(TakenOverTest, WhatWasReceivedInAFeedThatHasEndedIsFedInTheNext) {
  const SessionPtr first = Open(77);
  Collect();
  ASSERT_THAT(Feed(first, 10, 100), IsOk());
  End(first);
  core_->FeedEnd("f1", false);
  EXPECT_THAT(Next(3), ElementsAre(0, 1, 2));
  core_->ConnectionLost(1);
  const SessionPtr second = Resume(78, 0, "f1.1");
  EXPECT_THAT(Due(78), ElementsAre("ACK 3", StartsWith("CREDIT ")));
  ASSERT_THAT(Feed(second, 7, 70), IsOk());
  End(second);
  core_->FeedEnd("f1.1", false);
  EXPECT_THAT(Next(20), ElementsAre(3, 4, 5, 6, 7, 8, 9));
}

TEST_F(TakenOverTest, AProgramThatReadsNoMoreSaysWhatItUsed) {
  const SessionPtr first = Open(77);
  Collect();
  ASSERT_THAT(Feed(first, 10, 100), IsOk());
  EXPECT_THAT(Next(4), ElementsAre(0, 1, 2, 3));
  ASSERT_THAT(feed_->Terminate(), IsOk());
  core_->ConnectionLost(1);
  Collect();
  Resume(78);
  EXPECT_THAT(Due(78), ElementsAre("ACK 4", "TERMINATED"));
}

// Whatever the batches, and whenever drivers die: the program has each row once.
TEST(TakenOverPropertyTest, EachRowIsGivenOnce) {
  class Node : public ReceiveQueueTest {
   public:
    std::multiset<int64_t> Run(const std::vector<int64_t>& partitions, int seed) {
      std::mt19937 random(seed);
      std::multiset<int64_t> given;
      queue_.SetMode(FeedMode::kTrain);
      std::vector<bool> done(partitions.size());
      int round = 0;
      for (int driver = 0; std::count(done.begin(), done.end(), false) > 0; ++driver) {
        const std::string feed = round == 0 ? "f1" : "f1." + std::to_string(round);
        std::vector<SessionPtr> sessions(partitions.size());
        for (size_t i = 0; i < partitions.size(); ++i) {
          if (!done[i]) sessions[i] = Take(static_cast<int64_t>(i), feed);
        }
        const bool dies = driver < 6;
        bool ended = false;
        for (int step = 0; !dies || step < 1 + static_cast<int>(random() % 40); ++step) {
          if (step == 100'000) return given;  // something is never done
          const size_t i = random() % partitions.size();
          if (random() % 3 == 0) {
            for (const int64_t row : Read(1 + static_cast<int64_t>(random() % 7))) {
              given.insert(row);
            }
          } else if (sessions[i] != nullptr && sessions[i]->stage == Stage::kServed) {
            FeedSome(sessions[i], partitions[i], &random);
          }
          bool all_here = true;
          for (size_t j = 0; j < partitions.size(); ++j) {
            if (sessions[j] == nullptr) continue;
            queue_.FinishIfDone(sessions[j].get());
            done[j] = done[j] || Final(sessions[j]) == FrameType::kDone;
            all_here = all_here && sessions[j]->end_row.has_value();
          }
          if (all_here && !ended) {
            ended = true;
            ++round;
            queue_.FeedEnd(feed, false);
          }
          if (std::count(done.begin(), done.end(), false) == 0) break;
        }
        for (const SessionPtr& session : sessions) {  // unless nobody has noticed yet
          if (session != nullptr && session->stage != Stage::kEnded && random() % 2 == 0) {
            queue_.Disconnect(session.get(), absl::UnavailableError("gone"));
          }
        }
      }
      return given;
    }
    void TestBody() override {}

   private:
    // What the program gets; it waits as long as that is nothing.
    std::vector<int64_t> Read(int64_t rows) {
      if (!queue_.asking()) return Next(rows);
      return queue_.Fill() == State::kReady ? TakeAll() : std::vector<int64_t>();
    }
    SessionPtr Take(int64_t partition, const std::string& feed) {
      OpenFrame open{.feed_id = feed, .queue = "input", .partition = partition, .resumed = true};
      std::vector<SessionPtr> before = queue_.TakeOver(&open);
      auto session = std::make_shared<ReceiveSession>(next_id_++, "feeder/b", 1, 1, open);
      session->before = std::move(before);
      queue_.Add(session);
      return session;
    }
    void FeedSome(const SessionPtr& session, int64_t rows, std::mt19937* random) {
      session->accepted = true;
      session->credit_sent = {.limit = 1'000'000};
      const int64_t left = rows - session->next_row;
      if (left > 0) {
        EXPECT_THAT(Feed(session, 1 + static_cast<int64_t>((*random)() % left)), IsOk());
      } else {
        EXPECT_THAT(queue_.EndPartition(session.get(), rows), IsOk());
      }
    }
  };
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> partitions(1 + random() % 4);
    std::multiset<int64_t> expected;
    for (size_t i = 0; i < partitions.size(); ++i) {
      partitions[i] = static_cast<int64_t>(random() % 25);
      for (int64_t row = 0; row < partitions[i]; ++row) {
        expected.insert(static_cast<int64_t>(i) * 1000 + row);
      }
    }
    Node node;
    ASSERT_EQ(node.Run(partitions, trial), expected) << "trial " << trial;
  }
}

}  // namespace
}  // namespace millrace
