// File: feed/receiver/receiver_core.h
//
// The node side of the feed protocol without its sockets: the sessions of all queues, the budget
// that they share, and which frames are due. The socket thread (feed/receiver/receiver_loop.h)
// tells it what came in and asks it each turn what is to go out; the program's threads
// (millrace/data_feed.h) wait in it.
//
// Defines: ReceiverCore.
//
//   ReceiverCore core({.node_name = "worker:0", .nonce = nonce, .queues = {"input"}, ...}, wake);
//   auto session = core.Open("feeder/1", 77, link, connection, open_frame);
//   for (const OutgoingFrame& frame : core.Collect().frames) Send(frame);      // CREDIT
//   MILLRACE_RETURN_IF_ERROR(core.AddRows(session, {rows, 0, bytes}));
//
// Credit (section 5) is given as feed/receiver/receive_budget.h says.

#ifndef FEED_RECEIVER_RECEIVER_CORE_H_
#define FEED_RECEIVER_RECEIVER_CORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "feed/receiver/receive_budget.h"
#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_session.h"
#include "feed/receiver/stage_timer.h"
#include "feed/segment/segment.h"
#include "feed/wire/frame.h"
#include "feed/wire/socket_turns.h"
#include "millrace/data_feed.h"

namespace millrace {

// What a receiver counts; since start unless said otherwise.
struct FeedReceiverStats {
  std::vector<FeedQueueStats> queues;  // in the order of FeedReceiverOptions::queues
  int64_t budget_bytes = 0;
  int64_t committed_bytes = 0;       // now: what sessions hold and may send
  int64_t peak_committed_bytes = 0;  // the most of it so far
  int64_t poisoned_principals = 0;
  int64_t dropped_frames = 0;    // of poisoned principals and of sessions that have ended
  int64_t refused_sessions = 0;  // OPENs that were answered by ERROR
  std::string why_not_shared;  // why the last feeder to be refused shared memory, or to refuse it,
                               // sends through the socket; may be empty
};

// Thread safety: thread-safe. Blocking: Next() only. `wake` and `serve` are called without a lock.
class ReceiverCore {
 public:
  using SessionPtr = ReceiveQueue::SessionPtr;

  struct Options {
    std::string node_name;
    std::string nonce;
    std::vector<std::string> queues;  // names, at least one
    int64_t budget_bytes = 0;
    int64_t shared_min_bytes = 0;  // of a result's body that goes through shared memory
    Clock* clock = nullptr;        // not owned
    // Tells the coordinator what this node has where all ranks get equally many batches. Called
    // with the core's lock held: must not block, nor call back. May be null where there is no such
    // queue.
    std::function<void(const ReceiverRows&)> tell_rows;
  };

  // Serves the sockets in the calling thread until told to leave, or until they are closed. Returns
  // at once if another thread does that.
  using Serve = std::function<void(absl::FunctionRef<AfterTurn()> after_turn)>;

  // `wake` makes Collect() be called soon, in this thread or another; it may be called from any
  // thread. Without `serve`, Next() only waits.
  ReceiverCore(Options options, std::function<void()> wake, Serve serve = nullptr);
  ReceiverCore(const ReceiverCore&) = delete;
  ReceiverCore& operator=(const ReceiverCore&) = delete;

  // ---- Whoever serves the sockets ("the socket thread").

  // OPEN. `link` is up. Returns nullptr if the session is refused; its ERROR is then on the way.
  [[nodiscard]] SessionPtr Open(absl::string_view principal, uint64_t id, uint64_t link,
                                uint64_t connection, OpenFrame open, SessionSegment shared = {});
  // ERROR for a session that does not exist.
  void Refuse(uint64_t link, uint64_t id, const absl::Status& status);

