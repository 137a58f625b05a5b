// How a ReceiveQueue gives out batches where all ranks are to get equally many
// (docs/feed_protocol.md, section 11).

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "feed/receiver/receive_queue.h"
#include "millrace/record_batch.h"

namespace millrace {

absl::Status ReceiveQueue::SetEqual(int64_t batch_rows, bool pad) {
  if (equal_ != nullptr && equal_->batch_rows() == batch_rows && equal_->pad() == pad) {
    return absl::OkStatus();
  }
  if (equal_begun_) {
    return absl::FailedPreconditionError(
        absl::StrCat(node_name_, " reads the queue \"", name_, "\" in equally many batches of ",
                     equal_->batch_rows(), " rows", equal_->pad() ? ", padded" : "",
                     ", and cannot change that"));
  }
  if (read_) {
    return absl::FailedPreconditionError(
        absl::StrCat(node_name_, " has read the queue \"", name_,
                     "\" without regard to other ranks, and cannot begin with it"));
  }
  equal_ = std::make_shared<EqualSteps>(batch_rows, pad);
  // Rounds of one call become one feed.
  std::deque<TrainFeed> feeds = std::exchange(feeds_, {});
  for (TrainFeed& feed : feeds) {
    TrainFeed* const same = FindFeed(feed.id);
    if (same != nullptr) {
      same->sessions.insert(same->sessions.end(), feed.sessions.begin(), feed.sessions.end());
      same->received = feed.received;
    } else {
      feed.id = FeedKey(feed.id);
      feed.ended = false;
      equal_->Begun(feed.id);
      feeds_.push_back(std::move(feed));
    }
  }
  return absl::OkStatus();
}

std::string ReceiveQueue::FeedKey(absl::string_view feed_id) const {
  return std::string(equal_ == nullptr ? feed_id : CallOf(feed_id));
}

void ReceiveQueue::CountEqual(const ReceiveSession& session, int64_t first, int64_t end,
                              int64_t sign) {
  if (equal_ == nullptr || !equal_begun_ || first >= end) return;
  const int64_t rows =
      used_rows_.LeavesOut() ? used_rows_.CountUnused(session.open, first, end) : end - first;
  equal_->Arrived(CallOf(session.open.feed_id), sign * rows);
}

std::optional<ReceiverRows> ReceiveQueue::ReportEqual(absl::Duration now) {
  if (equal_ == nullptr || !equal_begun_) return std::nullopt;
  std::optional<ReceiverRows> rows = equal_->Report(now, [this] {
    return std::all_of(sessions_.begin(), sessions_.end(), [this](const SessionPtr& session) {
      return !session->train() || session->stage == ReceiveSession::Stage::kReceived ||
             CallOf(session->open.feed_id) != equal_->call();
    });
  });
  if (rows.has_value()) rows->queue = name_;
  return rows;
}

ReceiveQueue::State ReceiveQueue::FillEqual() {
  waits_for_grant_ = false;
  equal_->BeginNextCall();
  if (equal_->failed()) return State::kError;
  if (equal_->over()) DropRest();
  const State state = FillStep();
  if (state != State::kWait || train_stop_.empty()) return state;
  LeaveTraining();
  return State::kStop;
}

ReceiveQueue::State ReceiveQueue::FillStep() {
  const bool granted = equal_->left() > 0;
  if (delivery_.current.has_value()) {
    waits_for_grant_ = !granted;
    return granted ? Complete() : State::kWait;
  }
  TrainFeed* feed = equal_->call().empty() ? nullptr : FindFeed(equal_->call());
  while (have_ < wanted_) {
    // Until it is granted, only what is not here yet needs the room of what is.
    if (!granted) {
      if (feed == nullptr || equal_->over()) return State::kWait;
      waits_for_grant_ = HasEnough(feed);
      if (waits_for_grant_) return State::kWait;
    }
    SessionPtr session = feed == nullptr ? nullptr : NextTrainSession(feed);
    if (session != nullptr) {
      feed_in_hand_ = feed->id;
      used_rows_.Read(feed->id);
      if (LeaveOutUsed(session)) TakeFrom(session);
      continue;
    }
    if (!granted || !equal_->fills() || !Repeat()) return State::kWait;
  }
  return granted ? Complete() : State::kWait;
}

bool ReceiveQueue::HasEnough(TrainFeed* feed) {
  int64_t rows = have_;
  const std::vector<SessionPtr> sessions = feed->sessions;  // of which some may leave
  for (const SessionPtr& session : sessions) {
    // Rows that are left out would count, and keep others from coming.
    if (used_rows_.LeavesOut()) {
      used_rows_.Read(feed->id);
      while (!session->buffered.empty() && !LeaveOutUsed(session)) {
      }
    }
    for (const BufferedRows& batch : session->buffered) {
      rows += batch.rows.num_rows();
      if (rows >= wanted_) return true;
    }
  }
  return false;
}

bool ReceiveQueue::Repeat() {
  std::vector<RecordBatch> given = equal_->repeat;
  if (given.empty()) {
    for (const TakenRows& piece : delivery_.pieces) given.push_back(piece.rows);
  }
  while (have_ < wanted_) {
    if (given.empty()) return false;  // the coordinator grants no such step
    for (const RecordBatch& rows : given) {
      const int64_t count = std::min(rows.num_rows(), wanted_ - have_);
      if (count == 0) break;
      delivery_.repeated.push_back(rows.Slice(0, count));
      have_ += count;
    }
  }
  return true;
}

void ReceiveQueue::TakeEqualStep() {
  int64_t repeated = 0;
  for (const RecordBatch& rows : delivery_.repeated) repeated += rows.num_rows();
  equal_->Take(repeated);
  // It is the program's from here on, as pieces are.
  if (delivery_.pieces.empty() && delivery_.current.has_value()) {
    const TakenRows& current = *delivery_.current;
    static_cast<void>(current.session->handed.Advance(current.RowAfter(delivery_.rows)));
  }
  if (!equal_->pad() || !equal_->repeat.empty()) return;
  if (delivery_.pieces.empty() && delivery_.current.has_value()) {
    // A copy: the program is given this very memory, and may write to it. Pieces are joined for it
    // elsewhere. What cannot be copied cannot be joined to a batch either, which says so then.
    RecordBatch first = delivery_.current->rows.Slice(0, delivery_.rows);
    absl::StatusOr<RecordBatch> copy = RecordBatch::Concat(std::span(&first, 1));
    equal_->repeat.push_back(copy.ok() ? *std::move(copy) : std::move(first));
  }
  for (const TakenRows& piece : delivery_.pieces) equal_->repeat.push_back(piece.rows);
}

void ReceiveQueue::DropRest() {
  const std::vector<SessionPtr> sessions = sessions_;
  for (const SessionPtr& session : sessions) {
    if (!session->train() || CallOf(session->open.feed_id) != equal_->call()) continue;
    if (session->handed.Advance(session->next_row)) session->used_row = session->next_row;
    for (const BufferedRows& batch : session->buffered) session->released_bytes += batch.bytes;
    session->buffered.clear();
    LeaveIfRead(session);
  }
  ReleasePieces();
  if (delivery_.current.has_value()) {
    delivery_.current->session->released_bytes += delivery_.current->bytes;
  }
  delivery_ = {};
  have_ = 0;
  equal_->DropRest();
  std::erase_if(feeds_, [](const TrainFeed& feed) { return feed.over(); });
  Serve();
}

void ReceiveQueue::LeaveTraining() {
  delivery_ = {};
  have_ = 0;
  equal_->DropSteps();
  for (const SessionPtr& session : SessionsOf(FeedMode::kTrain)) {
    session->used_row = session->handed.row();
    if (!FinishIfDone(session.get())) Reject(session.get(), train_stop_);
  }
  feeds_.clear();
}

}  // namespace millrace
