// File: feed/receiver/receive_session.h
//
// What the node knows of one session (docs/feed_protocol.md, section 4), and the rows that it holds
// for it.
//
// Defines: ReceiveSession, HandedRows, BufferedRows, TakenRows, QueueReader, OutgoingFrame.
//
// A ReceiveSession is plain state: feed/receiver/receive_queue.h decides what happens to it,
// feed/receiver/receiver_core.h turns its counters into frames.

#ifndef FEED_RECEIVER_RECEIVE_SESSION_H_
#define FEED_RECEIVER_RECEIVE_SESSION_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "feed/ipc/ipc.h"
#include "feed/segment/segment.h"
#include "feed/wire/frame.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"

namespace millrace {

// A frame on its way to a feeder.
struct OutgoingFrame {
  uint64_t link = 0;  // which reply connection, a number of feed/receiver/receiver_loop.h
  FrameHeader header;
  std::string metadata;
  std::vector<BodyPart> body;
  int64_t body_bytes = 0;            // RESULT, PLACED_RESULT: what it takes of the feeder's credit
  std::shared_ptr<ResultRoom> room;  // PLACED_RESULT: where its body lies
};

// The rows of one BATCH.
struct BufferedRows {
  RecordBatch rows;
  int64_t first_row = 0;       // row of the partition that rows' row 0 is
  int64_t bytes = 0;           // credit that this BATCH took
  absl::Duration decode_time;  // that checking and decoding it took
  bool placed = false;         // it came through shared memory
};

// Which rows of a session NextBatch has returned, and whether it may return more. The reading
// thread moves it without a lock; whoever closes it learns to the row what the program has. Thread
// safety: thread-safe; Advance() is for one thread at a time. Blocking: never.
class HandedRows {
 public:
  explicit HandedRows(int64_t row) : state_(row) {}

  // Rows before it are handed out.
  [[nodiscard]] int64_t row() const { return state_.load() & ~kClosed; }
  // The rest will not be handed out.
  [[nodiscard]] bool closed() const { return (state_.load() & kClosed) != 0; }
  // Rows before `row`, which never falls, are handed out from now on. False, and nothing happens,
  // once it is closed.
  bool Advance(int64_t row) {
    int64_t before = state_.load();
    while ((before & kClosed) == 0) {
      if (state_.compare_exchange_weak(before, row)) return true;
    }
    return false;
  }
  void Close() { state_.fetch_or(kClosed); }
  // Closes it, unless more rows than those before `max_row` are handed out already.
  bool CloseUpTo(int64_t max_row) {
    int64_t before = state_.load();
    while ((before & ~kClosed) <= max_row) {
      if (state_.compare_exchange_weak(before, before | kClosed)) return true;
    }
    return false;
  }

 private:
  static constexpr int64_t kClosed = int64_t{1} << 62;  // no partition has as many rows

  std::atomic<int64_t> state_;
};

// Thread safety: members without a note are guarded by the lock of the ReceiverCore that the
// session belongs to; const ones are free; for the atomics see there.
struct ReceiveSession {
  ReceiveSession(uint64_t id, std::string principal, uint64_t link, uint64_t connection,
                 OpenFrame open)
      : id(id),
        principal(std::move(principal)),
        link(link),
        connection(connection),
        open(std::move(open)),
        handed(this->open.first_row) {
    next_row = last_batch_row = received_sent = acked_sent = this->open.first_row;
    used_row = this->open.first_row;
    result_limit = this->open.result_limit;
  }

  // For errors and logs: "partition 3".
  [[nodiscard]] std::string PartitionName() const {
    return absl::StrCat("partition ", open.partition);
  }
  [[nodiscard]] bool train() const { return open.mode == FeedMode::kTrain; }
  // What the feeder still sends is of no use.
  [[nodiscard]] bool over() const { return stage == Stage::kEnded || revoked; }
  // Every frame of `results` may be sent.
  [[nodiscard]] bool ResultsFit() const {
    if (results.empty()) return true;
    return result_sent_bytes + result_unsent_bytes - results.back().body_bytes < result_limit;
  }
  // The feeder has rows to send, and waits for the limit that they need.
  [[nodiscard]] bool blocked() const {
    return stage == Stage::kServed && credit_sent.limit < needed;
  }
  // Bytes that the feeder may send. Nothing while it is blocked: it has given the rest back.
  [[nodiscard]] int64_t AheadBytes() const {
    return stage == Stage::kServed && !blocked() ? credit_sent.limit - received_bytes : 0;
  }
  // Rows that the program was given of it are not used yet.
  [[nodiscard]] bool in_hand() const { return handed.row() > used_row.load(); }
  // Bytes of the budget that this session may hold or is holding.
  [[nodiscard]] int64_t CommittedBytes() const {
    if (stage == Stage::kWaiting || stage == Stage::kEnded) return 0;
    return received_bytes - released_bytes + AheadBytes();
  }