  // As in ReceiveQueue. Sessions that have ended take everything and do nothing.
  [[nodiscard]] absl::StatusOr<Schema> SetSchema(const SessionPtr& session, const Schema& schema);
  [[nodiscard]] absl::Status AddRows(const SessionPtr& session, BufferedRows rows);
  [[nodiscard]] absl::Status Block(const SessionPtr& session, int64_t needed);
  [[nodiscard]] absl::Status RaiseResultLimit(const SessionPtr& session, int64_t limit);
  // MAPPED. Returns INVALID_ARGUMENT if the session was told of no segment, or says it twice.
  [[nodiscard]] absl::Status Mapped(const SessionPtr& session, const MappedFrame& mapped);
  // Rows go through the socket, for this reason.
  void NotShared(const std::string& why);
  [[nodiscard]] absl::Status EndPartition(const SessionPtr& session, int64_t end_row);
  [[nodiscard]] absl::Status Revoke(const SessionPtr& session, int64_t max_row);
  void Abort(const SessionPtr& session);
  void Fail(const SessionPtr& session, const absl::Status& status);

  // What is over a lost connection is over; complete training partitions stay.
  void LinkLost(uint64_t link);
  void ConnectionLost(uint64_t connection);
  // Every session of `principal` gets `status`.
  void Poison(absl::string_view principal, const absl::Status& status);
  void CountDroppedFrame() { dropped_frames_.fetch_add(1, std::memory_order_relaxed); }

  struct Turn {
    std::vector<OutgoingFrame> frames;
    std::vector<SessionPtr> ended;                   // forget them
    std::vector<std::string> warnings;               // for the log
    absl::Duration next = absl::InfiniteDuration();  // call Collect() again after this time
  };
  [[nodiscard]] Turn Collect();

  // The socket thread cannot go on: everything ends with `status`.
  void Break(const absl::Status& status);

  // ---- The program.

  // Returns the index of the queue, which is read in `mode` from now on. NOT_FOUND, naming the
  // queues there are; FAILED_PRECONDITION if another DataFeed reads it in the other mode and is not
  // at its end; UNAVAILABLE after Finish. Each success is matched by one CloseReader.
  [[nodiscard]] absl::StatusOr<size_t> OpenReader(absl::string_view queue, FeedMode mode);
  void CloseReader(size_t queue, FeedMode mode);
  // The queue is about to be read for training so that all ranks get equally many batches of
  // `batch_rows` rows. Returns NOT_FOUND as OpenReader, FAILED_PRECONDITION if it was read
  // otherwise.
  [[nodiscard]] absl::Status SetEqual(absl::string_view queue, int64_t batch_rows, bool pad);
  // Null if it is not read so.
  [[nodiscard]] std::shared_ptr<EqualSteps> equal(absl::string_view queue);
  // Lives as long as this object. Guards itself.
  [[nodiscard]] QueueReader* reader(size_t queue, FeedMode mode);

  // Blocks until `rows` rows or the end of a feed or partition are there (see ReceiveQueue).
  // nullopt says that no rows will come. Returns what Break() was given; FAILED_PRECONDITION if the
  // queue is read in another mode by now.
  [[nodiscard]] absl::StatusOr<std::optional<Delivery>> Next(size_t queue, FeedMode mode,
                                                             int64_t rows,
                                                             std::optional<TakenRows> current);
  // No rows will come; does not block. Cheap while the queue has not ended.
  [[nodiscard]] bool Stopped(size_t queue, FeedMode mode);
  // See DataFeed.
  [[nodiscard]] FeedPosition Position(size_t queue);
  [[nodiscard]] absl::Status Resume(size_t queue, const FeedPosition& position);
  // See ReceiveQueue. `frames` are SCHEMA and RESULT frames without link and header but the type.
  // AddResults() blocks until they are sent, or may be: as long as the feeder does not take what
  // came before. It returns as well when the session ends.
  [[nodiscard]] absl::StatusOr<ReceiveQueue::ResultPlace> PlaceResults(size_t queue, int64_t rows);
  void AddResults(size_t queue, const SessionPtr& session, int64_t rows,
                  std::vector<OutgoingFrame> frames);
  [[nodiscard]] absl::Status Terminate(size_t queue, FeedMode mode);

  // ---- The node's control.

  void FeedEnd(absl::string_view feed_id, bool aborted);
  void Grant(const ReceiverGrant& grant);
  // Ends the mode in which the program reads (train if it does not read yet). False: no such queue.
  bool EndFeed(absl::string_view queue);
  void EndAllFeeds();
  // Returns FAILED_PRECONDITION if `program_status` is OK but rows that the program has read are
  // left without results.
  [[nodiscard]] absl::Status Finish(const absl::Status& program_status);

