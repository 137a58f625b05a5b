// The node's side without sockets: what goes out for what comes in, and DataFeed on top of it.

#include "feed/receiver/receiver_core.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/receiver/data_feed.h"
#include "feed/receiver/receive_session.h"
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
constexpr absl::Duration kReportInterval = absl::Milliseconds(20);  // as receiver_core.cc has it

RecordBatch Rows(int64_t first, int64_t rows) {
  std::vector<int64_t> values;
  for (int64_t r = first; r < first + rows; ++r) values.push_back(r);
  return *BatchBuilder().AddColumn("id", std::move(values)).Build();
}

std::vector<int64_t> Values(const Batch& batch) {
  if (batch.empty()) return {};
  const auto column = batch.column<int64_t>("id");
  return {column.begin(), column.end()};
}

class ReceiverCoreTest : public testing::Test {
 protected:
  SessionPtr Open(uint64_t id, FeedMode mode = FeedMode::kTrain, int64_t partition = 0,
                  std::string principal = "feeder/a") {
    return core_->Open(principal, id, /*link=*/1, /*connection=*/1,
                       {.feed_id = "f1",
                        .queue = "input",
                        .mode = mode,
                        .partition = partition,
                        .node_nonce = "nonce",
                        .result_limit = result_limit_});
  }
  absl::Status Feed(const SessionPtr& session, int64_t rows, int64_t bytes) {
    const int64_t first = session->next_row;
    return core_->AddRows(session, {.rows = Rows(first, rows), .first_row = first, .bytes = bytes});
  }
  // The session says what its next BATCH needs, and gets it.
  void Grant(const SessionPtr& session, int64_t bytes) {
    ASSERT_THAT(core_->Block(session, session->received_bytes + bytes), IsOk());
    Collect();
    ASSERT_FALSE(session->blocked());
  }
  std::unique_ptr<DataFeed> GetFeed(bool train = true, InputMapping mapping = {}) {
    const FeedMode mode = train ? FeedMode::kTrain : FeedMode::kInference;
    const absl::StatusOr<size_t> queue = core_->OpenReader("input", mode);
    EXPECT_THAT(queue, IsOk());
    return MakeDataFeed(core_, *queue,
                        DataFeedOptions{.train_mode = train, .input_mapping = std::move(mapping)});
  }
  // "CREDIT 100/20", "ACK 5": the frames due for a session.
  std::vector<std::string> Due(uint64_t session) {
    std::vector<std::string> out;
    for (const OutgoingFrame& frame : Collect()) {
      if (frame.header.session == session) out.push_back(Text(frame));
    }
    return out;
  }
  std::vector<OutgoingFrame> Collect() {
    ReceiverCore::Turn turn = core_->Collect();
    for (const OutgoingFrame& frame : turn.frames) {
      EXPECT_EQ(frame.header.seq, seqs_[frame.header.session]++) << Text(frame);
      if (frame.header.type == FrameType::kCredit) {
        const CreditFrame credit = *DecodeCredit(frame.metadata);
        EXPECT_GE(credit.limit, credit.released) << Text(frame);
      }
    }
    next_ = turn.next;
    return std::move(turn.frames);
  }
  static std::string Text(const OutgoingFrame& frame) {
    const std::string name = FrameTypeName(frame.header.type);
    switch (frame.header.type) {
      case FrameType::kCredit: {
        const CreditFrame credit = *DecodeCredit(frame.metadata);
        return absl::StrCat(name, " ", credit.limit, "/", credit.released);
      }
      case FrameType::kReceived:
      case FrameType::kAck:
      case FrameType::kRevoked:
        return absl::StrCat(name, " ", DecodeRow(frame.metadata)->row);
      case FrameType::kDone: {
        const DoneFrame done = *DecodeDone(frame.metadata);
        return absl::StrCat(name, " ", done.rows_in, "/", done.rows_out);
      }
      case FrameType::kWait: {
        const WaitFrame wait = *DecodeWait(frame.metadata);
        return absl::StrCat(name, " ", wait.position);
      }
      case FrameType::kResult: {
        const BatchPrefix prefix = *DecodeBatchPrefix(frame.metadata);
        return absl::StrCat(name, " ", prefix.first_row, "+", prefix.rows);
      }
      case FrameType::kError:
        return absl::StrCat(name, " ", absl::StatusCodeToString(DecodeError(frame.metadata)->code),
                            ": ", DecodeError(frame.metadata)->message);
      default:
        return name;
    }
  }
  std::shared_ptr<ReceiverCore> NewCore() {
    return std::make_shared<ReceiverCore>(ReceiverCore::Options{.node_name = "worker:0",
                                                                .nonce = "nonce",
                                                                .queues = {"input", "control"},
                                                                .budget_bytes = kBudget,
                                                                .clock = &clock_},
                                          [this] { ++wakes_; });
  }
  int64_t Committed() { return core_->stats().committed_bytes; }

