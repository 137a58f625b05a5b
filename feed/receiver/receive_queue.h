// File: feed/receiver/receive_queue.h
//
// One input queue of a node: which sessions are served, in which order their rows reach the
// program, which results are owed. No socket, no clock of its own, no lock: pure state, unit tested
// as such.
//
// Defines: ReceiveQueue, Delivery.
//
//   ReceiveQueue queue("input", "worker:0");
//   queue.SetMode(FeedMode::kTrain);
//   queue.Add(session);                         // OPEN came; the queue serves it now or later
//   queue.AddRows(session.get(), {...});        // BATCH came
//   queue.Ask(64, std::nullopt);                // the program wants 64 rows
//   if (queue.Fill() == ReceiveQueue::State::kReady) Use(queue.Take());
//
// Order of rows. Train: feeds in the order of their first OPEN, each until its FeedEnd or
// PassTurn(); within a feed, sessions take turns batch by batch; a delivery never spans two feeds.
// Inference: sessions one after another, in the order of OPEN; a delivery never spans two sessions.
//
// Copies. If the rows asked for lie in one BATCH, the delivery is that BATCH and the reader slices
// it. Otherwise it is a list of pieces, to be joined. Their credit is released as soon as the list
// has to wait for more, or is complete: from then on they count as the program's own memory, so
// that a batch larger than the budget is assembled without a deadlock.

#ifndef FEED_RECEIVER_RECEIVE_QUEUE_H_
#define FEED_RECEIVER_RECEIVE_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "feed/receiver/equal_steps.h"
#include "feed/receiver/receive_session.h"
#include "feed/receiver/used_rows.h"
#include "feed/segment/segment.h"
#include "millrace/data_feed.h"

namespace millrace {

// What one NextBatch gets.
struct Delivery {
  int64_t rows = 0;
  // Empty: the `rows` rows are the first of `current`. Otherwise they are these, joined.
  std::vector<TakenRows> pieces;
  // Rows that the program was given before, joined to the pieces.
  std::vector<RecordBatch> repeated;
  // The BATCH to go on slicing; in the second case it begins with rows that are also in `pieces`,
  // which `offset` skips.
  std::optional<TakenRows> current;
};

// Counters since start, where nothing says "now".
struct FeedQueueStats {
  std::string queue;
  int64_t rows_received = 0;
  int64_t bytes_received = 0;       // BATCH bytes as credit counts them
  int64_t partitions_received = 0;  // END_PARTITION came after all their rows
  int64_t rows_acked = 0;
  int64_t rows_returned = 0;  // results
  int64_t sessions_opened = 0;
  int64_t open_sessions = 0;             // now, waiting ones included
  int64_t waiting_sessions = 0;          // now
  int64_t credit_outstanding_bytes = 0;  // now: sum of limit - released
  int64_t batches_received = 0;
  int64_t batches_placed = 0;  // those of them that came through shared memory
  int64_t queued_rows = 0;     // now: received and not returned by NextBatch
  int64_t queued_bytes = 0;    // now: received and not released
  // Where the time went. The program was inside NextBatch without rows (starved), or was reading
  // and was not (it computed); BATCHes were checked and decoded; some feeder had rows to send, as
  // far as can be told here, and no credit (backpressured); rows lay there for the program.
  absl::Duration wait_time;
  absl::Duration compute_time;
  absl::Duration decode_time;
  absl::Duration full_time;
  absl::Duration queued_time;
  // Now: the program has left off reading, in the mode it read last, and has not failed. The end of
  // training is not that: it may go on with inference.
  bool program_done = false;
};

// Thread safety: none; ReceiverCore calls it with its lock held. Blocking: never.
class ReceiveQueue {
 public:
  using SessionPtr = std::shared_ptr<ReceiveSession>;
  enum class State {
    kWait,   // not enough rows yet
    kReady,  // Take() has the delivery
    kStop,   // EndFeed, shutdown or Terminate, and no rows are left
    kError,  // equal()->TakeError() says why; asking again goes on
  };

  ReceiveQueue(std::string name, std::string node_name)
      : name_(std::move(name)), node_name_(std::move(node_name)) {
    stats_.queue = name_;
  }
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  // ---- What the program does.