  enum class Stage {
    kWaiting,   // others are served before it; it has no credit
    kServed,    // it sends
    kReceived,  // END_PARTITION has come: every row is here
    kEnded,     // nothing more is sent but `final`
  };

  const uint64_t id;
  const std::string principal;
  const uint64_t link;        // reply connection
  const uint64_t connection;  // data connection
  const OpenFrame open;

  Stage stage = Stage::kWaiting;
  // The connection is lost, but the partition is complete and will be read. Nothing is sent any
  // more.
  bool detached = false;
  absl::Duration next_wait{};  // steady time of the next WAIT

  // The feeder has taken back what was not handed out: `end_row` is where that begins, what is
  // still under way is dropped.
  bool revoked = false;
  bool revoked_sent = false;  // REVOKED is out

  // Rows of the partition: first_row <= used <= handed <= next_row <= end_row, results <= handed.
  int64_t next_row;                // rows before it are here
  int64_t last_batch_row;          // first row of the BATCH that came last
  std::optional<int64_t> end_row;  // set by END_PARTITION, or by REVOKE
  int64_t result_row = 0;          // rows before it have results
  // Moved by the reading thread without a lock (data_feed.cc), and with it for batches that are
  // joined.
  HandedRows handed;
  // Written by the reading thread without a lock, and for it while it waits: rows before it are
  // used, in the sense of ACK.
  std::atomic<int64_t> used_row;

  std::deque<BufferedRows> buffered;  // not taken by the reader yet
  std::optional<Schema> result_schema;
  std::deque<OutgoingFrame> results;  // SCHEMA and RESULT frames to send; link and header unset
  // Credit of results, in their bytes. One may be sent while result_sent_bytes < result_limit.
  int64_t result_limit = 0;
  int64_t result_sent_bytes = 0;
  int64_t result_unsent_bytes = 0;  // of `results`

  // Credit.
  int64_t received_bytes = 0;
  int64_t released_bytes = 0;
  int64_t largest_batch_bytes = 0;
  int64_t needed = 0;          // of the last BLOCKED: the limit that the next BATCH needs
  uint64_t blocked_order = 0;  // of BLOCKEDs: who has said so before
  bool accepted = false;       // the first CREDIT is out
  CreditFrame credit_sent;     // what the feeder has been told

  // Sessions before this one (OPEN's `resumed`) whose last rows the program had in hand when they
  // ended: until it has used those, this one is not done.
  std::vector<std::shared_ptr<ReceiveSession>> before;

  SessionSegment shared;  // none once the session has ended

  int64_t received_sent;         // the row of the last RECEIVED
  int64_t acked_sent;            // of the last ACK
  absl::Duration next_report{};  // steady time from which on those two may be sent again
  bool end_confirmed = false;    // RECEIVED(end_row) is out
  uint64_t next_seq = 0;         // of this direction
  // What ends the session: DONE, ERROR or TERMINATED. Absent if the feeder has ended it.
  std::optional<std::pair<FrameType, std::string>> final;
};

// Rows that the reader has taken from a session.
struct TakenRows {
  std::shared_ptr<ReceiveSession> session;
  RecordBatch rows;
  int64_t first_row = 0;  // row of the partition that rows' row 0 is
  int64_t offset = 0;     // rows of `rows` that NextBatch has returned
  int64_t bytes = 0;      // credit to release when they are used or copied; 0 once it is
  int64_t passed = 0;     // rows behind them that the program needs no more

  [[nodiscard]] int64_t remaining() const { return rows.num_rows() - offset; }
  // The row of the partition that follows when the first `count` of `rows` are used.
  [[nodiscard]] int64_t RowAfter(int64_t count) const {
    return first_row + count + (count == rows.num_rows() ? passed : 0);
  }
};

// What the program has in hand of one queue in one mode. DataFeeds of the same queue and mode share
// it: a new one goes on where the old one stopped.
struct QueueReader {
  // Held while NextBatch waits, so nothing but NextBatch and ShouldStop (once the queue has ended)
  // takes it. Taken before ReceiverCore's.
  Mutex mu;
  std::optional<TakenRows> current ABSL_GUARDED_BY(mu);  // the BATCH that is being sliced
  // Sessions and end rows of what NextBatch returned last.
  std::vector<std::pair<std::shared_ptr<ReceiveSession>, int64_t>> last ABSL_GUARDED_BY(mu);

  // Orders results. Taken before ReceiverCore's.
  Mutex results_mu;
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVE_SESSION_H_