  int64_t result_limit_ = 1 << 20;  // of the next Open()
  FakeClock clock_;
  std::atomic<int> wakes_{0};
  std::shared_ptr<ReceiverCore> core_ = NewCore();
  std::map<uint64_t, uint64_t> seqs_;
  absl::Duration next_;
};

// ----------------------------------------------------------------------------------------- OPEN

TEST_F(ReceiverCoreTest, WhoComesAfterTheEndLearnsHowItWas) {
  ASSERT_THAT(core_->Finish(absl::OkStatus()), IsOk());
  Open(1);
  EXPECT_THAT(Due(1), ElementsAre("TERMINATED"));
  EXPECT_EQ(Open(2, FeedMode::kInference), nullptr);
  EXPECT_THAT(Due(2), ElementsAre("ERROR FAILED_PRECONDITION: worker:0 is exiting"));
}

TEST_F(ReceiverCoreTest, WhoComesAfterAFailureIsRefused) {
  ASSERT_THAT(core_->Finish(absl::InternalError("loss is NaN")), IsOk());
  EXPECT_EQ(Open(1), nullptr);
  EXPECT_THAT(Due(1), ElementsAre("ERROR FAILED_PRECONDITION: worker:0 is exiting"));
}

TEST_F(ReceiverCoreTest, AnotherNonceIsFailedPrecondition) {
  EXPECT_EQ(core_->Open("feeder/a", 5, 1, 1, {.queue = "input", .node_nonce = "other"}), nullptr);
  EXPECT_THAT(Due(5), ElementsAre(HasSubstr("ERROR FAILED_PRECONDITION")));
}

TEST_F(ReceiverCoreTest, AnUnknownQueueIsNotFoundAndNamesThoseThereAre) {
  EXPECT_EQ(core_->Open("feeder/a", 5, 1, 1, {.queue = "inptu", .node_nonce = "nonce"}), nullptr);
  EXPECT_THAT(Due(5), ElementsAre("ERROR NOT_FOUND: no queue \"inptu\" at worker:0; there are: "
                                  "input, control"));
}

TEST_F(ReceiverCoreTest, AnUnknownQueueOfTheProgramIsNotFound) {
  EXPECT_THAT(core_->OpenReader("inptu", FeedMode::kTrain),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("input, control")));
}

TEST_F(ReceiverCoreTest, AFloodOfSessionsIsResourceExhausted) {
  for (uint64_t id = 1; id <= 4096; ++id) ASSERT_NE(Open(id), nullptr);
  EXPECT_EQ(Open(5000), nullptr);
  EXPECT_NE(Open(5001, FeedMode::kTrain, 0, "feeder/b"), nullptr);
  EXPECT_THAT(Due(5000), ElementsAre(HasSubstr("RESOURCE_EXHAUSTED")));
}

// ----------------------------------------------------------------------------------------- WAIT

TEST_F(ReceiverCoreTest, WaitComesAtOnceAndEachSecond) {
  Open(1);
  EXPECT_THAT(Due(1), ElementsAre("WAIT 1"));
  EXPECT_EQ(next_, absl::Seconds(1));
  EXPECT_THAT(Due(1), IsEmpty());
  clock_.Advance(absl::Milliseconds(999));
  EXPECT_THAT(Due(1), IsEmpty());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_THAT(Due(1), ElementsAre("WAIT 1"));
}

// ----------------------------------------------------------------------------------------- REVOKE