  [[nodiscard]] FeedReceiverStats stats();
  [[nodiscard]] const std::string& node_name() const { return options_.node_name; }
  [[nodiscard]] int64_t shared_min_bytes() const { return options_.shared_min_bytes; }
  // Makes the socket thread look.
  void Wake() { wake_(); }

 private:
  // A queue and who waits for it.
  struct Slot {
    Slot(const std::string& name, const std::string& node) : queue(name, node) {}
    ReceiveQueue queue;
    CondVar changed;
    uint64_t ask = 0;  // number of the last Next(); an older one that still waits gives up
    std::optional<ReceiveQueue::State> outcome;  // of that one; never kWait
    int readers[2] = {0, 0};                     // live DataFeeds by FeedMode
    QueueReader reader[2];                       // what they share, by FeedMode
    std::atomic<bool> may_stop{false};           // some mode may have ended
    absl::Duration moved{};  // steady time when credit was given last, or a BATCH came
    std::optional<ReceiveQueue::Holder> holder;  // as Collect() saw it, since
    absl::Duration held_since{};
    StageTimer reading;  // from the first Next() until no rows will come
    StageTimer waiting;  // in Next()
    StageTimer full;     // as Collect() saw it
    StageTimer queued;   // as Collect() saw it
  };
  void WaitForOutcome(Slot* slot, uint64_t ask) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillSlot(Slot* slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Refill(Slot* slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Says what is to be said of equal ranks, where there are any.
  void TellRows(Slot* slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RefillAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] Slot* FindSlot(absl::string_view queue);
  [[nodiscard]] absl::Status NoQueue(absl::string_view queue) const;
  [[nodiscard]] Slot* SlotOf(const ReceiveSession& session) { return FindSlot(session.open.queue); }
  [[nodiscard]] int64_t Committed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The queues as the budget looks at them.
  [[nodiscard]] std::vector<ReceiveBudget::Queue> QueuesForBudget(absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] bool IsStarved(const Slot& slot, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A feed that keeps others waiting for too long loses its turn.
  void PassTurn(Slot* slot, absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectCredit(absl::Duration now, Turn* turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectRoom(ReceiveSession* session, Turn* turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectBlocked(absl::Duration now, Turn* turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the program that a session is meant for may still read it.
  [[nodiscard]] absl::Status CheckAttempt(const OpenFrame& open) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] absl::Status CheckOpen(absl::string_view principal, const OpenFrame& open)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RefuseLocked(uint64_t link, uint64_t id, const absl::Status& status,
                    bool program_ended = false) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectOpen(Slot* slot, const SessionPtr& session, absl::Duration now, Turn* turn)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectRows(Slot* slot, ReceiveSession* session, absl::Duration now, Turn* turn)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectResults(ReceiveSession* session, Turn* turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectEnded(Slot* slot, ReceiveSession* session, absl::Duration now, Turn* turn)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] std::vector<SessionPtr> AllSessions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const ReceiveBudget budget_;
  const std::function<void()> wake_;
  const Serve serve_;
  std::atomic<int64_t> dropped_frames_{0};

  Mutex mu_;
  std::vector<std::unique_ptr<Slot>> slots_;  // the vector is constant; ReceiveQueues are guarded
  absl::flat_hash_map<std::string, int> sessions_of_principal_ ABSL_GUARDED_BY(mu_);
  std::vector<OutgoingFrame> refusals_ ABSL_GUARDED_BY(mu_);
  int64_t poisoned_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t refused_ ABSL_GUARDED_BY(mu_) = 0;
  std::string why_not_shared_ ABSL_GUARDED_BY(mu_);
  uint64_t blocked_ ABSL_GUARDED_BY(mu_) = 0;  // BLOCKEDs so far
  int64_t peak_committed_ ABSL_GUARDED_BY(mu_) = 0;
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;  // threads in WaitForOutcome()
  CondVar collected_;                     // results may have been sent
  int sending_ ABSL_GUARDED_BY(mu_) = 0;  // threads in AddResults() that wait for that
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_well_ ABSL_GUARDED_BY(mu_) = false;  // with OK; implies finished_
  absl::Status broken_ ABSL_GUARDED_BY(mu_);         // OK until Break()
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVER_CORE_H_
