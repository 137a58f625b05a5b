// The node's budget, whatever the number of sessions and the size of their batches: properties of
// ReceiverCore's credit under feeders that keep the rules, and stop where they please.

#include "feed/receiver/receive_budget.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

using SessionPtr = ReceiverCore::SessionPtr;

RecordBatch OneRow() { return *BatchBuilder().AddColumn("id", std::vector<int64_t>{7}).Build(); }

// A feeder's session, which sends BATCHes of one row and of the given sizes.
struct Sender {
  SessionPtr session;
  std::string queue;
  std::deque<int64_t> sizes;
  std::deque<std::string> credits;  // CREDITs under way to it
  int64_t sent = 0;
  int64_t limit = 0;
  int64_t needed = 0;
  bool accepted = false;
  bool ended = false;
  bool stalled = false;  // its source yields nothing
  int64_t waits = 0;     // WAITs that came

  [[nodiscard]] bool blocked() const { return needed > limit; }
};

class BudgetTest : public testing::Test {
 protected:
  void Begin(int64_t budget_bytes) {
    budget_bytes_ = budget_bytes;
    core_ = std::make_shared<ReceiverCore>(ReceiverCore::Options{.node_name = "worker:0",
                                                                 .nonce = "nonce",
                                                                 .queues = {"input", "other"},
                                                                 .budget_bytes = budget_bytes,
                                                                 .clock = &clock_},
                                           [] {});
  }
  Sender& Open(std::deque<int64_t> sizes, const std::string& queue = "input") {
    const uint64_t id = senders_.size() + 1;
    Sender& sender = senders_[id];
    sender.queue = queue;
    sender.session = core_->Open("feeder/a", id, /*link=*/1, /*connection=*/1,
                                 {.feed_id = "f-" + queue,
                                  .queue = queue,
                                  .partition = static_cast<int64_t>(id),
                                  .node_nonce = "nonce"});
    sender.sizes = std::move(sizes);
    return sender;
  }
  std::unique_ptr<DataFeed> GetFeed(const std::string& queue = "input") {
    const absl::StatusOr<size_t> index = core_->OpenReader(queue, FeedMode::kTrain);
    EXPECT_THAT(index, IsOk());
    return MakeDataFeed(core_, *index, DataFeedOptions{.queue = queue});
  }

  // What the node has to say is on its way.
  void Collect() {
    for (OutgoingFrame& frame : core_->Collect().frames) {
      Sender& sender = senders_.at(frame.header.session);
      if (frame.header.type == FrameType::kCredit) sender.credits.push_back(frame.metadata);
      if (frame.header.type == FrameType::kWait) ++sender.waits;
    }
  }
  // The session reads the oldest CREDIT, or sends what it may. False if there is nothing to do.
  bool Step(Sender& sender) {
    if (!sender.credits.empty()) {
      const CreditFrame credit = *DecodeCredit(sender.credits.front());
      sender.credits.pop_front();
      EXPECT_GE(credit.limit, sender.limit);
      EXPECT_LE(credit.released, sender.sent);
      sender.limit = credit.limit;
      sender.accepted = true;
      return true;
    }
    if (!sender.accepted || sender.ended || sender.stalled) return false;
    if (sender.sizes.empty()) {
      sender.ended = true;
      EXPECT_THAT(core_->EndPartition(sender.session, sender.session->next_row), IsOk());
      return true;
    }
    const int64_t size = sender.sizes.front();
    if (sender.sent + size > sender.limit) {
      if (sender.needed == sender.sent + size) return false;
      sender.needed = sender.sent + size;
      EXPECT_THAT(core_->Block(sender.session, sender.needed), IsOk());
      return true;
    }
    sender.sizes.pop_front();
    sender.sent += size;
    const int64_t first = rows_sent_[&sender]++;
    EXPECT_THAT(
        core_->AddRows(sender.session, {.rows = OneRow(), .first_row = first, .bytes = size}),
        IsOk());
    largest_ = std::max(largest_, size);
    return true;
  }
  // Bytes that the node holds now.
  int64_t Held() {
    int64_t held = 0;
    for (const FeedQueueStats& queue : core_->stats().queues) held += queue.queued_bytes;
    return held;
  }
  void Settle() {
    bool moved = true;
    while (moved) {
      Collect();
      moved = false;
      for (auto& [id, sender] : senders_) {
        while (Step(sender)) moved = true;
      }
    }
  }
  // NextBatch(1) in a thread, while everything else goes on. True if it brought a row.
  bool Read(DataFeed& feed) {
    std::atomic<bool> done{false};
    int64_t rows = 0;
    Thread reader("reader", [&] {
      const absl::StatusOr<Batch> batch = feed.NextBatch(1);
      EXPECT_THAT(batch, IsOk());
      if (batch.ok()) rows = batch->num_rows();
      done = true;
    });
    while (!done) {
      Settle();
      most_held_ = std::max(most_held_, Held());
    }
    reader.Join();
    Settle();
    most_held_ = std::max(most_held_, Held());
    return rows == 1;
  }

