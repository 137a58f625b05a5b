#include "feed/receiver/receive_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"

namespace millrace {
namespace {

// Ended feeds that are remembered. A late session of an older one would begin a feed of its own,
// which holds up later feeds until it loses its turn.
constexpr size_t kMaxEndedFeeds = 1024;

std::string RowRange(int64_t first, int64_t end) {
  return end - first == 1 ? absl::StrCat("row ", first, " is")
                          : absl::StrCat("rows ", first, "..", end - 1, " are");
}

absl::Status Unanswered(absl::string_view node, const ReceiveSession& session, int64_t asked_rows) {
  return absl::FailedPreconditionError(absl::StrCat(
      node, " returned ", session.result_row, " results for the ", asked_rows, " rows of ",
      session.PartitionName(), ": ", RowRange(session.result_row, asked_rows), " unanswered"));
}

// Nothing is missing but the feeder's credit for the last results.
bool IsAnswered(const ReceiveSession& session) {
  return !session.train() && session.end_row.has_value() && session.result_row >= *session.end_row;
}

}  // namespace

// ------------------------------------------------------------------------------------- Delivery

void ReceiveQueue::SetMode(FeedMode mode) {
  mode_ = mode;
  Serve();
}

void ReceiveQueue::Ask(int64_t rows, std::optional<TakenRows> current) {
  asking_ = true;
  complete_ = false;
  wanted_ = rows;
  read_ = read_ || mode_ == FeedMode::kTrain;
  if (equal_ != nullptr && mode_ == FeedMode::kTrain) {
    if (!std::exchange(equal_begun_, true)) {
      for (const SessionPtr& session : SessionsOf(FeedMode::kTrain)) {
        CountEqual(*session, session->handed.row(), session->next_row, 1);
      }
    }
    // What was collected when NextBatch returned an error instead.
    if (!delivery_.pieces.empty() || delivery_.current.has_value()) return;
  }
  have_ = 0;
  delivery_ = {};
  feed_in_hand_.clear();
  session_in_hand_.reset();
  if (!current.has_value()) return;
  if (current->remaining() == 0 || current->session->handed.closed()) {
    current->session->released_bytes += current->bytes;
    return;
  }
  have_ = current->remaining();
  feed_in_hand_ = current->session->open.feed_id;
  session_in_hand_ = current->session;
  if (have_ >= rows) {  // the reader slices this much by itself; here for completeness
    have_ = rows;
    current->first_row += current->offset;
    current->rows = current->rows.Slice(current->offset, current->remaining());
    current->offset = 0;
    delivery_.current = *std::move(current);
    return;
  }
  TakenRows head = *std::move(current);
  head.rows = head.rows.Slice(head.offset, have_);
  head.first_row += head.offset;
  head.offset = 0;
  delivery_.pieces.push_back(std::move(head));
}

ReceiveQueue::State ReceiveQueue::Fill() {
  MILLRACE_CHECK(asking_);
  if (complete_) return State::kReady;
  DropDiscarded();
  if (!mode_.has_value()) return State::kWait;
  State state = State::kWait;
  if (*mode_ == FeedMode::kInference) {
    state = FillInference();
  } else {
    state = equal_ == nullptr ? FillTrain() : FillEqual();
  }
  // What waits for more rows is a copy by its nature: its credit comes back now.
  if (state == State::kWait) ReleasePieces();
  if (state == State::kStop || state == State::kError) asking_ = false;
  return state;
}

Delivery ReceiveQueue::Take() {
  asking_ = false;
  session_in_hand_.reset();
  return std::exchange(delivery_, {});
}

ReceiveQueue::State ReceiveQueue::FillTrain() {
  while (have_ < wanted_) {
    TrainFeed* feed = feeds_.empty() ? nullptr : &feeds_.front();
    const bool same_feed = feed != nullptr && (have_ == 0 || feed->id == feed_in_hand_);
    if (have_ > 0 && !same_feed) return Complete();
    if (feed == nullptr) return train_stop_.empty() ? State::kWait : State::kStop;
    if (SessionPtr session = NextTrainSession(feed); session != nullptr) {
      feed_in_hand_ = feed->id;
      used_rows_.Read(feed->id);
      if (LeaveOutUsed(session)) TakeFrom(session);
      continue;
    }
    if (!feed->ended || !feed->sessions.empty()) return State::kWait;
    feeds_.pop_front();
  }
  return Complete();
}

ReceiveQueue::State ReceiveQueue::FillInference() {
  while (have_ < wanted_) {
    SessionPtr session = inference_.empty() ? nullptr : inference_.front();
    if (have_ > 0 && session != session_in_hand_) return Complete();
    if (session == nullptr) return inference_stop_.empty() ? State::kWait : State::kStop;
    if (!session->buffered.empty()) {
      session_in_hand_ = session;
      TakeFrom(session);
      continue;
    }
    if (!session->end_row.has_value()) return State::kWait;
    if (have_ > 0) return Complete();
    if (IsAnswered(*session)) return State::kWait;
    FailUnanswered(session);
  }
  return Complete();
}

ReceiveQueue::State ReceiveQueue::Complete() {
  complete_ = true;
  delivery_.rows = have_;
  const size_t parts = delivery_.pieces.size() + (delivery_.current.has_value() ? 1 : 0);
  if (delivery_.pieces.size() == 1 && parts == 1 &&
      delivery_.repeated.empty()) {  // a short tail that lies in one BATCH: no copy
    delivery_.current = std::move(delivery_.pieces.front());
    delivery_.pieces.clear();
  } else {
    ReleasePieces();
    HandOutPieces();
  }
  if (equal_ != nullptr && mode_ == FeedMode::kTrain) TakeEqualStep();
  return State::kReady;
}

void ReceiveQueue::TakeFrom(const SessionPtr& session) {
  BufferedRows batch = std::move(session->buffered.front());
  session->buffered.pop_front();
  const int64_t missing = wanted_ - have_;
  const int64_t rows = batch.rows.num_rows();
  TakenRows taken{.session = session,
                  .rows = std::move(batch.rows),
                  .first_row = batch.first_row,
                  .bytes = batch.bytes};
  if (delivery_.pieces.empty() && rows >= missing) {
    delivery_.current = std::move(taken);
    have_ = wanted_;
  } else if (rows > missing) {
    delivery_.pieces.push_back(
        {.session = session, .rows = taken.rows.Slice(0, missing), .first_row = taken.first_row});
    taken.offset = missing;
    delivery_.current = std::move(taken);
    have_ = wanted_;
  } else {
    delivery_.pieces.push_back(std::move(taken));
    have_ += rows;
  }
  LeaveIfRead(session);
}

bool ReceiveQueue::LeaveOutUsed(const SessionPtr& session) {
  if (!used_rows_.LeavesOut()) return true;
  BufferedRows& batch = session->buffered.front();
  const int64_t end = batch.first_row + batch.rows.num_rows();
  const UsedRows::Stretch unused = used_rows_.FirstUnused(session->open, batch.first_row, end);
  if (unused.first > batch.first_row) PassOver(session, unused.first);
  if (unused.first == end) {
    session->released_bytes += batch.bytes;
    session->buffered.pop_front();
    LeaveIfRead(session);
    return false;
  }
  if (unused.end < end) {  // what follows is a batch of its own, and has the credit
    BufferedRows rest = batch;
    rest.rows = batch.rows.Slice(unused.end - batch.first_row, end - unused.end);
    rest.first_row = unused.end;
    batch.bytes = 0;
    session->buffered.insert(session->buffered.begin() + 1, std::move(rest));
  }
  BufferedRows& first = session->buffered.front();  // the deque has moved
  first.rows = first.rows.Slice(unused.first - first.first_row, unused.end - unused.first);
  first.first_row = unused.first;
  return true;
}

void ReceiveQueue::PassOver(const SessionPtr& session, int64_t row) {
  const auto piece = std::find_if(delivery_.pieces.rbegin(), delivery_.pieces.rend(),
                                  [&](const TakenRows& taken) { return taken.session == session; });
  if (piece != delivery_.pieces.rend()) {
    piece->passed = row - piece->first_row - piece->rows.num_rows();
  } else if (session->handed.Advance(row)) {
    session->used_row = row;  // the reader has said that it uses no earlier one
  }
}

void ReceiveQueue::LeaveIfRead(const SessionPtr& session) {
  if (!session->train() || !session->buffered.empty() || !session->end_row.has_value()) return;
  TrainFeed* feed = FindFeed(session->open.feed_id);
  if (feed != nullptr) feed->Erase(session.get());
}

ReceiveQueue::SessionPtr ReceiveQueue::NextTrainSession(TrainFeed* feed) {
  const size_t count = feed->sessions.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t candidate = (feed->turn + i) % count;
    if (feed->sessions[candidate]->buffered.empty()) continue;
    SessionPtr session = feed->sessions[candidate];
    // If this BATCH is the session's last it leaves the list, and the next one has its index.
    const bool leaves = session->end_row.has_value() && session->buffered.size() == 1;
    feed->turn = leaves ? candidate : candidate + 1;
    return session;
  }
  return nullptr;
}