TEST_F(ReceiverCoreTest, RevokedNamesTheRowAndDoneComesWhenTheRowsBeforeItAreUsed) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 6, 100), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  ASSERT_THAT(core_->Revoke(a, 6), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("REVOKED 2"));
  EXPECT_THAT(Due(1), IsEmpty());
  SessionPtr b = Open(2, FeedMode::kTrain, 1);
  Collect();
  ASSERT_THAT(Feed(b, 2, 100), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1)) << "those of the other partition";
  EXPECT_THAT(Due(1), ElementsAre("ACK 2", "DONE 2/0"));
}

TEST_F(ReceiverCoreTest, APartitionThatNobodyBeganIsDoneWithNoRows) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 6, 100), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 6), IsOk());
  ASSERT_THAT(core_->Revoke(a, 0), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("REVOKED 0", "DONE 0/0"));
}

// Slices of the batch in hand are made without a lock; no row may be both used and given back.
TEST_F(ReceiverCoreTest, RevokeWhileTheProgramReadsLeavesNoRowTwiceOrMissing) {
  constexpr int64_t kRows = 2000;
  for (uint64_t round = 1; round <= 200; ++round) {
    SessionPtr session = Open(round, FeedMode::kTrain, static_cast<int64_t>(round));
    auto feed = GetFeed();
    Collect();
    ASSERT_THAT(Feed(session, kRows, 400), IsOk());
    ASSERT_THAT(core_->EndPartition(session, kRows), IsOk());
    std::atomic<int64_t> seen{0};
    Thread program("program", [&] {
      while (true) {
        const absl::StatusOr<Batch> batch = feed->NextBatch(1);
        if (!batch.ok() || batch->empty()) return;
        if (Values(*batch).front() >= kRows) return;  // the last one, below
        seen.fetch_add(1);
      }
    });
    while (seen.load() < static_cast<int64_t>(round)) {
    }
    ASSERT_THAT(core_->Revoke(session, kRows), IsOk());
    const int64_t given_back_from = session->revoked ? *session->end_row : kRows;
    SessionPtr last = Open(100000 + round, FeedMode::kTrain, 0);
    Collect();
    ASSERT_THAT(core_->AddRows(last, {.rows = Rows(kRows, 1), .first_row = 0, .bytes = 10}),
                IsOk());
    program.Join();
    EXPECT_EQ(seen.load(), given_back_from) << "round " << round;
    core_->Abort(last);
    Collect();
  }
}

// --------------------------------------------------------------------------------------- Credit

TEST_F(ReceiverCoreTest, AQuarterOfTheBudgetIsPromisedAheadOfNeed) {
  auto feed = GetFeed();
  SessionPtr first = Open(1);
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 500/0"));
  for (uint64_t id = 2; id <= 4; ++id) Open(id);
  EXPECT_THAT(Due(4), ElementsAre("CREDIT 500/0"));
  Open(5);
  EXPECT_THAT(Due(5), ElementsAre("CREDIT 0/0")) << "accepted, but the quarter is promised";
  ASSERT_THAT(Feed(first, 1, 450), IsOk());
  EXPECT_THAT(Due(5), ElementsAre("CREDIT 400/0")) << "an equal part of it";
}

TEST_F(ReceiverCoreTest, CreditMovesByQuartersOfAPart) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 1, 100), IsOk());
  EXPECT_THAT(Due(1), IsEmpty()) << "100 bytes are no quarter of 500";
  ASSERT_THAT(Feed(a, 1, 100), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 700/0", "RECEIVED 1"));
}

TEST_F(ReceiverCoreTest, TheBudgetIsFilledAndNotExceeded) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  while (a->received_bytes + 400 <= a->credit_sent.limit) {
    ASSERT_THAT(Feed(a, 1, 400), IsOk());
    Collect();
  }
  EXPECT_EQ(a->received_bytes, kBudget);
  ASSERT_THAT(core_->Block(a, kBudget + 400), IsOk());
  EXPECT_THAT(Due(1), IsEmpty());
  ASSERT_THAT(feed->NextBatch(1), IsOk());
  EXPECT_THAT(Due(1), IsEmpty()) << "the program has the row in hand";
  ASSERT_THAT(feed->NextBatch(1), IsOk());
  clock_.Advance(kReportInterval);
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 8400/400", "RECEIVED 19", "ACK 1"));
  EXPECT_EQ(core_->stats().peak_committed_bytes, kBudget);
}