  // The program reads in this mode from now on; sessions of the other mode wait.
  void SetMode(FeedMode mode);
  [[nodiscard]] std::optional<FeedMode> mode() const { return mode_; }

  // The program reads for training in batches of so many rows, equally many at every rank
  // (docs/feed_protocol.md, section 11). Again with the same values: nothing happens. Returns
  // FAILED_PRECONDITION if rows were read in another way.
  [[nodiscard]] absl::Status SetEqual(int64_t batch_rows, bool pad);
  // Null if it does not.
  [[nodiscard]] const std::shared_ptr<EqualSteps>& equal() const { return equal_; }
  // The rows of what is asked for are here; what is missing is that the others have theirs.
  [[nodiscard]] bool waits_for_grant() const { return waits_for_grant_; }
  // What is to be told of it now.
  [[nodiscard]] std::optional<ReceiverRows> ReportEqual(absl::Duration now);

  // Begins to collect `rows` rows (at least 1). `current` is what the reader has left of the BATCH
  // it was slicing; its rows come first, unless its session is void. Everything the reader was
  // given before is used: its credit is released.
  void Ask(int64_t rows, std::optional<TakenRows> current);
  // Collects what is there. Call it after Ask and, while asking(), after any change.
  [[nodiscard]] State Fill();
  // The delivery. Requires that Fill() has returned kReady.
  [[nodiscard]] Delivery Take();
  [[nodiscard]] bool asking() const { return asking_; }
  // No rows will come any more in `mode` (and none are left but what the reader holds).
  [[nodiscard]] bool Stopped(FeedMode mode) const;
  // As DataFeed's.
  [[nodiscard]] FeedPosition Position() const;
  [[nodiscard]] absl::Status Resume(const FeedPosition& position);

  // A place for `rows` results: which rows they answer. The first `skip` answer rows whose session
  // has ended meanwhile, and are to be dropped; the others answer rows of `session`, which is
  // nullptr if there are none. Returns FAILED_PRECONDITION, and fails the session, if more results
  // than rows are given.
  struct ResultPlace {
    int64_t skip = 0;
    SessionPtr session;
    int64_t first_row = 0;  // of the session's partition: what the first of them answers
    // Where bodies may be put, set by ReceiverCore; nullptr: nowhere.
    std::shared_ptr<NodeSegment> segment;
  };
  [[nodiscard]] absl::StatusOr<ResultPlace> PlaceResults(int64_t rows);
  // The results that PlaceResults gave a place to are in session->results.
  void ResultsAdded(const SessionPtr& session, int64_t rows);

  // Ends the queue for `mode`: train sessions that are not complete get TERMINATED, inference
  // sessions ERROR CANCELLED, and later ones too. Rows of complete partitions are still delivered.
  void EndFeed(FeedMode mode, absl::string_view why);
  // The program reads no more rows in `mode`. What NextBatch has returned counts as used.
  // Returns FAILED_PRECONDITION if inference rows that were returned have no results.
  absl::Status Terminate(FeedMode mode, absl::string_view why);
  // The program has exited. As Terminate for both modes if `status` is OK, otherwise every session
  // gets it as an ERROR. Returns FAILED_PRECONDITION if `status` is OK and rows that were returned
  // have no results.
  [[nodiscard]] absl::Status Finish(const absl::Status& status);

  // ---- What the feeders do.

