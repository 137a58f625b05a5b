// The part of FeedSession that the feeder's socket thread calls: its connection, and what the node
// says.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "feed/feeder/feeder_session.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

absl::Status Bad(absl::string_view what, int64_t found, absl::string_view than, int64_t limit) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", found, " ", than, " ", limit));
}

}  // namespace

absl::Status FeedSession::OnTerminated(const TerminatedFrame& frame) {
  {
    MutexLock lock(&mu_);
    if (state_.end != SessionEnd::kOpen) return absl::OkStatus();
    if (frame.row > state_.sent_rows) {
      return Bad("TERMINATED: row", frame.row, "is more than was sent,", state_.sent_rows);
    }
    // What the program has not been given it does not use any more.
    state_.sent_rows = std::max(state_.acked_rows, frame.row);
    EndLocked(
        SessionEnd::kTerminated,
        absl::FailedPreconditionError(absl::StrCat(
            Place(), ": the program reads this queue no more: ", EscapeControls(frame.message))));
  }
  NotifyChange();
  return absl::OkStatus();
}

bool FeedSession::OnEnd(SessionEnd end, const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    if (!EndLocked(end, status)) return false;
  }
  NotifyChange();
  return true;
}

void FeedSession::OnLink(std::shared_ptr<SessionLink> link, const ReplyEndpoint& reply) {
  MutexLock lock(&mu_);
  if (state_.end != SessionEnd::kOpen) return;
  link_ = std::move(link);
  next_seq_ = 0;
  opened_at_ = RealClock()->SteadyNow();
  unproven_.clear();
  const OpenFrame open = MakeOpen(reply);
  awaits_segment_ = open.shared_memory;
  SendFrame(FrameType::kOpen, EncodeOpen(open), {});
}

void FeedSession::OnConnecting() {
  MutexLock lock(&mu_);
  opened_at_ = RealClock()->SteadyNow();
  unproven_.clear();
}

void FeedSession::OnUnproven(const std::string& place) {
  MutexLock lock(&mu_);
  unproven_ = place;
}

void FeedSession::OnProof() {
  MutexLock lock(&mu_);
  unproven_.clear();
}

void FeedSession::OnUnlink() {
  MutexLock lock(&mu_);
  link_.reset();
}

void FeedSession::SendAbort(const absl::Status& status) {
  MutexLock lock(&mu_);
  SendFrame(FrameType::kAbort,
            EncodeError({.code = status.code(), .message = std::string(status.message())}), {});
}

// ------------------------------------------------------------------------- what the node says

absl::Status FeedSession::OnCredit(const CreditFrame& frame) {
  {
    MutexLock lock(&mu_);
    if (state_.end != SessionEnd::kOpen) return absl::OkStatus();
    if (frame.limit < limit_) return Bad("CREDIT: limit", frame.limit, "after", limit_);
    if (frame.released < released_) {
      return Bad("CREDIT: released", frame.released, "after", released_);
    }
    if (frame.released > sent_bytes_) {
      return Bad("CREDIT: released", frame.released, "is more than was sent,", sent_bytes_);
    }
    const bool relieved = IsBlocked() && frame.limit >= needed_;
    if (!state_.accepted || relieved) Progressed();  // its turn has come
    limit_ = frame.limit;
    released_ = frame.released;
    answered_ = true;
    state_.accepted = true;
    state_.wait_position = 0;
    Changed();
  }
  NotifyChange();
  return absl::OkStatus();
}

bool FeedSession::AwaitsSegment() const {
  MutexLock lock(&mu_);
  return awaits_segment_;
}

void FeedSession::OnSegment(const absl::Status& opened) {
  MutexLock lock(&mu_);
  if (state_.end != SessionEnd::kOpen) return;
  awaits_segment_ = false;
  SendFrame(FrameType::kMapped,
            EncodeMapped({.reason = std::string(opened.message()), .results = opened.ok()}), {},
            kFrameFlagOptional);
}