TEST_F(ReceiverCoreTest, ReadingWakesTheSocketThreadWhenCreditIsDueAndOtherwiseLeavesItAlone) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  while (a->received_bytes + 400 <= a->credit_sent.limit) {
    ASSERT_THAT(Feed(a, 2, 400), IsOk());
    Collect();
  }
  EXPECT_EQ(a->received_bytes, kBudget);
  ASSERT_THAT(core_->Block(a, kBudget + 800), IsOk());
  wakes_ = 0;
  for (int i = 0; i < 4; ++i) ASSERT_THAT(feed->NextBatch(1), IsOk());
  EXPECT_EQ(wakes_, 0) << "400 bytes are free, and 800 are needed";
  ASSERT_THAT(feed->NextBatch(1), IsOk());
  EXPECT_EQ(wakes_, 1);
}

TEST_F(ReceiverCoreTest, ABatchLargerThanTheBudgetIsRead) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  absl::StatusOr<Batch> batch;
  Notification done;
  Thread reader("reader", [&] {
    batch = feed->NextBatch(100);  // 100,000 bytes
    done.Notify();
  });
  int64_t sent = 0;
  while (!done.WaitForNotificationWithTimeout(absl::ZeroDuration())) {
    if (a->next_row < 100 && sent + 1000 <= a->credit_sent.limit) {
      ASSERT_THAT(Feed(a, 1, 1000), IsOk());
      sent += 1000;
    } else if (a->next_row < 100 && !a->blocked()) {
      ASSERT_THAT(core_->Block(a, sent + 1000), IsOk());
    }
    clock_.Advance(absl::Milliseconds(100));
    Collect();
    ASSERT_LE(Committed(), kBudget);
  }
  reader.Join();
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->num_rows(), 100);
  EXPECT_EQ(Values(*batch).back(), 99);
}

// ------------------------------------------------------------------------------ A whole session

TEST_F(ReceiverCoreTest, ATrainSessionFromOpenToDone) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 500/0"));
  ASSERT_THAT(Feed(a, 2, 100), IsOk());
  ASSERT_THAT(Feed(a, 2, 100), IsOk());
  ASSERT_THAT(Feed(a, 1, 100), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 800/0", "RECEIVED 4")) << "one frame for two batches";
  ASSERT_THAT(core_->EndPartition(a, 5), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RECEIVED 5")) << "the last batch counts once its end is here";
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  EXPECT_THAT(Due(1), IsEmpty()) << "the program may still be at work on them";
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(2, 3));
  EXPECT_THAT(Due(1), IsEmpty()) << "too soon after the frame before";
  EXPECT_LE(next_, kReportInterval);
  clock_.Advance(kReportInterval);
  EXPECT_THAT(Due(1), ElementsAre("ACK 2"));
  core_->EndFeed("input");
  EXPECT_FALSE(feed->ShouldStop());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(4));
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_THAT(Due(1), ElementsAre("ACK 5", "DONE 5/0"));
  EXPECT_EQ(core_->stats().queues[0].rows_acked, 5);
  EXPECT_EQ(core_->stats().queues[0].open_sessions, 0);
}

TEST_F(ReceiverCoreTest, AnEmptyPartitionIsReceivedAndDone) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(core_->EndPartition(a, 0), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RECEIVED 0", "DONE 0/0"));
}

