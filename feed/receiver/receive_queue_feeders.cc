// What the frames of feeders do to a ReceiveQueue.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "feed/receiver/receive_queue.h"

namespace millrace {

std::vector<ReceiveQueue::SessionPtr> ReceiveQueue::TakeOver(OpenFrame* open) {
  const auto same = [open](const OpenFrame& other) {
    return CallOf(other.feed_id) == CallOf(open->feed_id) && other.partition == open->partition &&
           other.data_epoch == open->data_epoch;
  };
  const std::vector<SessionPtr> sessions = sessions_;
  for (const SessionPtr& old : sessions) {
    if (!old->train() || !same(old->open)) continue;
    Fail(old.get(), absl::UnavailableError(absl::StrCat(
                        old->PartitionName(), " is fed by another driver now, which goes on")));
  }
  open->first_row = used_rows_.FirstNotGiven(*open);
  std::vector<SessionPtr> before;
  for (const SessionPtr& old : in_hand_) {
    if (old->in_hand() && same(old->open)) before.push_back(old);
  }
  return before;
}

void ReceiveQueue::Add(SessionPtr session) {
  ++stats_.sessions_opened;
  sessions_.push_back(session);
  const std::string& feed_id = session->open.feed_id;
  if (!session->train()) {
    inference_.push_back(session);
    if (!inference_stop_.empty()) return Reject(session.get(), inference_stop_);
    return Serve();
  }
  if (!train_stop_.empty()) return Reject(session.get(), train_stop_);
  if (std::find(ended_feeds_.begin(), ended_feeds_.end(), feed_id) != ended_feeds_.end()) {
    return Fail(session.get(),
                absl::FailedPreconditionError(absl::StrCat("the feed ", feed_id, " has ended")));
  }
  // A feeder that lost its connection feeds the rest again, whatever this side still holds.
  const std::vector<SessionPtr> sessions = sessions_;
  for (const SessionPtr& old : sessions) {
    if (old->detached && CallOf(old->open.feed_id) == CallOf(feed_id) &&
        old->open.partition == session->open.partition &&
        old->open.data_epoch == session->open.data_epoch) {
      EndSilently(old.get());
    }
  }
  TrainFeed* feed = FindFeed(feed_id);
  if (feed == nullptr) {
    feeds_.emplace_back();
    feed = &feeds_.back();
    feed->id = FeedKey(feed_id);
  }
  if (equal_ != nullptr) equal_->Begun(feed->id);
  feed->sessions.push_back(std::move(session));
  Serve();
}

absl::StatusOr<Schema> ReceiveQueue::SetSchema(ReceiveSession* session, const Schema& schema) {
  if (session->over()) return schema;
  if (!session->accepted) return absl::InvalidArgumentError("SCHEMA before CREDIT");
  std::optional<Schema>* first = nullptr;
  if (!session->train()) {
    if (inference_feed_ != session->open.feed_id) inference_schema_.reset();
    inference_feed_ = session->open.feed_id;
    first = &inference_schema_;
  } else if (TrainFeed* feed = FindFeed(session->open.feed_id); feed != nullptr) {
    first = &feed->schema;
  } else {
    return schema;
  }
  if (!first->has_value()) *first = schema;
  if (**first == schema) return **first;
  Fail(session, absl::InvalidArgumentError(
                    absl::StrCat(session->PartitionName(), " differs from the schema of its feed: ",
                                 Schema::DescribeDifference(**first, schema))));
  return schema;
}

absl::Status ReceiveQueue::AddRows(ReceiveSession* session, BufferedRows rows) {
  if (session->over()) return absl::OkStatus();
  if (!session->accepted || session->stage != ReceiveSession::Stage::kServed) {
    return absl::InvalidArgumentError(
        absl::StrCat("BATCH ", session->accepted ? "after END_PARTITION" : "before CREDIT"));
  }
  if (session->blocked() || session->received_bytes + rows.bytes > session->credit_sent.limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("BATCH of ", rows.bytes, " bytes after ", session->received_bytes,
                     " exceeds the credit of ", session->credit_sent.limit,
                     session->blocked() ? ", which BLOCKED has given back" : ""));
  }
  if (rows.first_row != session->next_row) {
    absl::Status status =
        absl::DataLossError(absl::StrCat(session->PartitionName(), ": BATCH begins at row ",
                                         rows.first_row, ", expected row ", session->next_row));
    Fail(session, status);
    return status;
  }
  const int64_t count = rows.rows.num_rows();
  session->last_batch_row = session->next_row;
  session->next_row += count;
  session->received_bytes += rows.bytes;
  session->largest_batch_bytes = std::max(session->largest_batch_bytes, rows.bytes);
  stats_.rows_received += count;
  stats_.bytes_received += rows.bytes;
  ++stats_.batches_received;
  stats_.batches_placed += rows.placed ? 1 : 0;
  stats_.decode_time += rows.decode_time;
  ++progress_;
  if (session->train()) {
    if (TrainFeed* feed = FindFeed(session->open.feed_id); feed != nullptr) {
      feed->begun = true;
      ++feed->moves;
    }
  }
  if (session->train()) CountEqual(*session, session->next_row - count, session->next_row, 1);
  session->buffered.push_back(std::move(rows));
  return absl::OkStatus();
}