void ReceiveQueue::DropDiscarded() {
  // With a `current` the delivery is complete, and was not changed since; or it is all that there
  // is, and waits for its step.
  if (delivery_.pieces.empty() && delivery_.current.has_value() &&
      delivery_.current->session->handed.closed()) {
    delivery_.current->session->released_bytes += delivery_.current->bytes;
    delivery_.current.reset();
    have_ = 0;
  }
  std::erase_if(delivery_.pieces, [this](const TakenRows& piece) {
    if (!piece.session->handed.closed()) return false;
    have_ -= piece.rows.num_rows();
    piece.session->released_bytes += piece.bytes;
    return true;
  });
}

void ReceiveQueue::ReleasePieces() {
  for (TakenRows& piece : delivery_.pieces) {
    piece.session->released_bytes += std::exchange(piece.bytes, 0);
  }
}

// A joined batch is the program's from here on: what its pieces lose later would leave it short.
void ReceiveQueue::HandOutPieces() {
  for (const TakenRows& piece : delivery_.pieces) {
    static_cast<void>(piece.session->handed.Advance(piece.RowAfter(piece.rows.num_rows())));
  }
}

bool ReceiveQueue::Stopped(FeedMode mode) const {
  if (mode == FeedMode::kInference) return !inference_stop_.empty();
  return !train_stop_.empty() && (equal_ == nullptr || !equal_->owes()) &&
         std::all_of(feeds_.begin(), feeds_.end(),
                     [](const TrainFeed& feed) { return feed.sessions.empty(); });
}

