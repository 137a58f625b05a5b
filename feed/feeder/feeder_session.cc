#include "feed/feeder/feeder_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/attended_clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/version.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kLongestWait = absl::Seconds(1);
// A wait that takes longer was one of a process that was stopped. Twice the wait: see
// WaitForChange().
constexpr absl::Duration kLongestGap = absl::Seconds(3);

SessionOptions WithProgress(SessionOptions options, absl::Duration now) {
  if (options.progress == nullptr) {
    options.progress = std::make_shared<FeedProgress>();
    options.progress->Advance(now);
  }
  return options;
}

// What a batch costs in credit as BATCH.
int64_t FrameBytes(const EncodedBatch& encoded) {
  return static_cast<int64_t>(kBatchPrefixSize + encoded.byte_size());
}

// What it costs as PLACED: up to 7 bytes a part more than as BATCH.
int64_t PlacedBytes(const EncodedBatch& encoded) {
  return static_cast<int64_t>(kBatchPrefixSize + encoded.metadata.size()) +
         static_cast<int64_t>(encoded.body_size());
}

}  // namespace

absl::Status UnprovenError(absl::string_view place, absl::Duration time) {
  return absl::UnauthenticatedError(absl::StrCat(
      place, ": whoever listens there took this feeder's login and did not prove within ",
      absl::FormatDuration(time),
      " that it is the node: another process has the node's address, or ",
      "the node's process hangs or cannot reach this feeder's reply endpoint; it was sent no row"));
}

FeedSession::FeedSession(uint64_t id, FeedTarget target, SessionOptions options,
                         absl::Duration open_timeout, std::shared_ptr<FeederOutbox> outbox,
                         int64_t shared_min_bytes)
    : id_(id),
      target_(std::move(target)),
      options_(WithProgress(std::move(options), RealClock()->SteadyNow())),
      open_timeout_(open_timeout),
      opened_at_(RealClock()->SteadyNow()),
      outbox_(std::move(outbox)),
      shared_min_bytes_(shared_min_bytes) {
  const int64_t row = options_.first_row;
  state_.first_row = row;
  state_.sent_rows = state_.received_rows = state_.acked_rows = state_.returned_rows = row;
  if (options_.mode == FeedMode::kInference) result_limit_ = options_.result_window_bytes;
}

std::string FeedSession::Place() const {
  return absl::StrCat(target_.node, ", partition ", options_.partition, " (queue '", options_.queue,
                      "')");
}

OpenFrame FeedSession::MakeOpen(const ReplyEndpoint& reply) const {
  return OpenFrame{
      .feed_id = options_.feed_id,
      .queue = options_.queue,
      .mode = options_.mode,
      .partition = options_.partition,
      .data_epoch = options_.data_epoch,
      .feeder_attempt = options_.feeder_attempt,
      .node_nonce = target_.nonce,
      .version = kMillraceVersion,
      .first_row = options_.first_row,
      .result_limit = options_.mode == FeedMode::kInference ? options_.result_window_bytes : 0,
      .shared_memory = shared_min_bytes_ != INT64_MAX && reply.curve_key.empty(),
      .resumed = options_.resumed,
      .reply = reply};
}

void FeedSession::CountSource(absl::Duration time) {
  MutexLock lock(&mu_);
  state_.times.source += time;
}

SessionState FeedSession::state() const {
  MutexLock lock(&mu_);
  return state_;
}

int64_t FeedSession::unread_result_bytes() const {
  MutexLock lock(&mu_);
  return unread_bytes_;
}

// ------------------------------------------------------------------------------------- waiting

absl::Status FeedSession::EndStatus(bool done_is_ok) const {
  if (state_.revoked_row.has_value()) return RevokedStatus();
  if (state_.end == SessionEnd::kOpen) return absl::OkStatus();
  if (state_.end != SessionEnd::kDone) return state_.status;
  if (done_is_ok) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(Place(), ": the session is done"));
}

absl::Status FeedSession::RevokedStatus() const {
  return absl::AbortedError(
      absl::StrCat(Place(), ": taken back from row ", *state_.revoked_row, " on"));
}

