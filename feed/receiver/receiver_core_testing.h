// File: feed/receiver/receiver_core_testing.h
//
// What tests of the node's side without sockets have in common: a ReceiverCore with two queues and
// a clock that stands still, sessions, and the frames that are due as text. Test only.
//
// Defines: ReceiverCoreTest, kBudget. Rows() and Values() are in receiver_rows_testing.h, included
// here.

#ifndef FEED_RECEIVER_RECEIVER_CORE_TESTING_H_
#define FEED_RECEIVER_RECEIVER_CORE_TESTING_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "feed/receiver/data_feed.h"
#include "feed/receiver/receive_session.h"
#include "feed/receiver/receiver_core.h"
#include "feed/receiver/receiver_rows_testing.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"

namespace millrace {

inline constexpr int64_t kBudget = 8000;

class ReceiverCoreTest : public testing::Test {
 protected:
  using SessionPtr = ReceiverCore::SessionPtr;

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
                            ": ", DecodeError(frame.metadata)->message,
                            DecodeError(frame.metadata)->program_ended ? " (program_ended)" : "");
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

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVER_CORE_TESTING_H_