  // OPEN says `resumed`: what is left of earlier sessions of the partition ends, and
  // open->first_row becomes the row behind those that the program was given. Returns the sessions
  // whose rows it has in hand, for ReceiveSession::before.
  [[nodiscard]] std::vector<SessionPtr> TakeOver(OpenFrame* open);
  // A new session. It may end at once (queue ended, feed ended).
  void Add(SessionPtr session);
  // Its schema. Returns the one to read its batches with: the feed's, of which all sessions share
  // one, or its own if it differs (the session is failed). Returns INVALID_ARGUMENT before the
  // first CREDIT.
  [[nodiscard]] absl::StatusOr<Schema> SetSchema(ReceiveSession* session, const Schema& schema);
  // Returns DATA_LOSS if rows are missing or repeated (the session is failed), INVALID_ARGUMENT or
  // RESOURCE_EXHAUSTED if no honest feeder could have sent this (the caller poisons).
  [[nodiscard]] absl::Status AddRows(ReceiveSession* session, BufferedRows rows);
  // BLOCKED. Returns INVALID_ARGUMENT if no honest feeder could have sent this.
  [[nodiscard]] absl::Status Block(ReceiveSession* session, int64_t needed, uint64_t order);
  // RESULT_CREDIT. Returns INVALID_ARGUMENT if no honest feeder could have sent this.
  [[nodiscard]] absl::Status RaiseResultLimit(ReceiveSession* session, int64_t limit);
  [[nodiscard]] absl::Status EndPartition(ReceiveSession* session, int64_t end_row);
  // REVOKE: the session ends behind what NextBatch has returned, unless that is more than the rows
  // before `max_row`, or all. Returns INVALID_ARGUMENT if no honest feeder could have sent this.
  [[nodiscard]] absl::Status Revoke(ReceiveSession* session, int64_t max_row);
  // All partitions of the feed are received, or the call has failed (`aborted`). Sessions that are
  // not complete end with ABORTED; with `aborted` all do, and rows not returned are dropped.
  void FeedEnd(absl::string_view feed_id, bool aborted);
  // The holder() goes behind the other feeds; what comes of it is read when it has the turn again.
  void PassTurn();

  // Ends a session: its rows that NextBatch has not returned are dropped. `program_ended`: so has
  // the program, and `status` is its error.
  void Fail(ReceiveSession* session, const absl::Status& status, bool program_ended = false);
  void Abort(ReceiveSession* session);
  // The connection is gone. A complete training partition will still be read; anything else ends.
  // `status` is what the feeder gets, if it can still be told.
  void Disconnect(ReceiveSession* session, const absl::Status& status);
  // Ends, with DONE, what is done: all rows used (train), or answered, and the answers may be sent
  // (inference). True if it was.
  bool FinishIfDone(ReceiveSession* session);

  // ---- What ReceiverCore looks at.

  [[nodiscard]] const std::vector<SessionPtr>& sessions() const { return sessions_; }
  // Sessions that have ended since the last call.
  [[nodiscard]] std::vector<SessionPtr> TakeEnded() { return std::exchange(ended_, {}); }
  [[nodiscard]] std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }
  // What WAIT says to a session that waits to be served.
  [[nodiscard]] WaitFrame Wait(const ReceiveSession& session) const;
  // Some session waits for credit.
  [[nodiscard]] bool Full() const;
  // Rows lie there that NextBatch has not returned.
  [[nodiscard]] bool HasQueued() const;
  // An ACK moved by `rows`.
  void CountAcked(int64_t rows);
  // Grows whenever a session moves.
  [[nodiscard]] int64_t progress() const { return progress_; }
  // Its rows would be read next: false while another training feed has the turn.
  [[nodiscard]] bool HasTurn(const ReceiveSession& session) const;
  // The training feed that keeps a program and the sessions of other feeds waiting. It stands still
  // as long as this does not change.
  struct Holder {
    std::string feed_id;
    int64_t moves = 0;  // BATCHes and ends of partitions that have come
    bool operator==(const Holder&) const = default;
  };
  [[nodiscard]] std::optional<Holder> holder() const;
  [[nodiscard]] FeedQueueStats stats() const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct TrainFeed {
    std::string id;
    std::optional<Schema> schema;
    std::vector<SessionPtr> sessions;  // those with rows that are not taken, or still to come
    size_t turn = 0;                   // of `sessions`, whose batch is next
    bool begun = false;                // rows of it have come
    int64_t moves = 0;                 // BATCHes and ends of partitions that have come
    bool ended = false;                // no session of it will come
    bool received = false;             // FeedEnd has come

    // Nothing of it is left, and nothing more will come but what is fed again.
    [[nodiscard]] bool over() const { return received && sessions.empty(); }
    void Erase(const ReceiveSession* session) {
      std::erase_if(sessions, [&](const SessionPtr& other) { return other.get() == session; });
    }
  };