absl::Status FeedSession::TimeoutErrorLocked() const {
  const std::string partition =
      absl::StrCat("partition ", options_.partition, " (queue '", options_.queue, "')");
  const std::string lapse = absl::FormatDuration(options_.feed_timeout);
  if (!state_.accepted) {
    return absl::DeadlineExceededError(absl::StrCat(
        target_.node, " did not begin to read ", partition, " for ", lapse, ": ",
        state_.wait_position == 1
            ? "1 session is before it and did not advance"
            : absl::StrCat(state_.wait_position,
                           " sessions are before it and none of them advanced"),
        "; the program is not reading this queue in ", FeedModeName(options_.mode), " mode"));
  }
  if (options_.mode == FeedMode::kInference) {
    return absl::DeadlineExceededError(
        absl::StrCat(target_.node, " received ", state_.received_rows, " rows of ", partition,
                     " and returned ", state_.returned_rows == 0 ? "none" : "no more", " for ",
                     lapse, ": ", state_.sent_rows, " rows sent, ", state_.returned_rows,
                     " returned; the program is not calling BatchResults"));
  }
  if (state_.received_rows < state_.sent_rows && state_.acked_rows == state_.received_rows) {
    return absl::DeadlineExceededError(absl::StrCat(
        target_.node, " received no row of ", partition, " for ", lapse, ": ", state_.sent_rows,
        " rows sent, ", state_.received_rows, " received; the node's process hangs or is starved"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(target_.node, " acknowledged no row of ", partition, " for ", lapse, ": ",
                   state_.received_rows, " rows received, ", state_.acked_rows,
                   " acknowledged; the program is not calling NextBatch"));
}

absl::Status FeedSession::TimeoutError() const {
  MutexLock lock(&mu_);
  return TimeoutErrorLocked();
}

// A lone thread fetches what it waits for itself. Of several none does: each would leave at its own
// pace, and what the others wait for would be left lying.
void FeedSession::WaitForChange(absl::Duration timeout) {
  const int64_t before = changes_;
  const bool alone = outbox_->AddWaiting(1) == 1;
  if (alone && outbox_->serve() != nullptr) {
    mu_.Unlock();
    outbox_->serve()(
        [&] {
          MutexLock lock(&mu_);
          if (changes_ == before) return AfterTurn::kGoOn;
          return outbox_->AddWaiting(0) > 1 ? AfterTurn::kYield : AfterTurn::kLeave;
        },
        timeout);
    mu_.Lock();
  }
  // What serve() did not bring comes from another thread.
  if (changes_ == before) changed_.WaitWithTimeout(&mu_, timeout);
  outbox_->AddWaiting(-1);
}

void FeedSession::Changed() {
  ++changes_;
  changed_.SignalAll();
}

absl::Status FeedSession::WaitFor(absl::FunctionRef<bool()> ready, bool done_is_ok) {
  const AttendedClock clock(RealClock(), kLongestGap);
  const absl::Duration began = clock.SteadyNow();
  while (true) {
    if (state_.end != SessionEnd::kOpen || state_.revoked_row.has_value()) {
      return EndStatus(done_is_ok);
    }
    if (ready()) return absl::OkStatus();
    const absl::Duration deadline =
        answered_ ? std::max(began, options_.progress->last()) + options_.feed_timeout
                  : opened_at_ + open_timeout_;
    const absl::Duration left = deadline - clock.SteadyNow();
    if (left > absl::ZeroDuration()) {
      WaitForChange(std::min(left, kLongestWait));
      continue;
    }
    if (answered_) return TimeoutErrorLocked();
    if (!unproven_.empty()) {
      EndLocked(SessionEnd::kUnanswered,
                Annotate(UnprovenError(unproven_, open_timeout_), Place()));
      continue;
    }
    const std::optional<std::string> refused = outbox_->RefusedSince(opened_at_);
    EndLocked(
        SessionEnd::kUnanswered,
        absl::UnavailableError(absl::StrCat(
            Place(), ": no answer to OPEN within ", absl::FormatDuration(open_timeout_),
            refused.has_value()
                ? absl::StrCat("; this feeder refused a reply connection ", *refused,
                               ", which may have been the node's")
                : "; the node's process hangs, or it cannot reach this feeder's reply endpoint")));
  }
}

absl::Status FeedSession::WaitToSend(absl::FunctionRef<bool()> ready) {
  const bool open = state_.end == SessionEnd::kOpen && !state_.revoked_row.has_value();
  if (open && ready()) return absl::OkStatus();
  const absl::Duration began = RealClock()->SteadyNow();
  absl::Status status = WaitFor(ready, /*done_is_ok=*/false);
  state_.times.credit += RealClock()->SteadyNow() - began;
  return status;
}

bool FeedSession::HasCredit(int64_t size_bytes) {
  if (!state_.accepted) return false;
  const int64_t needed = sent_bytes_ + size_bytes;
  if (needed <= limit_) return true;
  if (std::exchange(needed_, needed) != needed) {
    SendFrame(FrameType::kBlocked, EncodeBlocked({.needed = needed}), {});
  }
  return false;
}

FeedSession::Readiness FeedSession::ReadinessNow(std::optional<int64_t> send_bytes) {
  const bool done = state_.end == SessionEnd::kDone;
  return {.can_send = !done && send_bytes.has_value() && HasCredit(*send_bytes),
          .has_result = !results_.empty(),
          .done = done && results_.empty()};
}

absl::StatusOr<FeedSession::Readiness> FeedSession::Ready() {
  MutexLock lock(&mu_);
  MILLRACE_RETURN_IF_ERROR(EndStatus(/*done_is_ok=*/true));
  return ReadinessNow(std::nullopt);
}

absl::StatusOr<FeedSession::Readiness> FeedSession::WaitReady(std::optional<int64_t> send_bytes) {
  MutexLock lock(&mu_);
  const absl::Duration began = RealClock()->SteadyNow();
  const absl::Status status = WaitFor(
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        const Readiness now = ReadinessNow(send_bytes);
        return now.can_send || now.has_result || now.done;
      },
      /*done_is_ok=*/true);
  if (send_bytes.has_value()) state_.times.credit += RealClock()->SteadyNow() - began;
  MILLRACE_RETURN_IF_ERROR(status);
  return ReadinessNow(send_bytes);
}

// ------------------------------------------------------------------------------------- sending

absl::StatusOr<PreparedBatch> FeedSession::Prepare(const RecordBatch& batch) {
  PreparedBatch prepared;
  prepared.rows = batch.num_rows();
  const absl::Duration began = RealClock()->SteadyNow();
  absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  const absl::Duration encode_time = RealClock()->SteadyNow() - began;
  if (!encoded.ok()) return Annotate(encoded.status(), Place());
  prepared.encoded = *std::move(encoded);
  prepared.size_bytes = FrameBytes(prepared.encoded);

  {
    MutexLock lock(&mu_);
    state_.times.encode += encode_time;
    if (segment_ != nullptr) prepared.size_bytes = PlacedBytes(prepared.encoded);
    if (prepared.size_bytes > kMaxBatchBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          Place(), ": ",
          prepared.rows == 1 ? absl::StrCat("row ", state_.sent_rows, " takes ")
                             : absl::StrCat("rows ", state_.sent_rows, " to ",
                                            state_.sent_rows + prepared.rows - 1, " take "),
          prepared.size_bytes, " bytes, and a batch is at most ", kMaxBatchBytes,
          prepared.rows == 1 ? ": cut the row's values into several rows" : ": send fewer rows"));
    }
    if (schema_.has_value()) {
      if (*schema_ == batch.schema()) return prepared;
      return absl::InvalidArgumentError(
          absl::StrCat(Place(), ": the source changed its schema at row ", state_.sent_rows, ": ",
                       Schema::DescribeDifference(*schema_, batch.schema())));
    }
  }
  absl::StatusOr<std::string> message = EncodeSchema(batch.schema());
  if (!message.ok()) return Annotate(message.status(), Place());
  MutexLock lock(&mu_);
  // Nothing but OPEN may go out before the session is accepted.
  MILLRACE_RETURN_IF_ERROR(
      WaitToSend([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return state_.accepted; }));
  schema_ = batch.schema();
  SendFrame(FrameType::kSchema, *message, {});
  return prepared;
}