FeedPosition ReceiveQueue::Position() const {
  UsedRows rows = used_rows_;
  for (const SessionPtr& session : sessions_) {
    if (session->train()) rows.Add(session->open, session->handed.row());
  }
  return rows.Position();
}

absl::Status ReceiveQueue::Resume(const FeedPosition& position) {
  return Annotate(used_rows_.LeaveOut(position), node_name_);
}

// -------------------------------------------------------------------------------------- Results

absl::StatusOr<ReceiveQueue::ResultPlace> ReceiveQueue::PlaceResults(int64_t rows) {
  ResultPlace place;
  while (!orphans_.empty() && place.skip < rows) {
    ReceiveSession& orphan = *orphans_.front();
    const int64_t owed = orphan.handed.row() - orphan.result_row;
    const int64_t answered = std::min(owed, rows - place.skip);
    orphan.result_row += answered;
    place.skip += answered;
    if (answered == owed) orphans_.pop_front();
  }
  rows -= place.skip;
  if (rows == 0) return place;
  SessionPtr session = inference_.empty() ? nullptr : inference_.front();
  if (session == nullptr || session->stage == ReceiveSession::Stage::kWaiting) {
    return absl::FailedPreconditionError(absl::StrCat(node_name_, " returned ", rows,
                                                      " results on the queue \"", name_,
                                                      "\" where no rows wait for any"));
  }
  const int64_t handed = session->handed.row();
  if (session->result_row + rows > handed) {
    absl::Status status = absl::FailedPreconditionError(
        absl::StrCat(node_name_, " returned ", session->result_row + rows, " results for the ",
                     handed, " rows of ", session->PartitionName(),
                     " that it had: ", session->result_row + rows - handed, " too many"));
    session->result_row = handed;  // nothing is owed any more
    warnings_.emplace_back(status.message());
    Fail(session.get(), status);
    return status;
  }
  place.first_row = session->result_row;
  place.session = std::move(session);
  return place;
}

void ReceiveQueue::ResultsAdded(const SessionPtr& session, int64_t rows) {
  session->result_row += rows;
  stats_.rows_returned += rows;
  ++progress_;
  FinishIfDone(session.get());
}