  [[nodiscard]] State FillTrain();
  [[nodiscard]] State FillEqual();
  [[nodiscard]] State FillStep();
  // Enough rows are here for what is collected.
  [[nodiscard]] bool HasEnough(TrainFeed* feed);
  // What is collected is the call's next batch.
  void TakeEqualStep();
  // Fills what is collected with rows that were given out before; false if there were none.
  bool Repeat();
  // The rows of the call that are in no batch count as used, and go.
  void DropRest();
  // The program is to stop before the call is over.
  void LeaveTraining();
  // Of a session of training: rows of it that the program will be given.
  void CountEqual(const ReceiveSession& session, int64_t first, int64_t end, int64_t sign);
  // By which feeds_ know it: rounds of a call of equal ranks are one feed.
  [[nodiscard]] std::string FeedKey(absl::string_view feed_id) const;
  [[nodiscard]] State FillInference();
  [[nodiscard]] State Complete();
  void TakeFrom(const SessionPtr& session);
  // Leaves out rows that were used before the program was started, so that the first BATCH begins
  // and ends with rows that were not. False if that leaves none of it.
  [[nodiscard]] bool LeaveOutUsed(const SessionPtr& session);
  // Rows of the session before `row` count as used once all before them are.
  void PassOver(const SessionPtr& session, int64_t row);
  // Nothing more will be taken from it.
  void LeaveIfRead(const SessionPtr& session);
  void DropDiscarded();
  void ReleasePieces();
  void HandOutPieces();
  [[nodiscard]] SessionPtr NextTrainSession(TrainFeed* feed);
  [[nodiscard]] TrainFeed* FindFeed(absl::string_view feed_id);
  [[nodiscard]] const TrainFeed* ServedFeed() const;
  // Serves whoever is to be served now.
  void Serve();
  void End(ReceiveSession* session, FrameType type, std::string metadata);
  void EndSilently(ReceiveSession* session);
  void Remove(ReceiveSession* session);
  void EndIncomplete(absl::string_view feed_id, bool all, const absl::Status& status);
  // Ends a session that comes, or is open, when nobody will read it.
  void Reject(ReceiveSession* session, absl::string_view why);
  void FailUnanswered(const SessionPtr& session);
  [[nodiscard]] std::vector<SessionPtr> SessionsOf(FeedMode mode) const;

  const std::string name_;
  const std::string node_name_;
  std::optional<FeedMode> mode_;  // nullopt until the program reads

  std::vector<SessionPtr> sessions_;     // all open ones, by OPEN
  std::deque<TrainFeed> feeds_;          // by first OPEN, or PassTurn()
  std::deque<SessionPtr> inference_;     // by OPEN; the front one is served
  bool turn_passed_ = false;             // ever
  std::deque<std::string> ended_feeds_;  // the last few: late sessions of theirs are refused
  UsedRows used_rows_;
  std::vector<SessionPtr> in_hand_;    // ended ones, of training, with rows that are not used yet
  std::shared_ptr<EqualSteps> equal_;  // null: ranks take what they get
  bool waits_for_grant_ = false;
  bool read_ = false;         // Ask() has come, for training
  bool equal_begun_ = false;  // the first Ask() has come: there is no Resume() any more
  // Inference schemas of the feed in hand; execution by execution there is one.
  std::string inference_feed_;
  std::optional<Schema> inference_schema_;
  // Ended inference sessions with rows that the program may still answer, oldest first.
  std::deque<SessionPtr> orphans_;
  // Empty unless the queue takes no more sessions of that mode; then it says why.
  bool failed_ = false;  // Finish() was called with an error
  std::string train_stop_;
  std::string inference_stop_;
  std::set<FeedMode> left_;  // by the program: Terminate(), or it has ended

  // The delivery that is collected; valid while asking_.
  bool asking_ = false;
  bool complete_ = false;  // Fill() has returned kReady: the delivery does not change any more
  int64_t wanted_ = 0;
  int64_t have_ = 0;
  std::string feed_in_hand_;    // train: the feed of `delivery_`
  SessionPtr session_in_hand_;  // inference: the session of `delivery_`
  Delivery delivery_;

  std::vector<SessionPtr> ended_;
  std::vector<std::string> warnings_;
  int64_t progress_ = 0;  // moves whenever a session of this queue does
  FeedQueueStats stats_;
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVE_QUEUE_H_