TEST_F(ReceiverCoreTest, AnInferenceSessionFromOpenToDone) {
  auto feed = GetFeed(/*train=*/false);
  SessionPtr a = Open(1, FeedMode::kInference);
  Due(1);
  ASSERT_THAT(Feed(a, 3, 100), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 3), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RECEIVED 3"));
  absl::StatusOr<Batch> batch = feed->NextBatch(8);
  EXPECT_THAT(Values(*batch), ElementsAre(0, 1, 2));
  ASSERT_THAT(feed->BatchResults(Rows(10, 2)), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("SCHEMA", "RESULT 0+2"));
  ASSERT_THAT(feed->BatchResults(Rows(12, 1)), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RESULT 2+1", "ACK 3", "DONE 3/3"));
  EXPECT_EQ(core_->stats().queues[0].rows_returned, 3);
}

TEST_F(ReceiverCoreTest, BatchResultsWaitsUntilTheFeederTakesWhatCameBefore) {
  auto feed = GetFeed(/*train=*/false);
  result_limit_ = 1;  // the first result may go beyond it
  SessionPtr a = Open(1, FeedMode::kInference);
  Due(1);
  ASSERT_THAT(Feed(a, 3, 100), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 3), IsOk());
  ASSERT_THAT(feed->NextBatch(3), IsOk());
  ASSERT_THAT(feed->BatchResults(Rows(10, 1)), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RECEIVED 3", "SCHEMA", "RESULT 0+1"));

  std::atomic<bool> answered{false};
  Thread program("program", [&] {
    EXPECT_THAT(feed->BatchResults(Rows(11, 2)), IsOk());
    answered = true;
  });
  while (core_->stats().queues[0].rows_returned < 3) EXPECT_THAT(Due(1), IsEmpty());
  for (int i = 0; i < 100; ++i) EXPECT_THAT(Due(1), IsEmpty()) << "no DONE either";
  EXPECT_FALSE(answered);
  ASSERT_THAT(core_->RaiseResultLimit(a, 1 << 20), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RESULT 1+2", "ACK 3", "DONE 3/3"));
  program.Join();
  EXPECT_TRUE(answered);
}

TEST_F(ReceiverCoreTest, AnEndedSessionKeepsNoProgramWaiting) {
  auto feed = GetFeed(/*train=*/false);
  result_limit_ = 0;
  SessionPtr a = Open(1, FeedMode::kInference);
  Due(1);
  ASSERT_THAT(Feed(a, 3, 100), IsOk());
  ASSERT_THAT(feed->NextBatch(3), IsOk());
  Thread program("program", [&] { EXPECT_THAT(feed->BatchResults(Rows(0, 3)), IsOk()); });
  while (core_->stats().queues[0].rows_returned < 3) Collect();
  core_->Abort(a);
  Collect();
  program.Join();
}

TEST_F(ReceiverCoreTest, AResultCreditThatNoFeederWouldSendIsRefused) {
  auto feed = GetFeed(/*train=*/false);
  SessionPtr a = Open(1, FeedMode::kInference);
  EXPECT_THAT(core_->RaiseResultLimit(a, 5), StatusIs(absl::StatusCode::kInvalidArgument));
  SessionPtr b = Open(2);
  EXPECT_THAT(core_->RaiseResultLimit(b, 1 << 30),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("training")));
}

TEST_F(ReceiverCoreTest, ResultsKeepOneSchema) {
  auto feed = GetFeed(/*train=*/false);
  SessionPtr a = Open(1, FeedMode::kInference);
  Due(1);
  ASSERT_THAT(Feed(a, 3, 100), IsOk());
  ASSERT_THAT(feed->NextBatch(3), IsOk());
  ASSERT_THAT(feed->BatchResults(Rows(0, 1)), IsOk());
  const RecordBatch other = *BatchBuilder().AddColumn("id", std::vector<float>{1}).Build();
  EXPECT_THAT(feed->BatchResults(other), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(feed->BatchResults(Rows(0, 2)), IsOk());
}

// Both at once, which DataFeed allows: ThreadSanitizer looks at what encoding reads meanwhile.
TEST_F(ReceiverCoreTest, RowsMayBeGivenUpWhileTheirResultsAreEncoded) {
  BatchBuilder columns;  // many, so that it takes a while
  for (int i = 0; i < 1000; ++i) {
    columns.AddColumn(absl::StrCat("c", i), std::vector<int64_t>{i});
  }
  const RecordBatch answer = *columns.Build();
  for (int round = 0; round < 20; ++round) {
    core_ = NewCore();
    seqs_.clear();
    auto feed = GetFeed(/*train=*/false);
    SessionPtr a = Open(1, FeedMode::kInference);
    Due(1);
    ASSERT_THAT(Feed(a, 1, 100), IsOk());
    ASSERT_THAT(core_->EndPartition(a, 1), IsOk());
    ASSERT_THAT(feed->NextBatch(1), IsOk());
    Thread results("results", [&] { feed->BatchResults(answer).IgnoreError(); });  // too late
    Thread next("next", [&] { EXPECT_THAT(feed->NextBatch(1), IsOk()); });
    results.Join();
    core_->EndAllFeeds();
    next.Join();
    EXPECT_THAT(Due(1).back(), testing::AnyOf("DONE 1/1", HasSubstr("row 0 is unanswered")));
  }
}

TEST_F(ReceiverCoreTest, ExitAcknowledgesWhatWasHandedOutAndTerminatesTheRest) {
  auto feed = GetFeed();
  SessionPtr a = Open(1), b = Open(2, FeedMode::kTrain, 1);
  Collect();
  ASSERT_THAT(Feed(a, 2, 100), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 2), IsOk());
  ASSERT_THAT(Feed(b, 2, 100), IsOk());
  Collect();
  EXPECT_THAT(Values(*feed->NextBatch(3)), ElementsAre(0, 1, 0));
  ASSERT_THAT(core_->Finish(absl::OkStatus()), IsOk());
  std::vector<std::string> of_a, of_b;
  for (const OutgoingFrame& frame : Collect()) {
    (frame.header.session == 1 ? of_a : of_b).push_back(Text(frame));
  }
  EXPECT_THAT(of_a, ElementsAre("ACK 2", "DONE 2/0"));
  EXPECT_THAT(of_b, ElementsAre("ACK 1", "TERMINATED"));
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_TRUE(feed->NextBatch(1)->empty());
  EXPECT_THAT(core_->OpenReader("input", FeedMode::kTrain),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ReceiverCoreTest, PoisonFailsEverySessionOfThatPrincipalAndNoOther) {
  auto feed = GetFeed();
  Open(1);
  Open(2, FeedMode::kInference, 0, "feeder/a");
  Open(3, FeedMode::kTrain, 1, "feeder/b");
  Collect();
  core_->Poison("feeder/a", absl::InvalidArgumentError("bad"));
  std::vector<std::string> all;
  for (const OutgoingFrame& frame : Collect()) {
    all.push_back(absl::StrCat(frame.header.session, " ", Text(frame)));
  }
  EXPECT_THAT(all, testing::IsSupersetOf(
                       {"1 ERROR INVALID_ARGUMENT: bad", "2 ERROR INVALID_ARGUMENT: bad"}));
  EXPECT_THAT(all, testing::Not(testing::Contains(HasSubstr("3 ERROR"))));
  EXPECT_EQ(core_->stats().poisoned_principals, 1);
}

TEST_F(ReceiverCoreTest, NothingIsSaidToADetachedSession) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 1, 10), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 1), IsOk());
  core_->LinkLost(1);
  EXPECT_THAT(Due(1), IsEmpty());
  EXPECT_THAT(Values(*feed->NextBatch(1)), ElementsAre(0));
  core_->EndFeed("input");
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_THAT(Due(1), IsEmpty());
  EXPECT_EQ(core_->stats().queues[0].open_sessions, 0);
  EXPECT_EQ(core_->stats().queues[0].rows_acked, 1);
}

