// File: feed/receiver/receive_queue_testing.h
//
// What tests of ReceiveQueue have in common: sessions that are fed, and a program that reads as
// DataFeed does. Test only.
//
// Defines: ReceiveQueueTest, Rows(), Values().

#ifndef FEED_RECEIVER_RECEIVE_QUEUE_TESTING_H_
#define FEED_RECEIVER_RECEIVE_QUEUE_TESTING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_matchers.h"
#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_session.h"
#include "feed/wire/frame.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"

namespace millrace {

// Row r of a partition holds the value partition * 1000 + r.
inline RecordBatch Rows(const ReceiveSession& session, int64_t first_row, int64_t rows) {
  std::vector<int64_t> values;
  for (int64_t r = first_row; r < first_row + rows; ++r) {
    values.push_back(session.open.partition * 1000 + r);
  }
  return *BatchBuilder().AddColumn("id", values).Build();
}

inline std::vector<int64_t> Values(const RecordBatch& rows) {
  const int64_t* values = rows.column(0).values<int64_t>();
  return {values, values + rows.num_rows()};
}

inline std::vector<int64_t> Values(const Delivery& delivery) {
  if (delivery.pieces.empty()) return Values(delivery.current->rows.Slice(0, delivery.rows));
  std::vector<int64_t> out;
  for (const TakenRows& piece : delivery.pieces) {
    for (int64_t value : Values(piece.rows)) out.push_back(value);
  }
  return out;
}

class ReceiveQueueTest : public testing::Test {
 protected:
  using State = ReceiveQueue::State;
  using Stage = ReceiveSession::Stage;
  using SessionPtr = ReceiveQueue::SessionPtr;

  SessionPtr Open(FeedMode mode, int64_t partition, std::string feed_id = "f1",
                  int64_t first_row = 0) {
    OpenFrame open{.feed_id = std::move(feed_id),
                   .queue = "input",
                   .mode = mode,
                   .partition = partition,
                   .first_row = first_row};
    auto session = std::make_shared<ReceiveSession>(next_id_++, "feeder/a", 1, 1, std::move(open));
    queue_.Add(session);
    Accept(session);
    return session;
  }
  SessionPtr Train(int64_t partition, std::string feed_id = "f1", int64_t first_row = 0) {
    return Open(FeedMode::kTrain, partition, std::move(feed_id), first_row);
  }
  SessionPtr Infer(int64_t partition) { return Open(FeedMode::kInference, partition); }

  // As if a CREDIT of 1,000 bytes had been sent.
  void Accept(const SessionPtr& session) {
    if (session->stage != Stage::kServed) return;
    session->accepted = true;
    session->credit_sent = {.limit = 1000};
  }

  // BATCH of `rows` rows, 10 bytes each.
  absl::Status Feed(const SessionPtr& session, int64_t rows) {
    const int64_t first = session->next_row;
    return queue_.AddRows(
        session.get(),
        {.rows = Rows(*session, first, rows), .first_row = first, .bytes = rows * 10});
  }
  void FeedAll(const SessionPtr& session, int64_t rows) {
    ASSERT_THAT(Feed(session, rows), IsOk());
    ASSERT_THAT(queue_.EndPartition(session.get(), session->next_row), IsOk());
  }

  State AskFor(int64_t rows) {
    queue_.Ask(rows, std::exchange(current_, std::nullopt));
    return queue_.Fill();
  }
  // What NextBatch(rows) would return, as DataFeed does it; empty if it would wait or stop.
  std::vector<int64_t> Next(int64_t rows) {
    if (current_.has_value() && current_->remaining() >= rows &&
        !current_->session->handed.closed()) {
      current_->session->used_row = current_->session->handed.row();
      const auto values = Values(current_->rows.Slice(current_->offset, rows));
      current_->offset += rows;
      current_->session->handed.Advance(current_->RowAfter(current_->offset));
      return values;
    }
    Use();
    if (AskFor(rows) != State::kReady) return {};
    return TakeAll();
  }
  std::vector<int64_t> TakeAll() {
    Delivery delivery = queue_.Take();
    std::vector<int64_t> values = Values(delivery);
    for (const TakenRows& piece : delivery.pieces) {
      handed_.push_back(piece.session);
    }
    current_ = std::move(delivery.current);
    if (delivery.pieces.empty()) {
      current_->offset = delivery.rows;
      current_->session->handed.Advance(current_->RowAfter(delivery.rows));
      handed_.push_back(current_->session);
    }
    return values;
  }
  void Use() {
    for (const SessionPtr& session : handed_) session->used_row = session->handed.row();
    handed_.clear();
  }
  absl::Status Answer(int64_t rows) {
    absl::StatusOr<ReceiveQueue::ResultPlace> place = queue_.PlaceResults(rows);
    if (!place.ok()) return place.status();
    if (place->session != nullptr) queue_.ResultsAdded(place->session, rows - place->skip);
    return absl::OkStatus();
  }

  static FrameType Final(const SessionPtr& session) {
    return session->final.has_value() ? session->final->first : FrameType{};
  }
  static ErrorFrame Error(const SessionPtr& session) {
    EXPECT_EQ(Final(session), FrameType::kError);
    if (Final(session) != FrameType::kError) return {};
    return *DecodeError(session->final->second);
  }

  ReceiveQueue queue_{"input", "worker:0"};
  uint64_t next_id_ = 1;
  std::optional<TakenRows> current_;
  std::vector<SessionPtr> handed_;
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVE_QUEUE_TESTING_H_
