#include "feed/receiver/receiver_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/log.h"
#include "core/base/peer_version.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "feed/segment/room_table.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

using Stage = ReceiveSession::Stage;

// The socket thread is not woken when rows are acknowledged, so it looks this often while there are
// sessions. A waiting program does not count on credit that was granted and not used for this long.
constexpr absl::Duration kSweep = absl::Milliseconds(100);
constexpr absl::Duration kWaitInterval = absl::Seconds(1);
// The time between two RECEIVED, and between two ACKs, of a session. One of each per BATCH would
// wake three threads of two processes for numbers that are not urgent; only the last ones are
// waited for.
constexpr absl::Duration kReportInterval = absl::Milliseconds(20);
// The smallest room that is worth a frame.
constexpr int64_t kLeastRoom = int64_t{64} << 10;
constexpr int kMaxSessionsPerPrincipal = 4096;
// While other feeds wait, the feed whose turn it is may bring no rows for this long.
constexpr absl::Duration kTurnPatience = absl::Seconds(10);

void Emit(ReceiveSession* session, FrameType type, std::string metadata,
          std::vector<OutgoingFrame>* frames, uint16_t flags = 0) {
  frames->push_back(
      {.link = session->link,
       .header = {.type = type, .flags = flags, .session = session->id, .seq = session->next_seq++},
       .metadata = std::move(metadata)});
}

// What a feeder that goes on for another one has to know before it sends.
void SayWhereItBegins(ReceiveSession* session, std::vector<OutgoingFrame>* frames) {
  if (!session->open.resumed) return;
  Emit(session, FrameType::kAck, EncodeRow({.row = session->open.first_row}), frames);
}

}  // namespace

ReceiverCore::ReceiverCore(Options options, std::function<void()> wake, Serve serve)
    : options_(std::move(options)),
      budget_(options_.budget_bytes),
      wake_(std::move(wake)),
      serve_(std::move(serve)) {
  MILLRACE_CHECK(!options_.queues.empty() && options_.clock != nullptr);
  for (const std::string& name : options_.queues) {
    slots_.push_back(std::make_unique<Slot>(name, options_.node_name));
  }
}

// --------------------------------------------------------------------------- The socket thread

absl::Status ReceiverCore::CheckAttempt(const OpenFrame& open) {
  if (open.node_nonce != options_.nonce) {
    return absl::FailedPreconditionError(
        absl::StrCat("this is another attempt of ", options_.node_name,
                     " than the session is meant for: look it up again"));
  }
  // After exit 0 the queue answers TERMINATED to training sessions: their rows go to other nodes.
  if (finished_ && !(finished_well_ && open.mode == FeedMode::kTrain)) {
    return absl::FailedPreconditionError(options_.node_name + " is exiting");
  }
  return absl::OkStatus();
}

absl::Status ReceiverCore::CheckOpen(absl::string_view principal, const OpenFrame& open) {
  MILLRACE_RETURN_IF_ERROR(
      CheckVersions({options_.node_name, kMillraceVersion}, {"the feeder", open.version}));
  if (FindSlot(open.queue) == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no queue \"", Ellipsize(EscapeControls(open.queue), 100), "\" at ",
                     options_.node_name, "; there are: ", absl::StrJoin(options_.queues, ", ")));
  }
  const auto it = sessions_of_principal_.find(principal);
  if (it != sessions_of_principal_.end() && it->second >= kMaxSessionsPerPrincipal) {
    return absl::ResourceExhaustedError(
        absl::StrCat(principal, " has ", it->second, " open sessions"));
  }
  return absl::OkStatus();
}

ReceiverCore::SessionPtr ReceiverCore::Open(absl::string_view principal, uint64_t id, uint64_t link,
                                            uint64_t connection, OpenFrame open,
                                            SessionSegment shared) {
  MutexLock lock(&mu_);
  if (absl::Status status = CheckAttempt(open); !status.ok()) {
    RefuseLocked(link, id, status, /*program_ended=*/true);
    return nullptr;
  }
  if (absl::Status status = CheckOpen(principal, open); !status.ok()) {
    RefuseLocked(link, id, status);
    return nullptr;
  }
  Slot* slot = FindSlot(open.queue);
  std::vector<SessionPtr> before;
  if (open.resumed) before = slot->queue.TakeOver(&open);
  auto session = std::make_shared<ReceiveSession>(id, std::string(principal), link, connection,
                                                  std::move(open));
  session->before = std::move(before);
  session->shared = std::move(shared);
  session->next_wait = options_.clock->SteadyNow();
  ++sessions_of_principal_[session->principal];
  slot->queue.Add(session);
  Refill(slot);
  return session;
}