absl::Status FeedSession::OnRoom(Room room, const std::shared_ptr<FeederSegment>& segment) {
  MutexLock lock(&mu_);
  if (state_.end != SessionEnd::kOpen) return absl::OkStatus();
  if (segment == nullptr || !segment->Holds(room)) {
    return absl::InvalidArgumentError(absl::StrCat("ROOM of ", room.length, " bytes at ",
                                                   room.offset, ", which is in no segment"));
  }
  segment_ = segment;
  rooms_.Add(room);
  return absl::OkStatus();
}

absl::Status FeedSession::OnReceived(int64_t row) {
  {
    MutexLock lock(&mu_);
    if (state_.end != SessionEnd::kOpen) return absl::OkStatus();
    if (row > state_.sent_rows) {
      return Bad("RECEIVED: row", row, "is more than was sent,", state_.sent_rows);
    }
    if (row < state_.received_rows) {
      // RECEIVED may come late after an ACK that said as much.
      if (row < state_.acked_rows) return absl::OkStatus();
      return Bad("RECEIVED: row", row, "after", state_.received_rows);
    }
    if (row > state_.received_rows) Progressed();
    state_.received_rows = row;
    if (row == state_.end_row) end_received_ = true;
    Changed();
  }
  NotifyChange();
  return absl::OkStatus();
}

absl::Status FeedSession::OnAck(int64_t row) {
  {
    MutexLock lock(&mu_);
    if (state_.end != SessionEnd::kOpen) return absl::OkStatus();
    if (options_.resumed && !state_.accepted && !state_.told) {
      if (row < state_.first_row) return Bad("ACK: row", row, "after", state_.first_row);
      state_.told = true;
      state_.first_row = state_.sent_rows = state_.received_rows = row;
    }
    if (row > state_.sent_rows) {
      return Bad("ACK: row", row, "is more than was sent,", state_.sent_rows);
    }
    if (row < state_.acked_rows) return Bad("ACK: row", row, "after", state_.acked_rows);
    if (row > state_.acked_rows) Progressed();
    state_.acked_rows = row;
    state_.received_rows = std::max(state_.received_rows, row);
    Changed();
  }
  NotifyChange();
  return absl::OkStatus();
}

absl::Status FeedSession::OnRevoked(int64_t row) {
  {
    MutexLock lock(&mu_);
    if (state_.end != SessionEnd::kOpen) return absl::OkStatus();
    if (!state_.revoking) return absl::InvalidArgumentError("REVOKED without REVOKE, or twice");
    if (row > state_.sent_rows) {
      return Bad("REVOKED: row", row, "is more than was sent,", state_.sent_rows);
    }
    if (row < state_.acked_rows) return Bad("REVOKED: row", row, "after ACK", state_.acked_rows);
    state_.revoking = false;
    state_.revoked_row = row;
    state_.had_rows = state_.sent_rows;
    state_.sent_rows = row;
    state_.received_rows = std::min(state_.received_rows, row);
    Progressed();
    Changed();
  }
  NotifyChange();
  return absl::OkStatus();
}

absl::Status FeedSession::OnWait(const WaitFrame& frame) {
  {
    MutexLock lock(&mu_);
    // One for a session that is served already says that it waits for credit; it may be late.
    const bool waits = !state_.accepted || IsBlocked();
    if (state_.end != SessionEnd::kOpen || !waits) return absl::OkStatus();
    const bool first = !answered_;
    if (first || frame.position < state_.wait_position || frame.progress > wait_progress_) {
      Progressed();
    }
    answered_ = true;
    state_.wait_position = frame.position;
    wait_progress_ = std::max(wait_progress_, frame.progress);
    Changed();
  }
  NotifyChange();
  return absl::OkStatus();
}

absl::Status FeedSession::OnSchema(absl::string_view metadata) {
  if (options_.mode != FeedMode::kInference) {
    return absl::InvalidArgumentError("SCHEMA for a training session");
  }
  absl::StatusOr<Schema> schema = DecodeSchema(metadata);
  if (absl::IsUnimplemented(schema.status())) {  // in order, but of what feeds do not carry
    OnEnd(SessionEnd::kBadPeer, absl::InvalidArgumentError(absl::StrCat(
                                    Place(), ": the results' ", schema.status().message())));
    return absl::OkStatus();
  }
  MILLRACE_RETURN_IF_ERROR(schema.status());
  MutexLock lock(&mu_);
  if (decoder_ != nullptr) return absl::InvalidArgumentError("a second SCHEMA in one session");
  decoder_ = std::make_shared<const BatchDecoder>(*std::move(schema));
  return absl::OkStatus();
}