// ------------------------------------------------------------------------------------- DataFeed

TEST_F(ReceiverCoreTest, NextBatchRefusesLessThanOneRow) {
  auto feed = GetFeed();
  EXPECT_THAT(feed->NextBatch(0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(feed->NextBatch(-1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ReceiverCoreTest, ColumnsHaveTheNamesOfTheMapping) {
  auto feed = GetFeed(true, {{"id", "x"}});
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 2, 10), IsOk());
  absl::StatusOr<Batch> batch = feed->NextBatch(2);
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->column<int64_t>("x")[1], 1);
  EXPECT_FALSE(batch->has_column("id"));
}

TEST_F(ReceiverCoreTest, AMappingOfAMissingColumnIsNotFound) {
  auto feed = GetFeed(true, {{"image", "x"}});
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 2, 10), IsOk());
  EXPECT_THAT(feed->NextBatch(2), StatusIs(absl::StatusCode::kNotFound, HasSubstr("image")));
}

TEST_F(ReceiverCoreTest, TheBatchWithoutRowsHasItsColumns) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 1, 10), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 1), IsOk());
  ASSERT_THAT(feed->NextBatch(1), IsOk());
  core_->EndAllFeeds();
  absl::StatusOr<Batch> batch = feed->NextBatch(1);
  ASSERT_THAT(batch, IsOk());
  EXPECT_TRUE(batch->empty());
  EXPECT_EQ(batch->column<int64_t>("id").size(), 0u);
}