  FakeClock clock_;
  int64_t budget_bytes_ = 0;
  int64_t most_held_ = 0;  // in Read()
  std::shared_ptr<ReceiverCore> core_;
  std::map<uint64_t, Sender> senders_;
  std::map<const Sender*, int64_t> rows_sent_;
  int64_t largest_ = 0;
};

TEST_F(BudgetTest, ManySessionsWithOneBatchEachStayWithinTheBudget) {
  Begin(1000);
  auto feed = GetFeed();
  for (int i = 0; i < 300; ++i) Open({800});
  Settle();
  EXPECT_EQ(Held(), 800) << "the next one does not fit beside it";
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(Read(*feed));
    ASSERT_LE(most_held_, 1000) << i;
  }
  EXPECT_LE(core_->stats().peak_committed_bytes, 1000);
}

TEST_F(BudgetTest, ABatchLargerThanTheBudgetComesAlone) {
  Begin(1000);
  auto feed = GetFeed();
  Open({100, 5000, 100});
  Open({100});
  Settle();
  EXPECT_EQ(Held(), 200);
  ASSERT_THAT(feed->NextBatch(2), IsOk());
  Settle();
  EXPECT_EQ(Held(), 5000) << "the copied rows are the program's";
  ASSERT_TRUE(Read(*feed));
  EXPECT_EQ(Held(), 5000) << "nothing beside it";
}

