// File: feed/feeder/feeder_session.h
//
// The feeder's end of one session (docs/feed_protocol.md, section 4): one partition on its way to
// one node, and, in inference mode, its results on their way back. Made by Feeder::OpenSession().
//
// Defines: SessionOptions, SessionEnd, SessionState, FeedProgress, UnprovenError(), PreparedBatch,
// FeedSession, SessionOrder, SessionOpener.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto session, feeder->OpenSession(target, {.feed_id = id}));
//   while (...) MILLRACE_RETURN_IF_ERROR(session->Send(batch));   // blocks for credit
//   MILLRACE_RETURN_IF_ERROR(session->Finish(rows));
//   MILLRACE_RETURN_IF_ERROR(session->WaitReceived());   // training: the next partition may follow
//   MILLRACE_RETURN_IF_ERROR(session->WaitDone());       // every row is acknowledged
//
// Rows are indexes within the partition: "acknowledged = 64" means that rows 0 to 63 are.

#ifndef FEED_FEEDER_FEEDER_SESSION_H_
#define FEED_FEEDER_FEEDER_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/balance/feed_target.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "feed/feeder/feeder_outbox.h"
#include "feed/feeder/session_socket_side.h"
#include "feed/ipc/ipc.h"
#include "feed/segment/room_table.h"
#include "feed/segment/segment.h"
#include "feed/wire/frame.h"
#include "millrace/option_defaults.h"
#include "millrace/record_batch.h"

namespace millrace {

// When something last moved between this process and a node: shared by the sessions of one job with
// one node, since a queue that serves many sessions in turn acknowledges each of them rarely.
// Thread safety: thread-safe.
class FeedProgress {
 public:
  void Advance(absl::Duration steady_now) {
    last_ns_.store(absl::ToInt64Nanoseconds(steady_now), std::memory_order_relaxed);
  }
  [[nodiscard]] absl::Duration last() const {
    return absl::Nanoseconds(last_ns_.load(std::memory_order_relaxed));
  }