TEST_F(ReceiverCoreTest, EndFeedWakesAWaitingNextBatchWithoutRows) {
  auto feed = GetFeed();
  EXPECT_FALSE(feed->ShouldStop());
  Thread reader("reader", [&] {
    absl::StatusOr<Batch> batch = feed->NextBatch(4);
    ASSERT_THAT(batch, IsOk());
    EXPECT_TRUE(batch->empty());
    EXPECT_TRUE(batch->column<float>("x").empty()) << "a program need not know";
    EXPECT_TRUE(feed->ShouldStop());
  });
  core_->EndFeed("input");
  reader.Join();
}

TEST_F(ReceiverCoreTest, TerminateWakesAWaitingNextBatch) {
  auto feed = GetFeed();
  Thread reader("reader", [&] { EXPECT_TRUE(feed->NextBatch(4)->empty()); });
  EXPECT_THAT(feed->Terminate(), IsOk());
  reader.Join();
  EXPECT_TRUE(feed->ShouldStop());
  Open(1);
  EXPECT_THAT(Due(1), ElementsAre("TERMINATED"));
}

TEST_F(ReceiverCoreTest, ABrokenReceiverIsAnErrorAndNotAnEnd) {
  auto feed = GetFeed();
  core_->Break(absl::InternalError("no sockets"));
  EXPECT_FALSE(feed->ShouldStop());
  EXPECT_THAT(feed->NextBatch(1), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(ReceiverCoreTest, ANewDataFeedGoesOnWhereTheOldOneStopped) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 6, 10), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  auto second = GetFeed();
  feed.reset();
  EXPECT_THAT(Values(*second->NextBatch(2)), ElementsAre(2, 3));
  EXPECT_THAT(Values(*second->NextBatch(2)), ElementsAre(4, 5));
}

TEST_F(ReceiverCoreTest, RowsInHandAreNotReturnedOnceTheirSessionHasFailed) {
  auto feed = GetFeed(/*train=*/false);
  SessionPtr a = Open(1, FeedMode::kInference), b = Open(2, FeedMode::kInference, 1);
  Collect();
  ASSERT_THAT(Feed(a, 4, 10), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  core_->Fail(a, absl::UnavailableError("gone"));
  Collect();
  ASSERT_THAT(core_->AddRows(b, {.rows = Rows(70, 2), .bytes = 10}), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(70, 71));
  EXPECT_EQ(a->handed.row(), 2);
  ASSERT_THAT(feed->BatchResults(Rows(0, 2)), IsOk()) << "for the lost rows";
  ASSERT_THAT(feed->BatchResults(Rows(0, 2)), IsOk());
  EXPECT_EQ(b->result_row, 2);
}

TEST_F(ReceiverCoreTest, TheEndIsNotSeenBeforeTheRowsInHandAreRead) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  ASSERT_THAT(Feed(a, 4, 10), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 4), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  core_->EndFeed("input");
  EXPECT_FALSE(feed->ShouldStop());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(2, 3));
  EXPECT_TRUE(feed->ShouldStop());
}