void ReceiverCore::Refuse(uint64_t link, uint64_t id, const absl::Status& status) {
  MutexLock lock(&mu_);
  RefuseLocked(link, id, status);
}

void ReceiverCore::RefuseLocked(uint64_t link, uint64_t id, const absl::Status& status,
                                bool program_ended) {
  ++refused_;
  refusals_.push_back({.link = link,
                       .header = {.type = FrameType::kError, .session = id},
                       .metadata = EncodeError({.code = status.code(),
                                                .message = std::string(status.message()),
                                                .program_ended = program_ended})});
}

absl::StatusOr<Schema> ReceiverCore::SetSchema(const SessionPtr& session, const Schema& schema) {
  MutexLock lock(&mu_);
  Slot* slot = SlotOf(*session);
  absl::StatusOr<Schema> result = slot->queue.SetSchema(session.get(), schema);
  Refill(slot);
  return result;
}

absl::Status ReceiverCore::AddRows(const SessionPtr& session, BufferedRows rows) {
  MutexLock lock(&mu_);
  Slot* slot = SlotOf(*session);
  absl::Status status = slot->queue.AddRows(session.get(), std::move(rows));
  slot->moved = options_.clock->SteadyNow();
  Refill(slot);
  return status;
}

absl::Status ReceiverCore::Block(const SessionPtr& session, int64_t needed) {
  MutexLock lock(&mu_);
  session->next_wait = options_.clock->SteadyNow() + kWaitInterval;
  return SlotOf(*session)->queue.Block(session.get(), needed, ++blocked_);
}

absl::Status ReceiverCore::RaiseResultLimit(const SessionPtr& session, int64_t limit) {
  MutexLock lock(&mu_);
  MILLRACE_RETURN_IF_ERROR(SlotOf(*session)->queue.RaiseResultLimit(session.get(), limit));
  // The feeder looks no more at what it has made room behind.
  if (const auto& segment = session->shared.segment; segment != nullptr) {
    segment->TakeBack(session->id, limit - session->open.result_limit);
  }
  return absl::OkStatus();
}

absl::Status ReceiverCore::Mapped(const SessionPtr& session, const MappedFrame& mapped) {
  MutexLock lock(&mu_);
  if (session->over()) return absl::OkStatus();
  if (session->shared.segment == nullptr || session->shared.mapped) {
    return absl::InvalidArgumentError("MAPPED without SEGMENT, or twice");
  }
  session->shared.mapped = mapped.reason.empty();
  session->shared.results = mapped.results;
  if (!session->shared.mapped) {
    why_not_shared_ =
        absl::StrCat(session->principal, ": ", Ellipsize(EscapeControls(mapped.reason), 200));
    session->shared = {};
  }
  return absl::OkStatus();
}

void ReceiverCore::NotShared(const std::string& why) {
  MutexLock lock(&mu_);
  why_not_shared_ = why;
}

absl::Status ReceiverCore::EndPartition(const SessionPtr& session, int64_t end_row) {
  MutexLock lock(&mu_);
  Slot* slot = SlotOf(*session);
  absl::Status status = slot->queue.EndPartition(session.get(), end_row);
  Refill(slot);
  return status;
}

absl::Status ReceiverCore::Revoke(const SessionPtr& session, int64_t max_row) {
  MutexLock lock(&mu_);
  Slot* slot = SlotOf(*session);
  absl::Status status = slot->queue.Revoke(session.get(), max_row);
  Refill(slot);
  return status;
}

void ReceiverCore::Abort(const SessionPtr& session) {
  MutexLock lock(&mu_);
  Slot* slot = SlotOf(*session);
  slot->queue.Abort(session.get());
  Refill(slot);
}

void ReceiverCore::Fail(const SessionPtr& session, const absl::Status& status) {
  MutexLock lock(&mu_);
  Slot* slot = SlotOf(*session);
  slot->queue.Fail(session.get(), status);
  Refill(slot);
}