// From the thread that calls: a hand-over to the socket thread would cost two threads a wake-up per
// frame, which is what a batch of 64 KiB costs in all.
void FeedSession::SendFrame(FrameType type, const std::string& metadata, std::vector<BodyPart> body,
                            uint16_t flags) {
  if (link_ == nullptr) return;  // it is lost, or the node does not know of this session yet
  const absl::StatusOr<bool> sent =
      link_->Send({.type = type, .flags = flags, .session = id_, .seq = next_seq_++}, metadata,
                  std::move(body));
  // Without a connection the monitor's event is on its way and breaks the session.
  if (sent.ok()) return;
  outbox_->Push({.kind = FeederCommand::Kind::kBreak,
                 .session = shared_from_this(),
                 .reason = sent.status()});
}

std::optional<Room> FeedSession::PlaceBody(const PreparedBatch& batch) {
  if (segment_ == nullptr || link_ == nullptr) return std::nullopt;
  const int64_t bytes = static_cast<int64_t>(batch.encoded.body_size());
  const int64_t cost = PlacedBytes(batch.encoded);
  if (bytes < std::max<int64_t>(shared_min_bytes_, 1) || cost > kMaxBatchBytes ||
      sent_bytes_ + cost > limit_) {
    return std::nullopt;
  }
  const std::optional<Room> room = rooms_.Place(bytes);
  if (!room.has_value()) return std::nullopt;
  batch.encoded.CopyBody(segment_->data(*room));
  return room;
}