void ReceiveQueue::FailUnanswered(const SessionPtr& session) {
  const absl::Status status = Unanswered(node_name_, *session, *session->end_row);
  warnings_.emplace_back(status.message());
  session->result_row = session->handed.row();  // the program has given them up
  Fail(session.get(), status);
}

// --------------------------------------------------------------------------------------- Ending

void ReceiveQueue::EndFeed(FeedMode mode, absl::string_view why) {
  std::string& stop = mode == FeedMode::kTrain ? train_stop_ : inference_stop_;
  if (!stop.empty()) return;
  stop = std::string(why);
  for (const SessionPtr& session : SessionsOf(mode)) {
    const bool complete = session->stage == ReceiveSession::Stage::kReceived;
    if (mode == FeedMode::kTrain ? complete : IsAnswered(*session)) continue;
    Reject(session.get(), why);
  }
  for (TrainFeed& feed : feeds_) feed.ended = feed.ended || mode == FeedMode::kTrain;
}

absl::Status ReceiveQueue::Terminate(FeedMode mode, absl::string_view why) {
  absl::Status result;
  (mode == FeedMode::kTrain ? train_stop_ : inference_stop_) = std::string(why);
  left_.insert(mode);
  if (mode == FeedMode::kTrain && equal_ != nullptr) equal_->LeaveReading();
  for (const SessionPtr& session : SessionsOf(mode)) {
    session->used_row = session->handed.row();
    session->before.clear();
    if (FinishIfDone(session.get()) || IsAnswered(*session)) continue;
    if (mode == FeedMode::kTrain) {
      End(session.get(), FrameType::kTerminated, EncodeTerminated({.message = std::string(why)}));
    } else if (session->handed.row() > session->result_row) {
      const absl::Status status = Unanswered(node_name_, *session, session->handed.row());
      result.Update(status);
      Fail(session.get(), status);
    } else {
      Fail(session.get(), absl::FailedPreconditionError(absl::StrCat(
                              why, " before it had answered ", session->PartitionName(),
                              " from row ", session->result_row)));
    }
  }
  if (mode == FeedMode::kTrain) {
    feeds_.clear();
    in_hand_.clear();
  }
  return result;
}

absl::Status ReceiveQueue::Finish(const absl::Status& status) {
  if (status.ok()) {
    const std::string why = absl::StrCat(node_name_, " has exited");
    Terminate(FeedMode::kTrain, why).IgnoreError();  // no results in training
    return Terminate(FeedMode::kInference, why);
  }
  failed_ = true;
  const std::vector<SessionPtr> sessions = sessions_;
  train_stop_ = inference_stop_ = absl::StrCat(node_name_, " has failed");
  for (const SessionPtr& session : sessions) Fail(session.get(), status, /*program_ended=*/true);
  return absl::OkStatus();
}

void ReceiveQueue::FeedEnd(absl::string_view feed_id, bool aborted) {
  ended_feeds_.emplace_back(feed_id);
  if (ended_feeds_.size() > kMaxEndedFeeds) ended_feeds_.pop_front();
  used_rows_.End(feed_id, aborted);
  if (equal_ != nullptr && aborted) {
    equal_->Abort(CallOf(feed_id), absl::AbortedError("the Train call was aborted"));
  }
  TrainFeed* feed = FindFeed(feed_id);
  if (feed == nullptr) return;
  feed->received = true;
  // Ranks that end together do so by what they are granted.
  feed->ended = feed->ended || aborted || equal_ == nullptr;
  EndIncomplete(feed_id, aborted,
                absl::AbortedError(
                    absl::StrCat("the feed ", feed_id, aborted ? " was aborted" : " has ended")));
  Serve();
}

void ReceiveQueue::EndIncomplete(absl::string_view feed_id, bool all, const absl::Status& status) {
  std::vector<SessionPtr> doomed;
  for (const SessionPtr& session : sessions_) {
    const bool complete = session->stage == ReceiveSession::Stage::kReceived;
    const std::string& id = session->open.feed_id;
    const bool of_feed = id == feed_id || (all && FeedKey(id) == FeedKey(feed_id));
    if (session->train() && of_feed && (all || !complete)) doomed.push_back(session);
  }
  for (const SessionPtr& session : doomed) Fail(session.get(), status);
}