std::vector<ReceiverCore::SessionPtr> ReceiverCore::AllSessions() {
  std::vector<SessionPtr> sessions;
  for (const auto& slot : slots_) {
    const auto& of_queue = slot->queue.sessions();
    sessions.insert(sessions.end(), of_queue.begin(), of_queue.end());
  }
  return sessions;
}

void ReceiverCore::LinkLost(uint64_t link) {
  MutexLock lock(&mu_);
  for (const SessionPtr& session : AllSessions()) {
    if (session->link != link) continue;
    SlotOf(*session)->queue.Disconnect(session.get(), absl::UnavailableError("reply link lost"));
  }
  RefillAll();
}

void ReceiverCore::ConnectionLost(uint64_t connection) {
  MutexLock lock(&mu_);
  const absl::Status status = absl::UnavailableError(
      absl::StrCat(options_.node_name, " lost the data connection of this session"));
  for (const SessionPtr& session : AllSessions()) {
    if (session->connection != connection) continue;
    SlotOf(*session)->queue.Disconnect(session.get(), status);
  }
  RefillAll();
}

void ReceiverCore::Poison(absl::string_view principal, const absl::Status& status) {
  MutexLock lock(&mu_);
  ++poisoned_;
  for (const SessionPtr& session : AllSessions()) {
    if (session->principal == principal) SlotOf(*session)->queue.Fail(session.get(), status);
  }
  RefillAll();
}

void ReceiverCore::Break(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (broken_.ok()) broken_ = status;
  for (const auto& slot : slots_) {
    slot->may_stop = true;
    slot->changed.SignalAll();
  }
  collected_.SignalAll();
}

// --------------------------------------------------------------------------------------- Frames

int64_t ReceiverCore::Committed() {
  int64_t bytes = 0;
  for (const auto& slot : slots_) bytes += ReceiveBudget::Committed(slot->queue);
  return bytes;
}

bool ReceiverCore::IsStarved(const Slot& slot, absl::Duration now) {
  if (!slot.queue.asking() || slot.outcome.has_value()) return false;
  if (slot.queue.waits_for_grant()) return false;
  const bool stale = now - slot.moved >= kSweep;
  for (const SessionPtr& session : slot.queue.sessions()) {
    if (session->open.mode != slot.queue.mode() || session->AheadBytes() == 0) continue;
    if (!slot.queue.HasTurn(*session)) continue;
    // What it needed is on its way; what it was promised ahead of need may be, or its source waits.
    if (session->needed > session->received_bytes || !stale) return false;
  }
  return true;
}

std::vector<ReceiveBudget::Queue> ReceiverCore::QueuesForBudget(absl::Duration now) {
  std::vector<ReceiveBudget::Queue> queues;
  queues.reserve(slots_.size());
  for (const auto& slot : slots_) {
    queues.push_back({.queue = &slot->queue, .starved = IsStarved(*slot, now)});
  }
  return queues;
}

void ReceiverCore::CollectCredit(absl::Duration now, Turn* turn) {
  for (const ReceiveBudget::Grant& grant : budget_.Grants(QueuesForBudget(now))) {
    ReceiveSession& session = *grant.session;
    const SessionSegment& shared = session.shared;
    if (!session.accepted && shared.segment != nullptr && !shared.mapped) {
      const SegmentName& name = shared.segment->name();
      Emit(&session, FrameType::kSegment,
           EncodeSegment({.pid = name.pid, .fd = name.fd, .bytes = name.bytes, .id = name.id}),
           &turn->frames, kFrameFlagOptional);
    }
    session.credit_sent = {.limit = grant.limit, .released = session.released_bytes};
    if (!session.accepted) SayWhereItBegins(&session, &turn->frames);
    session.accepted = true;
    SlotOf(session)->moved = now;
    CollectRoom(&session, turn);  // before the credit: a feeder that waits for credit sends at once
    Emit(&session, FrameType::kCredit, EncodeCredit(session.credit_sent), &turn->frames);
  }
  peak_committed_ = std::max(peak_committed_, Committed());
}