TEST_F(BudgetTest, ALargeBatchIsNotPassedBySmallOnesForEver) {
  Begin(1000);
  auto feed = GetFeed();
  Sender& large = Open({1000});
  large.stalled = true;
  Sender& small = Open(std::deque<int64_t>(10'000, 100));
  Settle();
  ASSERT_GT(Held(), 0);
  large.stalled = false;
  Settle();
  ASSERT_TRUE(large.blocked());
  int64_t passed = 0;
  while (!large.sizes.empty()) {
    ASSERT_TRUE(Read(*feed));
    ASSERT_LT(++passed, 12) << "what was there before it, and no more";
  }
  EXPECT_FALSE(small.sizes.empty());
}

TEST_F(BudgetTest, WhoWaitsForCreditIsToldSoEachSecond) {
  Begin(1000);
  auto feed = GetFeed();
  Sender& first = Open({800, 800});
  Sender& second = Open({800});
  Settle();
  ASSERT_TRUE(second.blocked());
  EXPECT_EQ(second.waits, 0);
  clock_.Advance(absl::Seconds(1));
  Settle();
  EXPECT_EQ(second.waits, 1);
  EXPECT_EQ(first.waits, 1) << "its second one waits too";
  ASSERT_TRUE(Read(*feed));
  ASSERT_TRUE(Read(*feed));
  EXPECT_FALSE(second.blocked());
  clock_.Advance(absl::Seconds(1));
  Settle();
  EXPECT_EQ(second.waits, 1);
}

TEST_F(BudgetTest, ASessionThatEndsWhileItWaitsHoldsNobodyUp) {
  Begin(1000);
  auto feed = GetFeed();
  Open({800});
  Sender& lost = Open({900});
  Sender& next = Open({900});
  Settle();
  core_->Abort(lost.session);
  lost.ended = true;
  ASSERT_TRUE(Read(*feed));
  EXPECT_EQ(Held(), 800) << "the program has the first batch in hand";
  ASSERT_TRUE(next.blocked());
  ASSERT_TRUE(Read(*feed));
  EXPECT_TRUE(next.sizes.empty());
}

TEST_F(BudgetTest, AQueueThatIsReadGetsRowsAlthoughAnotherHoldsTheBudget) {
  Begin(1000);
  auto unread = GetFeed("other");
  auto feed = GetFeed();
  for (int i = 0; i < 20; ++i) Open({500, 500}, "other");
  Settle();
  ASSERT_EQ(Held(), 1000);
  for (int i = 0; i < 20; ++i) Open({300, 300});
  std::atomic<int> rows{0};
  Thread reader("reader", [&] {
    for (; rows < 40; ++rows) ASSERT_THAT(feed->NextBatch(1), IsOk());
  });
  while (rows < 40) {
    clock_.Advance(absl::Milliseconds(1));
    Settle();
    ASSERT_LE(Held(), 1000 + 600) << "one in hand and one beyond the budget";
  }
  reader.Join();
}

TEST_F(BudgetTest, ASourceThatStandsStillHoldsNobodyUp) {
  Begin(1000);
  auto feed = GetFeed();
  std::vector<Sender*> stalled;
  for (int i = 0; i < 5; ++i) {
    stalled.push_back(&Open({10}));
    stalled.back()->stalled = true;
  }
  Open({1000, 1000, 1000});
  std::atomic<int> rows{0};
  Thread reader("reader", [&] {
    for (; rows < 3; ++rows) ASSERT_THAT(feed->NextBatch(1), IsOk());
  });
  while (rows < 3) {
    clock_.Advance(absl::Milliseconds(10));
    Settle();
    ASSERT_LE(Held(), 1000);
  }
  for (Sender* sender : stalled) sender->stalled = false;
  Settle();
  EXPECT_LE(Held(), 1000 + 50) << "the last row in hand, and promises that were used late";
  reader.Join();
}

// Random sessions, sizes, reading and delays: memory is bounded, and everything arrives.
class RandomBudgetTest : public BudgetTest, public testing::WithParamInterface<int> {};

TEST_P(RandomBudgetTest, MemoryIsBoundedAndEverythingArrives) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const auto pick = [&](int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(random);
  };
  Begin(pick(1, 2) == 1 ? pick(1, 2000) : pick(2000, 50'000));
  const int64_t usual = pick(1, 3000);
  const int64_t sessions = pick(1, 2) == 1 ? pick(1, 4) : pick(5, 120);
  int64_t rows = 0;
  for (int64_t i = 0; i < sessions; ++i) {
    std::deque<int64_t> sizes;
    for (int64_t n = pick(0, 12); n > 0; --n) {
      sizes.push_back(pick(1, 20) == 1 ? pick(1, 20'000) : pick(1, usual));
    }
    rows += static_cast<int64_t>(sizes.size());
    Open(std::move(sizes)).stalled = pick(1, 10) == 1;
  }
  auto feed = GetFeed();
  std::atomic<int64_t> read{0};
  const uint64_t reader_seed = random();
  Thread reader("reader", [&] {
    std::mt19937_64 own(reader_seed);
    while (!feed->ShouldStop()) {
      const auto wanted = static_cast<int64_t>(1 + own() % 30);
      const absl::StatusOr<Batch> batch = feed->NextBatch(wanted);
      ASSERT_THAT(batch, IsOk());
      read += batch->num_rows();
    }
  });
  std::vector<Sender*> all;
  for (auto& [id, sender] : senders_) all.push_back(&sender);
  int64_t idle = 0;
  const auto over = [](const Sender* sender) { return sender->ended; };
  while (!std::all_of(all.begin(), all.end(), over)) {
    bool moved = false;
    for (int64_t i = pick(1, 20); i > 0; --i) {
      moved |= Step(*all[static_cast<size_t>(pick(0, sessions - 1))]);
    }
    // Sources that stood still go on once nothing else does.
    idle = moved ? 0 : idle + 1;
    if (idle > 2000) {
      for (Sender* sender : all) sender->stalled = false;
    }
    ASSERT_LT(idle, 1'000'000) << "nobody may send, and nothing is read";
    clock_.Advance(absl::Milliseconds(pick(0, 3)));
    Collect();
    // A quarter may come late, of promises that were not used in time. NextBatch's own BATCH is in
    // it.
    ASSERT_LE(Held(), std::max(budget_bytes_, largest_) + budget_bytes_ / 4);
  }
  core_->FeedEnd("f-input", /*aborted=*/false);
  core_->EndFeed("input");
  reader.Join();
  EXPECT_EQ(read, rows);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomBudgetTest, testing::Range(0, 24));

}  // namespace
}  // namespace millrace