void ReceiveQueue::Reject(ReceiveSession* session, absl::string_view why) {
  if (session->train()) {
    // The program may use what it has in hand, and its feeder will not hear of that.
    session->handed.Close();
    const int64_t row = session->in_hand() ? session->handed.row() : 0;
    End(session, FrameType::kTerminated,
        EncodeTerminated({.message = std::string(why), .row = row}));
  } else {
    Fail(session, absl::CancelledError(why));
  }
}

void ReceiveQueue::Fail(ReceiveSession* session, const absl::Status& status, bool program_ended) {
  End(session, FrameType::kError,
      EncodeError({.code = status.code(),
                   .message = std::string(status.message()),
                   .program_ended = program_ended}));
}

void ReceiveQueue::Abort(ReceiveSession* session) { EndSilently(session); }

void ReceiveQueue::Disconnect(ReceiveSession* session, const absl::Status& status) {
  if (session->train() && session->stage == ReceiveSession::Stage::kReceived) {
    session->detached = true;
    FinishIfDone(session);
    return;
  }
  Fail(session, status);
}

bool ReceiveQueue::FinishIfDone(ReceiveSession* session) {
  if (session->stage != ReceiveSession::Stage::kReceived) return false;
  const int64_t end_row = *session->end_row;
  const int64_t done_row = session->train() ? session->used_row.load() : session->result_row;
  if (done_row < end_row || !session->ResultsFit()) return false;
  std::erase_if(session->before, [](const SessionPtr& old) { return !old->in_hand(); });
  if (!session->before.empty()) return false;
  const int64_t rows = end_row - session->open.first_row;
  if (!session->train()) session->used_row = end_row;
  End(session, FrameType::kDone,
      EncodeDone({.rows_in = rows, .rows_out = session->train() ? 0 : rows}));
  return true;
}

void ReceiveQueue::End(ReceiveSession* session, FrameType type, std::string metadata) {
  if (session->stage == ReceiveSession::Stage::kEnded) return;
  session->final.emplace(type, std::move(metadata));
  EndSilently(session);
}

void ReceiveQueue::EndSilently(ReceiveSession* session) {
  if (session->stage == ReceiveSession::Stage::kEnded) return;
  session->stage = ReceiveSession::Stage::kEnded;
  session->handed.Close();
  if (session->train()) {
    used_rows_.Add(session->open, session->handed.row());
    CountEqual(*session, session->handed.row(), session->next_row, -1);
  }
  session->buffered.clear();
  session->shared = {};  // the program may hold the session for long
  ++progress_;
  Remove(session);
  Serve();
}

void ReceiveQueue::Remove(ReceiveSession* session) {
  const auto it = std::find_if(sessions_.begin(), sessions_.end(),
                               [&](const SessionPtr& other) { return other.get() == session; });
  MILLRACE_CHECK(it != sessions_.end());
  SessionPtr owner = *it;
  sessions_.erase(it);
  if (!session->train()) {
    std::erase_if(inference_, [&](const SessionPtr& other) { return other.get() == session; });
    if (session->handed.row() > session->result_row) orphans_.push_back(owner);
    ended_.push_back(std::move(owner));
    return;
  }
  std::erase_if(in_hand_, [](const SessionPtr& old) { return !old->in_hand(); });
  if (session->in_hand()) in_hand_.push_back(owner);
  // What it waited for, whoever feeds the partition next waits for too.
  session->before.clear();
  if (TrainFeed* feed = FindFeed(session->open.feed_id); feed != nullptr) {
    feed->Erase(session);
    // A feed that never brought a row must not hold up the others.
    if (!feed->begun && !feed->ended && feed->sessions.empty()) {
      const auto it = std::find_if(feeds_.begin(), feeds_.end(),
                                   [feed](const TrainFeed& other) { return &other == feed; });
      feeds_.erase(it);
    }
  }
  ended_.push_back(std::move(owner));
}

// ------------------------------------------------------------------------------------ Observers

void ReceiveQueue::Serve() {
  if (mode_ == FeedMode::kInference) {
    if (inference_.empty()) return;
    ReceiveSession& session = *inference_.front();
    if (session.stage == ReceiveSession::Stage::kWaiting) {
      session.stage = ReceiveSession::Stage::kServed;
    }
    return;
  }
  if (mode_ != FeedMode::kTrain) return;
  const TrainFeed* feed = ServedFeed();
  if (feed == nullptr) return;
  for (const SessionPtr& session : feed->sessions) {
    if (session->stage == ReceiveSession::Stage::kWaiting) {
      session->stage = ReceiveSession::Stage::kServed;
    }
  }
}