// Room for what the session may send, and one BATCH more, since what is left at the end of a room
// is too small for the next. In few frames: not before half of it is used.
void ReceiverCore::CollectRoom(ReceiveSession* session, Turn* turn) {
  if (!session->shared.mapped || session->over() || session->stage != Stage::kServed) return;
  const int64_t ahead = session->AheadBytes();
  if (ahead == 0) return;
  const int64_t unused = session->shared.segment->unused_bytes(session->id);
  if (unused > ahead / 2) return;
  const std::optional<Room> room =
      session->shared.segment->Grant(session->id, ahead + session->largest_batch_bytes - unused,
                                     std::max(kLeastRoom, session->largest_batch_bytes));
  if (!room.has_value()) return;  // its rows come through the socket
  Emit(session, FrameType::kRoom, EncodeRoom({.offset = room->offset, .length = room->length}),
       &turn->frames, kFrameFlagOptional);
}

// Tells sessions that wait for credit that they are not forgotten.
void ReceiverCore::CollectBlocked(absl::Duration now, Turn* turn) {
  int64_t progress = 0;
  for (const auto& slot : slots_) progress += slot->queue.progress();
  int64_t position = 0;
  for (ReceiveSession* session : ReceiveBudget::Blocked(QueuesForBudget(now))) {
    ++position;
    if (session->next_wait <= now) {
      Emit(session, FrameType::kWait, EncodeWait({.position = position, .progress = progress}),
           &turn->frames);
      session->next_wait = now + kWaitInterval;
    }
  }
}

void ReceiverCore::PassTurn(Slot* slot, absl::Duration now) {
  std::optional<ReceiveQueue::Holder> holder = slot->queue.holder();
  if (holder != slot->holder) {
    slot->holder = std::move(holder);
    slot->held_since = now;
  } else if (holder.has_value() && now - slot->held_since >= kTurnPatience) {
    slot->holder.reset();
    slot->queue.PassTurn();
    Refill(slot);
  }
}

ReceiverCore::Turn ReceiverCore::Collect() {
  MutexLock lock(&mu_);
  Turn turn;
  turn.frames = std::exchange(refusals_, {});
  const absl::Duration now = options_.clock->SteadyNow();
  for (const auto& slot : slots_) {
    const std::vector<SessionPtr>& sessions = slot->queue.sessions();
    const size_t open = sessions.size();
    for (size_t i = 0; i < sessions.size();) {
      if (!slot->queue.FinishIfDone(sessions[i].get())) ++i;  // otherwise it has left the list
    }
    if (sessions.size() < open) Refill(slot.get());  // the next one is read
    PassTurn(slot.get(), now);
  }
  CollectCredit(now, &turn);
  CollectBlocked(now, &turn);
  for (const auto& slot : slots_) {
    for (const SessionPtr& session : slot->queue.sessions()) {
      CollectOpen(slot.get(), session, now, &turn);
    }
    std::vector<SessionPtr> ended = slot->queue.TakeEnded();
    for (const SessionPtr& session : ended) {
      CollectEnded(slot.get(), session.get(), now, &turn);
      session->results.clear();  // what is left nobody waits for, and the program may hold it long
      if (--sessions_of_principal_[session->principal] == 0) {
        sessions_of_principal_.erase(session->principal);
      }
      turn.ended.push_back(session);
    }
    for (std::string& warning : slot->queue.TakeWarnings()) {
      turn.warnings.push_back(std::move(warning));
    }
    TellRows(slot.get());
    if (const auto& equal = slot->queue.equal(); equal != nullptr) {
      turn.next = std::min(turn.next, equal->due() - now);
    }
    slot->full.Set(slot->queue.Full(), now);
    slot->queued.Set(slot->queue.HasQueued(), now);
  }
  if (sending_ > 0) collected_.SignalAll();
  return turn;
}

void ReceiverCore::CollectOpen(Slot* slot, const SessionPtr& session, absl::Duration now,
                               Turn* turn) {
  if (session->stage == Stage::kWaiting) {
    if (session->next_wait <= now) {
      Emit(session.get(), FrameType::kWait, EncodeWait(slot->queue.Wait(*session)), &turn->frames);
      session->next_wait = now + kWaitInterval;
    }
    turn->next = std::min(turn->next, session->next_wait - now);
    return;
  }
  turn->next = std::min(turn->next, kSweep);
  if (session->detached) return;
  CollectRoom(session.get(), turn);
  CollectRows(slot, session.get(), now, turn);
}