absl::Status FeedSession::OnResult(const BatchPrefix& prefix, std::string message,
                                   std::vector<BodyPart> parts) {
  bool out_of_order = false;
  {
    MutexLock lock(&mu_);
    if (state_.end != SessionEnd::kOpen) return absl::OkStatus();
    if (options_.mode != FeedMode::kInference) {
      return absl::InvalidArgumentError("RESULT for a training session");
    }
    if (decoder_ == nullptr) return absl::InvalidArgumentError("RESULT before SCHEMA");
    if (result_bytes_ >= result_limit_) {
      return Bad("RESULT after", result_bytes_, "bytes, and the credit is", result_limit_);
    }
    const int64_t end = prefix.first_row + prefix.rows;
    if (prefix.first_row != state_.returned_rows || end > state_.sent_rows) {
      out_of_order = true;
      EndLocked(SessionEnd::kBadPeer, absl::DataLossError(absl::StrCat(
                                          Place(), ": results for the rows ", prefix.first_row,
                                          " to ", end - 1, " came where row ", state_.returned_rows,
                                          " is next (", state_.sent_rows, " rows were sent): ",
                                          prefix.first_row > state_.returned_rows   ? "a gap"
                                          : prefix.first_row < state_.returned_rows ? "an overlap"
                                                                                    : "too many",
                                          "; run the partition again")));
    } else {
      auto size_bytes = static_cast<int64_t>(kBatchPrefixSize + message.size());
      for (const BodyPart& part : parts) size_bytes += static_cast<int64_t>(part.size);
      state_.returned_rows = end;
      unread_bytes_ += size_bytes;
      result_bytes_ += size_bytes;
      results_.push_back({prefix, std::move(message), std::move(parts), size_bytes});
      Progressed();
      Changed();
    }
  }
  if (out_of_order) MILLRACE_LOG(WARNING) << state().status.message();
  NotifyChange();
  return absl::OkStatus();
}

void FeedSession::OnPlacedResult() {
  MutexLock lock(&mu_);
  if (state_.end == SessionEnd::kOpen) has_placed_results_ = true;
}

void FeedSession::OnDone(const DoneFrame& frame) {
  {
    MutexLock lock(&mu_);
    if (state_.end != SessionEnd::kOpen) return;
    const bool inference = options_.mode == FeedMode::kInference;
    const int64_t rows_out = inference ? frame.rows_in : 0;
    // rows_in counts the rows of this session: from where it resumed.
    const int64_t rows_in = state_.sent_rows - state_.first_row;
    const bool complete = state_.end_row.has_value() || state_.revoked_row.has_value();
    if (!complete || frame.rows_in != rows_in || frame.rows_out != rows_out ||
        (inference && state_.returned_rows != state_.sent_rows)) {
      EndLocked(
          SessionEnd::kBadPeer,
          absl::DataLossError(absl::StrCat(
              Place(), ": DONE with ", frame.rows_in, " rows in and ", frame.rows_out,
              " out after ", rows_in, " rows were sent", complete ? "" : " and more are to come",
              inference ? absl::StrCat(" and results for ", state_.returned_rows, " came") : "",
              "; run the partition again")));
    } else {
      state_.received_rows = state_.acked_rows = state_.sent_rows;
      Progressed();
      // The node may have had nothing left to give back.
      const bool whole = state_.end_row == state_.sent_rows;
      if (whole) state_.revoked_row.reset();
      EndLocked(whole ? SessionEnd::kDone : SessionEnd::kRevoked,
                whole ? absl::OkStatus() : RevokedStatus());
    }
  }
  NotifyChange();
}

}  // namespace millrace