 private:
  std::atomic<int64_t> last_ns_{0};
};

struct SessionOptions {
  std::string feed_id;
  std::string queue = kDefaultQueue;
  FeedMode mode = FeedMode::kTrain;
  int64_t partition = 0;
  int64_t data_epoch = 0;
  int64_t feeder_attempt = 0;
  int64_t first_row = 0;  // train only: the row to resume at
  // Train only: a feeder before this one may have fed rows from first_row on. The node says behind
  // which of them the session begins (SessionState::first_row).
  bool resumed = false;
  // Inference: bytes of results that the node may send ahead of those that were taken, and one
  // more.
  int64_t result_window_bytes = int64_t{16} << 20;
  // The longest wait without progress (docs/feed_protocol.md, section 6).
  absl::Duration feed_timeout = kDefaultFeedTimeout;
  std::shared_ptr<FeedProgress> progress;  // nullptr: one of its own
  // Called, without a lock held, from the thread that serves the feeder's sockets (its own, or one
  // that waits in a session) or from the one that calls Abort(), after state() has changed. Must
  // not block and must not call the Feeder.
  std::function<void()> on_change;
};

enum class SessionEnd {
  kOpen,        // has not ended
  kDone,        // DONE: every row acknowledged, or every result here
  kTerminated,  // TERMINATED: the program reads this queue no more
  kRevoked,  // DONE after Revoke(): rows before acked_rows are used, the others are here to be fed
  kError,    // the node's ERROR
  kFailed,   // the same, because its program has ended with that error
  kBroken,   // the connection is lost; the directory knows more
  kRefused,  // the node does not know this feeder's key
  kUnanswered,  // no CREDIT, WAIT or ERROR in time; UNAUTHENTICATED if who listens is not proven
                // the node
  kBadPeer,     // the node broke the protocol
  kAborted,     // Abort() here, or Feeder::Stop()
};

// Where the time went that was spent on sending.
struct FeederTimes {
  absl::Duration source;  // reading the source; by TrainJob and InferenceJob
  absl::Duration encode;  // making frames of its rows
  absl::Duration credit;  // waiting for the node to take more
  absl::Duration wire;    // handing frames to the socket
};

struct SessionState {
  bool accepted = false;  // the first CREDIT is here
  // The row at which it begins: SessionOptions::first_row, but of a `resumed` one what the node has
  // said, once `told`. A node that does not know how accepts it without.
  int64_t first_row = 0;
  bool told = false;
  int64_t sent_rows = 0;  // as all below: rows before this one; falls as the node says
  int64_t had_rows = 0;   // that were sent before it fell
  int64_t received_rows = 0;
  int64_t acked_rows = 0;
  int64_t returned_rows = 0;           // inference: results that have arrived
  std::optional<int64_t> end_row;      // once Finish() was called
  bool revoking = false;               // Revoke() was called, and has no answer
  std::optional<int64_t> revoked_row;  // REVOKED: the session ends here, what follows was not used
  int64_t wait_position = 0;           // of the last WAIT; 0 once accepted
  FeederTimes times;
  SessionEnd end = SessionEnd::kOpen;
  absl::Status status;  // why it ended; OK for kOpen and kDone
};

// UNAUTHENTICATED: who listens at `place` ("worker:1 at tcp://127.0.0.1:4711") has not proven
// within `time` that it is the node.
[[nodiscard]] absl::Status UnprovenError(absl::string_view place, absl::Duration time);

// A batch in wire form.
struct PreparedBatch {
  int64_t rows = 0;
  EncodedBatch encoded;
  int64_t size_bytes = 0;  // what it costs in credit, at most
};

// Ownership: shared by its users and, until it has ended, by the Feeder.
// Thread safety: thread-safe; Send(), Finish() and NextResult() are for one thread at a time.
// Blocking: where said. Every wait ends at once when the session ends, so Abort() cancels it, and
// after feed_timeout without progress with DEADLINE_EXCEEDED, which says what is missing. A session
// that has ended returns state().status, and for kDone FAILED_PRECONDITION where something was yet
// to be sent. A wait that timed out does not end the session: call Abort().
class FeedSession final : public std::enable_shared_from_this<FeedSession>,
                          private SessionSocketSide {
 public:
  // For Feeder only.
  FeedSession(uint64_t id, FeedTarget target, SessionOptions options, absl::Duration open_timeout,
              std::shared_ptr<FeederOutbox> outbox, int64_t shared_min_bytes = INT64_MAX);

  FeedSession(const FeedSession&) = delete;
  FeedSession& operator=(const FeedSession&) = delete;

  // Blocks until the node has accepted the session, and of a `resumed` one where it begins is
  // known.
  [[nodiscard]] absl::Status WaitAccepted();

  // Sends `batch` as the rows after those sent before. Encodes in the calling thread (large buffers
  // are referred to, not copied) and blocks until the node has accepted the session and has credit
  // for it. A batch without rows does nothing. Returns INVALID_ARGUMENT if the schema is not that
  // of the batches before.
  [[nodiscard]] absl::Status Send(const RecordBatch& batch);

  // Send() in two steps, for a thread that must not block: TrySend() returns false, and leaves
  // `batch` alone, if there is no credit now. The node is told what it needs, so `batch` is then
  // the next one to be sent.
  [[nodiscard]] absl::StatusOr<PreparedBatch> Prepare(const RecordBatch& batch);
  [[nodiscard]] absl::StatusOr<bool> TrySend(PreparedBatch& batch);

  // Says that the partition has `end_row` rows, which must be those sent (with first_row). Blocks
  // until the node has accepted the session.
  [[nodiscard]] absl::Status Finish(int64_t end_row);

  // After Finish(): blocks until the node holds every row and knows that these are all.
  [[nodiscard]] absl::Status WaitReceived();

  // After Finish(): blocks until DONE.
  [[nodiscard]] absl::Status WaitDone();

  // What a thread that feeds and reads results at once can do next.
  struct Readiness {
    bool can_send = false;    // TrySend() of WaitReady()'s `send_bytes` would succeed
    bool has_result = false;  // NextResult() would not block
    bool done = false;        // every result was taken; NextResult() returns nullopt
  };
  // Blocks until one of them is true; without `send_bytes`, until one of the others is.
  [[nodiscard]] absl::StatusOr<Readiness> WaitReady(std::optional<int64_t> send_bytes);
  // Without blocking, and without looking at what could be sent: all may be false.
  [[nodiscard]] absl::StatusOr<Readiness> Ready();

  // Training: asks the node to give back what its program has not been given, unless that begins
  // behind `max_row`. Its answer is state().revoked_row; none comes where there is nothing to give
  // back, or from a node that does not know how. From the answer on Send(), Finish() and
  // WaitReceived() return ABORTED; the session ends as kRevoked once the program has used the rows
  // before it. Does nothing before the session is accepted, once it has ended, or a second time.
  void Revoke(int64_t max_row);

  // Inference: the next results, in row order; nullopt after the last. Blocks. Decodes in the
  // calling thread; what does not decode is DATA_LOSS, and nothing more is taken from the node.
  [[nodiscard]] absl::StatusOr<std::optional<RecordBatch>> NextResult();

  // Bytes of results that have arrived and were not taken yet.
  [[nodiscard]] int64_t unread_result_bytes() const;

  // Ends the session and tells the node, if the connection is there; `status` must not be OK.
  // Nothing happens if it has ended already. May be called from any thread.
  void Abort(const absl::Status& status);

  // Adds to state().times.source.
  void CountSource(absl::Duration time);

  [[nodiscard]] SessionState state() const;
  [[nodiscard]] uint64_t id() const { return id_; }
  [[nodiscard]] const FeedTarget& target() const { return target_; }
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  // "worker:1, partition 3 (queue 'input')", the head of its error messages.
  [[nodiscard]] std::string Place() const;

  // DEADLINE_EXCEEDED, saying what the node did not do for feed_timeout.
  [[nodiscard]] absl::Status TimeoutError() const;

  // For the thread that serves the Feeder's sockets, and nobody else.
  [[nodiscard]] SessionSocketSide& socket_side() { return *this; }

 private:
  [[nodiscard]] absl::Status OnCredit(const CreditFrame& frame) override;
  [[nodiscard]] bool AwaitsSegment() const override;
  void OnSegment(const absl::Status& opened) override;
  [[nodiscard]] absl::Status OnRoom(Room room,
                                    const std::shared_ptr<FeederSegment>& segment) override;
  [[nodiscard]] absl::Status OnReceived(int64_t row) override;
  [[nodiscard]] absl::Status OnAck(int64_t row) override;
  [[nodiscard]] absl::Status OnRevoked(int64_t row) override;
  [[nodiscard]] absl::Status OnWait(const WaitFrame& frame) override;
  [[nodiscard]] absl::Status OnSchema(absl::string_view metadata) override;
  [[nodiscard]] absl::Status OnResult(const BatchPrefix& prefix, std::string message,
                                      std::vector<BodyPart> parts) override;
  void OnPlacedResult() override;
  void OnDone(const DoneFrame& frame) override;
  absl::Status OnTerminated(const TerminatedFrame& frame) override;
  bool OnEnd(SessionEnd end, const absl::Status& status) override;
  void OnLink(std::shared_ptr<SessionLink> link, const ReplyEndpoint& reply) override;
  void OnConnecting() override;
  void OnUnproven(const std::string& place) override;
  void OnProof() override;
  void OnUnlink() override;
  void SendAbort(const absl::Status& status) override;

  struct PendingResult {
    BatchPrefix prefix;
    std::string message;
    std::vector<BodyPart> parts;
    int64_t size_bytes;
  };

  // Blocks until ready(), the end, or a deadline. `done_is_ok`: kDone is no error.
  absl::Status WaitFor(absl::FunctionRef<bool()> ready, bool done_is_ok)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same before something is sent; counted as time without credit.
  absl::Status WaitToSend(absl::FunctionRef<bool()> ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Blocks until Changed() or for `timeout`, maybe less; serves the feeder's sockets meanwhile.
  void WaitForChange(absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EndStatus(bool done_is_ok) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // True if a BATCH of that size may go; otherwise the node is told what is needed.
  bool HasCredit(int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsBlocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return needed_ > limit_; }
  Readiness ReadinessNow(std::optional<int64_t> send_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] OpenFrame MakeOpen(const ReplyEndpoint& reply) const;
  void SendBatch(PreparedBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Puts its body into the segment. nullopt, and nothing is done, if it is to go as BATCH.
  [[nodiscard]] std::optional<Room> PlaceBody(const PreparedBatch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendFrame(FrameType type, const std::string& metadata, std::vector<BodyPart> body,
                 uint16_t flags = 0) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] absl::Status RevokedStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool EndLocked(SessionEnd end, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TimeoutErrorLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NotifyChange();  // without mu_
  void Progressed() { options_.progress->Advance(RealClock()->SteadyNow()); }

  const uint64_t id_;
  const FeedTarget target_;
  const SessionOptions options_;
  const absl::Duration open_timeout_;
  absl::Duration opened_at_ ABSL_GUARDED_BY(mu_);  // steady
  std::string unproven_ ABSL_GUARDED_BY(mu_);      // as OnUnproven() told
  const std::shared_ptr<FeederOutbox> outbox_;

  mutable Mutex mu_;
  CondVar changed_;
  int64_t changes_ ABSL_GUARDED_BY(mu_) = 0;  // calls of Changed()
  SessionState state_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<SessionLink> link_ ABSL_GUARDED_BY(mu_);  // nullptr: frames are dropped
  uint64_t next_seq_ ABSL_GUARDED_BY(mu_) = 0;
  bool answered_ ABSL_GUARDED_BY(mu_) = false;      // CREDIT or WAIT was seen
  bool end_received_ ABSL_GUARDED_BY(mu_) = false;  // RECEIVED(end_row) is here
  int64_t wait_progress_ ABSL_GUARDED_BY(mu_) = 0;
  // Credit, in BATCH bytes since OPEN. released_ <= sent_bytes_.
  int64_t sent_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t limit_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t needed_ ABSL_GUARDED_BY(mu_) = 0;  // of the last BLOCKED
  int64_t released_ ABSL_GUARDED_BY(mu_) = 0;
  // Shared memory.
  const int64_t shared_min_bytes_;  // of a body; INT64_MAX: there is none
  bool awaits_segment_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<FeederSegment> segment_ ABSL_GUARDED_BY(mu_);  // once there was room in it
  RoomQueue rooms_ ABSL_GUARDED_BY(mu_);
  bool has_placed_results_ ABSL_GUARDED_BY(mu_) = false;  // the node waits to hear of the end
  std::optional<Schema> schema_ ABSL_GUARDED_BY(mu_);     // of what is sent, once SCHEMA went out
  // Results, not yet decoded: returned_rows ends the last of them.
  std::deque<PendingResult> results_ ABSL_GUARDED_BY(mu_);
  int64_t unread_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t result_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // that came
  int64_t result_limit_ ABSL_GUARDED_BY(mu_) = 0;  // that the node was told
  std::shared_ptr<const BatchDecoder> decoder_ ABSL_GUARDED_BY(mu_);
};

// An order of sessions that does not depend on where they lie in memory.
struct SessionOrder {
  bool operator()(const std::shared_ptr<FeedSession>& a,
                  const std::shared_ptr<FeedSession>& b) const {
    return a->id() < b->id();
  }
};

// What TrainJob and InferenceJob need of a feeder.
// Thread safety: implementations are thread-safe.
class SessionOpener {
 public:
  virtual ~SessionOpener() = default;

  // Opens a session with the attempt of the node that `target` names. Returns without waiting for
  // the node: that it cannot be reached, refuses or does not answer is told by the session.
  [[nodiscard]] virtual absl::StatusOr<std::shared_ptr<FeedSession>> OpenSession(
      const FeedTarget& target, const SessionOptions& options) = 0;
};

}  // namespace millrace

#endif  // FEED_FEEDER_FEEDER_SESSION_H_