void ReceiverCore::CollectRows(Slot* slot, ReceiveSession* session, absl::Duration now,
                               Turn* turn) {
  const bool due = now >= session->next_report || session->stage == Stage::kEnded;
  // RECEIVED(end_row) must mean that END_PARTITION is here too: a feeder that sees it reports the
  // partition, which may bring feed_end before the END_PARTITION that it has sent. So the newest
  // BATCH is not confirmed before something follows it.
  const bool complete = session->end_row.has_value();
  const int64_t received = complete ? session->next_row : session->last_batch_row;
  const bool last = complete && !session->end_confirmed;
  bool waits = false;
  if (session->revoked) {
    if (!std::exchange(session->revoked_sent, true)) {
      Emit(session, FrameType::kRevoked, EncodeRow({.row = *session->end_row}), &turn->frames);
    }
  } else if (last || (due && received > session->received_sent)) {
    session->received_sent = received;
    session->end_confirmed = complete;
    session->next_report = now + kReportInterval;
    Emit(session, FrameType::kReceived, EncodeRow({.row = received}), &turn->frames);
  } else {
    waits = received > session->received_sent;
  }
  CollectResults(session, turn);
  const int64_t used = session->used_row.load(std::memory_order_relaxed);
  if (used > session->acked_sent && due) {
    slot->queue.CountAcked(used - session->acked_sent);
    session->acked_sent = used;
    session->next_report = now + kReportInterval;
    Emit(session, FrameType::kAck, EncodeRow({.row = used}), &turn->frames);
  } else {
    waits = waits || used > session->acked_sent;
  }
  if (waits) turn->next = std::min(turn->next, session->next_report - now);
}

void ReceiverCore::CollectResults(ReceiveSession* session, Turn* turn) {
  while (!session->results.empty()) {
    OutgoingFrame& result = session->results.front();
    const bool counts = result.header.type != FrameType::kSchema;
    if (counts && session->result_sent_bytes >= session->result_limit) return;
    session->result_sent_bytes += result.body_bytes;
    session->result_unsent_bytes -= result.body_bytes;
    result.link = session->link;
    result.header.session = session->id;
    result.header.seq = session->next_seq++;
    if (result.room != nullptr) result.room->Lend(session->id, session->result_sent_bytes);
    turn->frames.push_back(std::move(result));
    session->results.pop_front();
  }
}

void ReceiverCore::CollectEnded(Slot* slot, ReceiveSession* session, absl::Duration now,
                                Turn* turn) {
  if (!session->final.has_value()) return;
  if (session->detached) {
    Turn unheard;  // counts, and nothing else
    CollectRows(slot, session, now, &unheard);
    return;
  }
  auto& [type, metadata] = *session->final;
  // A partition without rows is done before its session was ever looked at.
  if (session->accepted) CollectRows(slot, session, now, turn);
  // Another node goes on behind it.
  if (!session->accepted && type == FrameType::kTerminated) {
    SayWhereItBegins(session, &turn->frames);
  }
  Emit(session, type, std::move(metadata), &turn->frames);
}

// --------------------------------------------------------------------------------- Every thread

ReceiverCore::Slot* ReceiverCore::FindSlot(absl::string_view queue) {
  for (const auto& slot : slots_) {
    if (slot->queue.name() == queue) return slot.get();
  }
  return nullptr;
}

void ReceiverCore::TellRows(Slot* slot) {
  const std::shared_ptr<EqualSteps> equal = slot->queue.equal();
  if (equal == nullptr) return;
  const bool filled = equal->fills();
  const absl::Duration now = options_.clock->SteadyNow();
  while (std::optional<ReceiverRows> rows = slot->queue.ReportEqual(now)) options_.tell_rows(*rows);
  // With its answer the node may fill a batch that waits for rows. If all is granted already, no
  // grant will come to do it.
  if (!filled && equal->fills()) FillSlot(slot);
}

void ReceiverCore::Refill(Slot* slot) {
  FillSlot(slot);
  TellRows(slot);
}

void ReceiverCore::FillSlot(Slot* slot) {
  if (!slot->queue.asking() || slot->outcome.has_value()) return;
  const ReceiveQueue::State state = slot->queue.Fill();
  if (state == ReceiveQueue::State::kWait) return;
  slot->outcome = state;
  slot->changed.SignalAll();
}

void ReceiverCore::RefillAll() {
  for (const auto& slot : slots_) Refill(slot.get());
}

}  // namespace millrace