bool ReceiveQueue::HasTurn(const ReceiveSession& session) const {
  if (!turn_passed_ || !session.train()) return true;
  const TrainFeed* feed = ServedFeed();
  return feed == nullptr || feed->id == FeedKey(session.open.feed_id);
}

std::optional<ReceiveQueue::Holder> ReceiveQueue::holder() const {
  if (equal_ != nullptr) return std::nullopt;  // which feed it is, is not decided here
  if (!asking_ || complete_ || mode_ != FeedMode::kTrain || feeds_.empty()) return std::nullopt;
  const TrainFeed& front = feeds_.front();
  const bool has_rows =
      std::any_of(front.sessions.begin(), front.sessions.end(),
                  [](const SessionPtr& session) { return !session->buffered.empty(); });
  const bool others_wait = std::any_of(feeds_.begin() + 1, feeds_.end(), [](const TrainFeed& feed) {
    return !feed.sessions.empty();
  });
  if (front.ended || has_rows || !others_wait) return std::nullopt;
  return Holder{.feed_id = front.id, .moves = front.moves};
}

void ReceiveQueue::PassTurn() {
  turn_passed_ = true;
  feeds_.push_back(std::move(feeds_.front()));
  feeds_.pop_front();
  warnings_.push_back(absl::StrCat("the feed ", feeds_.back().id,
                                   " brings no rows, has not ended, and keeps the feed ",
                                   feeds_.front().id, " waiting, which is read before it now"));
  Serve();
}

WaitFrame ReceiveQueue::Wait(const ReceiveSession& session) const {
  int64_t position = 0;
  if (session.train()) {
    for (const TrainFeed& feed : feeds_) {
      if (feed.id == FeedKey(session.open.feed_id)) break;
      if (!feed.ended) position += std::max<int64_t>(1, static_cast<int64_t>(feed.sessions.size()));
    }
  } else {
    for (const SessionPtr& other : inference_) {
      if (other.get() == &session) break;
      ++position;
    }
  }
  return {.position = std::max<int64_t>(1, position), .progress = progress_};
}

void ReceiveQueue::CountAcked(int64_t rows) {
  stats_.rows_acked += rows;
  ++progress_;
}

FeedQueueStats ReceiveQueue::stats() const {
  FeedQueueStats stats = stats_;
  for (const SessionPtr& session : sessions_) {
    ++stats.open_sessions;
    if (session->stage == ReceiveSession::Stage::kWaiting) ++stats.waiting_sessions;
    stats.credit_outstanding_bytes += session->CommittedBytes();
    stats.queued_rows += session->next_row - session->handed.row();
    stats.queued_bytes += session->received_bytes - session->released_bytes;
  }
  stats.program_done = mode_.has_value() && left_.count(*mode_) > 0 && Stopped(*mode_) && !failed_;
  return stats;
}

bool ReceiveQueue::Full() const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [](const SessionPtr& session) { return session->blocked(); });
}

bool ReceiveQueue::HasQueued() const {
  return std::any_of(sessions_.begin(), sessions_.end(), [](const SessionPtr& session) {
    return session->next_row > session->handed.row();
  });
}

ReceiveQueue::TrainFeed* ReceiveQueue::FindFeed(absl::string_view feed_id) {
  const std::string key = FeedKey(feed_id);
  for (TrainFeed& feed : feeds_) {
    if (feed.id == key) return &feed;
  }
  return nullptr;
}

const ReceiveQueue::TrainFeed* ReceiveQueue::ServedFeed() const {
  if (equal_ != nullptr) {
    for (const TrainFeed& feed : feeds_) {
      if (feed.id == equal_->call() && !feed.ended && !feed.over()) return &feed;
    }
  }
  for (const TrainFeed& feed : feeds_) {
    if (!feed.ended && !feed.over()) return &feed;
  }
  return nullptr;
}

std::vector<ReceiveQueue::SessionPtr> ReceiveQueue::SessionsOf(FeedMode mode) const {
  std::vector<SessionPtr> sessions;
  for (const SessionPtr& session : sessions_) {
    if (session->open.mode == mode) sessions.push_back(session);
  }
  return sessions;
}

}  // namespace millrace