absl::Status ReceiveQueue::Block(ReceiveSession* session, int64_t needed, uint64_t order) {
  if (session->over()) return absl::OkStatus();
  if (!session->accepted || session->stage != ReceiveSession::Stage::kServed) {
    return absl::InvalidArgumentError(
        absl::StrCat("BLOCKED ", session->accepted ? "after END_PARTITION" : "before CREDIT"));
  }
  const int64_t size = needed - session->received_bytes;
  if (size < 1 || size > kMaxBatchBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("BLOCKED for a BATCH of ", size, " bytes; it has 1 to ", kMaxBatchBytes));
  }
  session->needed = needed;
  session->blocked_order = order;
  return absl::OkStatus();
}

absl::Status ReceiveQueue::RaiseResultLimit(ReceiveSession* session, int64_t limit) {
  if (session->stage == ReceiveSession::Stage::kEnded) return absl::OkStatus();
  if (session->train()) return absl::InvalidArgumentError("RESULT_CREDIT for a training session");
  if (limit < session->result_limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("RESULT_CREDIT: limit ", limit, " after ", session->result_limit));
  }
  session->result_limit = limit;
  return absl::OkStatus();
}

absl::Status ReceiveQueue::EndPartition(ReceiveSession* session, int64_t end_row) {
  if (session->over()) return absl::OkStatus();
  if (!session->accepted || session->stage != ReceiveSession::Stage::kServed) {
    return absl::InvalidArgumentError(
        absl::StrCat("END_PARTITION ", session->accepted ? "twice" : "before CREDIT"));
  }
  if (end_row != session->next_row) {
    absl::Status status =
        absl::DataLossError(absl::StrCat(session->PartitionName(), " ends at row ", end_row,
                                         ", but rows up to ", session->next_row, " have come"));
    Fail(session, status);
    return status;
  }
  session->end_row = end_row;
  session->stage = ReceiveSession::Stage::kReceived;
  ++stats_.partitions_received;
  ++progress_;
  if (TrainFeed* feed = session->train() ? FindFeed(session->open.feed_id) : nullptr;
      feed != nullptr) {
    ++feed->moves;
    if (session->buffered.empty()) feed->Erase(session);
  }
  FinishIfDone(session);
  return absl::OkStatus();
}

absl::Status ReceiveQueue::Revoke(ReceiveSession* session, int64_t max_row) {
  if (session->over()) return absl::OkStatus();
  if (!session->train()) return absl::InvalidArgumentError("REVOKE for an inference session");
  if (!session->accepted) return absl::InvalidArgumentError("REVOKE before CREDIT");
  if (equal_ != nullptr) return absl::OkStatus();  // other ranks count on what this one has
  const bool all_out = session->end_row.has_value() && session->handed.row() == *session->end_row;
  if (all_out || !session->handed.CloseUpTo(max_row)) return absl::OkStatus();
  session->revoked = true;
  session->stage = ReceiveSession::Stage::kReceived;
  session->end_row = session->next_row = session->handed.row();
  for (const BufferedRows& batch : session->buffered) session->released_bytes += batch.bytes;
  session->buffered.clear();
  if (TrainFeed* feed = FindFeed(session->open.feed_id); feed != nullptr) {
    feed->Erase(session);
  }
  ++progress_;
  FinishIfDone(session);
  return absl::OkStatus();
}

}  // namespace millrace