void FeedSession::SendBatch(PreparedBatch& batch) {
  const absl::Duration began = RealClock()->SteadyNow();
  const std::optional<Room> room = PlaceBody(batch);
  const int64_t bytes = room.has_value() ? PlacedBytes(batch.encoded) : FrameBytes(batch.encoded);
  std::string metadata;
  if (room.has_value()) {
    metadata = EncodePlacedPrefix({.offset = room->offset, .length = room->length});
  }
  metadata.append(EncodeBatchPrefix({.first_row = state_.sent_rows, .rows = batch.rows}));
  metadata.append(batch.encoded.metadata);
  state_.sent_rows += batch.rows;
  sent_bytes_ += bytes;
  outbox_->CountBatch(bytes, room.has_value());
  if (room.has_value()) {
    SendFrame(FrameType::kPlaced, metadata, {});
    batch.encoded.parts.clear();
  } else {
    SendFrame(FrameType::kBatch, metadata, std::move(batch.encoded.parts));
  }
  state_.times.wire += RealClock()->SteadyNow() - began;
}

absl::StatusOr<bool> FeedSession::TrySend(PreparedBatch& batch) {
  MutexLock lock(&mu_);
  MILLRACE_RETURN_IF_ERROR(EndStatus(/*done_is_ok=*/false));
  if (!HasCredit(batch.size_bytes)) return false;
  SendBatch(batch);
  return true;
}

absl::Status FeedSession::Send(const RecordBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(PreparedBatch prepared, Prepare(batch));
  MutexLock lock(&mu_);
  MILLRACE_RETURN_IF_ERROR(WaitToSend(
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return HasCredit(prepared.size_bytes); }));
  SendBatch(prepared);
  return absl::OkStatus();
}

absl::Status FeedSession::Finish(int64_t end_row) {
  MutexLock lock(&mu_);
  MILLRACE_CHECK(!state_.end_row.has_value()) << "Finish() was called twice";
  MILLRACE_RETURN_IF_ERROR(EndStatus(/*done_is_ok=*/false));  // sent_rows may have fallen
  MILLRACE_CHECK(end_row == state_.sent_rows)
      << "Finish(" << end_row << ") after " << state_.sent_rows << " rows";
  MILLRACE_RETURN_IF_ERROR(
      WaitToSend([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return state_.accepted; }));
  state_.end_row = end_row;
  SendFrame(FrameType::kEndPartition, EncodeEndPartition({.end_row = end_row}), {});
  return absl::OkStatus();
}