TEST_F(ReceiverCoreTest, AQueueIsReadInOneModeAtATime) {
  auto feed = GetFeed();
  EXPECT_THAT(core_->OpenReader("input", FeedMode::kInference),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(core_->OpenReader("control", FeedMode::kInference), IsOk());
  core_->EndFeed("input");
  auto serve = GetFeed(/*train=*/false);
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_FALSE(serve->ShouldStop());
  SessionPtr a = Open(1, FeedMode::kInference);
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 500/0"));
  Open(2);
  EXPECT_THAT(Due(2), ElementsAre("TERMINATED"));
}

TEST_F(ReceiverCoreTest, ADestroyedDataFeedMakesRoomForTheOtherMode) {
  GetFeed().reset();
  EXPECT_THAT(core_->OpenReader("input", FeedMode::kInference), IsOk());
}

TEST_F(ReceiverCoreTest, ResultsInTrainingAreAnError) {
  auto feed = GetFeed();
  EXPECT_THAT(feed->BatchResults(Rows(0, 1)), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ReceiverCoreTest, RowsSurviveABusyReaderAndABusySender) {
  auto feed = GetFeed();
  SessionPtr a = Open(1), b = Open(2, FeedMode::kTrain, 1);
  Collect();
  constexpr int64_t kRows = 20'000;
  int64_t sum = 0, rows = 0;
  Thread reader("reader", [&] {
    while (!feed->ShouldStop()) {
      absl::StatusOr<Batch> batch = feed->NextBatch(7);
      ASSERT_THAT(batch, IsOk());
      for (int64_t value : Values(*batch)) sum += value;
      rows += batch->num_rows();
    }
  });
  while (a->next_row < kRows || b->next_row < kRows) {
    for (const SessionPtr& s : {a, b}) {
      const int64_t n = std::min<int64_t>(1 + (s->next_row * 7) % 60, kRows - s->next_row);
      if (n == 0 || s->blocked()) continue;
      if (s->received_bytes + n * 10 > s->credit_sent.limit) {
        ASSERT_THAT(core_->Block(s, s->received_bytes + n * 10), IsOk());
        continue;
      }
      ASSERT_THAT(Feed(s, n, n * 10), IsOk());
    }
    clock_.Advance(absl::Milliseconds(1));
    Collect();
    ASSERT_LE(Committed(), kBudget);
  }
  ASSERT_THAT(core_->EndPartition(a, kRows), IsOk());
  ASSERT_THAT(core_->EndPartition(b, kRows), IsOk());
  core_->FeedEnd("f1", false);
  core_->EndFeed("input");
  reader.Join();
  Collect();
  EXPECT_EQ(rows, 2 * kRows);
  EXPECT_EQ(sum, kRows * (kRows - 1));
  EXPECT_EQ(core_->stats().queues[0].rows_acked, 2 * kRows);
  EXPECT_EQ(core_->stats().queues[0].open_sessions, 0);
}

TEST_F(ReceiverCoreTest, CountsWhatWaitsAndWhereTheTimeWent) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  auto stats = [&] { return core_->stats().queues[0]; };
  EXPECT_EQ(stats().wait_time + stats().compute_time, absl::ZeroDuration());

  // Starved: the program waits until 10 rows are there.
  Thread reader("reader", [&] { EXPECT_EQ(feed->NextBatch(10)->num_rows(), 10); });
  while (stats().wait_time == absl::ZeroDuration()) clock_.Advance(absl::Milliseconds(1));
  clock_.Advance(absl::Seconds(2));
  EXPECT_GE(stats().wait_time, absl::Seconds(2));
  Grant(a, 3000);
  ASSERT_THAT(Feed(a, 10, 3000), IsOk());
  reader.Join();
  const absl::Duration waited = stats().wait_time;
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(stats().wait_time, waited);
  EXPECT_EQ(stats().compute_time, absl::Seconds(5));
  EXPECT_EQ(stats().full_time, absl::ZeroDuration());

  // Backpressured: of 8,000 bytes 6,000 are held, and another 3,000 do not fit.
  Grant(a, 3000);
  ASSERT_THAT(Feed(a, 10, 3000), IsOk());
  ASSERT_THAT(core_->Block(a, 9000), IsOk());
  Collect();
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(stats().full_time, absl::Seconds(3));
  EXPECT_EQ(stats().queued_time, absl::Seconds(3));
  EXPECT_EQ(stats().queued_rows, 10);
  EXPECT_EQ(stats().queued_bytes, 6000);
  EXPECT_EQ(stats().batches_received, 2);

  ASSERT_THAT(feed->NextBatch(10), IsOk());
  Collect();
  const absl::Duration full = stats().full_time;
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(stats().full_time, full);
  EXPECT_EQ(stats().queued_time, absl::Seconds(3));
  EXPECT_EQ(stats().queued_rows, 0);
  EXPECT_FALSE(stats().program_done);

  EXPECT_THAT(core_->Terminate(0, FeedMode::kTrain), IsOk());
  const absl::Duration computed = stats().compute_time;
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(stats().compute_time, computed);
  EXPECT_TRUE(stats().program_done);
}

}  // namespace
}  // namespace millrace