absl::Status FeedSession::WaitAccepted() {
  MutexLock lock(&mu_);
  return WaitToSend([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return state_.accepted; });
}

absl::Status FeedSession::WaitReceived() {
  MutexLock lock(&mu_);
  MILLRACE_CHECK(state_.end_row.has_value()) << "WaitReceived() before Finish()";
  return WaitFor([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return end_received_; },
                 /*done_is_ok=*/true);
}

absl::Status FeedSession::WaitDone() {
  MutexLock lock(&mu_);
  MILLRACE_CHECK(state_.end_row.has_value()) << "WaitDone() before Finish()";
  return WaitFor([] { return false; }, /*done_is_ok=*/true);
}

absl::StatusOr<std::optional<RecordBatch>> FeedSession::NextResult() {
  PendingResult result;
  std::shared_ptr<const BatchDecoder> decoder;
  {
    MutexLock lock(&mu_);
    MILLRACE_RETURN_IF_ERROR(
        WaitFor([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !results_.empty(); },
                /*done_is_ok=*/true));
    if (results_.empty()) return std::optional<RecordBatch>();  // done
    result = std::move(results_.front());
    results_.pop_front();
    unread_bytes_ -= result.size_bytes;
    const int64_t limit = result_bytes_ - unread_bytes_ + options_.result_window_bytes;
    if (limit - result_limit_ >= std::max<int64_t>(1, options_.result_window_bytes / 4)) {
      result_limit_ = limit;
      SendFrame(FrameType::kResultCredit, EncodeResultCredit({.limit = limit}), {});
    }
    decoder = decoder_;
  }
  absl::StatusOr<RecordBatch> batch = decoder->Decode(
      result.message, static_cast<uint32_t>(result.prefix.rows), std::move(result.parts));
  if (batch.ok()) return std::optional<RecordBatch>(*std::move(batch));
  outbox_->Push({.kind = FeederCommand::Kind::kPoison,
                 .session = shared_from_this(),
                 .reason = Annotate(batch.status(), "RESULT")});
  return absl::DataLossError(absl::StrCat(Place(), ": the result for row ", result.prefix.first_row,
                                          " does not decode: ", batch.status().message()));
}

// ---------------------------------------------------------------------------------- ending

void FeedSession::Revoke(int64_t max_row) {
  MutexLock lock(&mu_);
  if (state_.end != SessionEnd::kOpen || !state_.accepted) return;
  if (std::exchange(state_.revoking, true) || state_.revoked_row.has_value()) return;
  SendFrame(FrameType::kRevoke, EncodeRevoke({.max_row = max_row}), {}, kFrameFlagOptional);
}

bool FeedSession::EndLocked(SessionEnd end, const absl::Status& status) {
  if (state_.end != SessionEnd::kOpen) return false;
  state_.end = end;
  state_.status = status;
  if (end != SessionEnd::kDone) {  // results of an incomplete partition are worth nothing
    results_.clear();
    unread_bytes_ = 0;
  }
  // Who had room says when nothing is written any more, however the session ended; and who was sent
  // results that lie there, when none is looked at any more.
  const bool vacates = (segment_ != nullptr && !state_.end_row.has_value()) || has_placed_results_;
  if (end == SessionEnd::kAborted || end == SessionEnd::kBadPeer ||
      end == SessionEnd::kUnanswered || vacates) {
    const absl::Status why = status.ok() ? absl::CancelledError("every result is here") : status;
    SendFrame(FrameType::kAbort,
              EncodeError({.code = why.code(), .message = std::string(why.message())}), {});
  }
  link_.reset();
  segment_.reset();
  awaits_segment_ = false;
  outbox_->Push({.kind = FeederCommand::Kind::kClose, .session = shared_from_this()});
  Changed();
  return true;
}

void FeedSession::Abort(const absl::Status& status) {
  MILLRACE_CHECK(!status.ok());
  OnEnd(SessionEnd::kAborted, status);
}

void FeedSession::NotifyChange() {
  if (options_.on_change) options_.on_change();
}

}  // namespace millrace
