// File: feed/feeder/partition_progress.h
//
// What a feeder tells of one partition, for the ledger.
//
// Defines: PartitionProgress, PartitionObserver, SessionProgress().
//
//   PartitionProgress report = SessionProgress(PartitionProgress::State::kReceived, *session);

#ifndef FEED_FEEDER_PARTITION_PROGRESS_H_
#define FEED_FEEDER_PARTITION_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "feed/feeder/feeder_session.h"

namespace millrace {

// While a partition is fed, and while it waits to be acknowledged, it is told of this often.
inline constexpr absl::Duration kPartitionReportInterval = absl::Seconds(1);

struct PartitionProgress {
  enum class State {
    kFeeding,       // a session was opened, or goes on
    kReceived,      // training: the node holds every row; it was opened, or goes on
    kAcknowledged,  // over: every row is acknowledged, in inference every result is here
    kRefeeding,     // the session has ended, and another one follows
    kTerminated,    // over before its last row: nobody reads the queue any more
    kFailed,        // over before its last row: the call has failed
  };
  State state = State::kFeeding;
  std::string feed_id;
  std::string node;
  int executor_id = -1;
  uint32_t node_attempt = 0;
  int64_t partition = 0;
  int64_t data_epoch = 0;
  int64_t first_row = 0;  // of the session
  // Rows before this one, as the session knows.
  int64_t sent_rows = 0;
  int64_t received_rows = 0;
  int64_t acked_rows = 0;
  int64_t returned_rows = 0;
  FeederTimes times;       // of the session
  int64_t next_row = 0;    // kRefeeding: where the next session begins
  int64_t rows_refed = 0;  // kRefeeding: rows sent again from there that a node may have used
  std::string reason;      // kRefeeding, and with `refed_all`
  // So often rows from refed_from on were fed by a feeder that is gone, nobody knows how many, to a
  // node that cannot be asked, and were then all fed again.
  int refed_all = 0;
  int64_t refed_from = 0;
};

// Thread safety: implementations are thread-safe; called from feeding threads and those that wait
// for a job, without a lock held. Blocking: must not.
class PartitionObserver {
 public:
  virtual ~PartitionObserver() = default;

  // Whenever the state of a partition changes, and each kPartitionReportInterval while it is fed.
  virtual void OnPartition(const PartitionProgress& report) = 0;
};

// As `session` stands.
[[nodiscard]] inline PartitionProgress SessionProgress(PartitionProgress::State state,
                                                       const FeedSession& session) {
  const SessionState now = session.state();
  return {.state = state,
          .feed_id = session.options().feed_id,
          .node = session.target().node,
          .executor_id = session.target().executor_id,
          .node_attempt = session.target().attempt,
          .partition = session.options().partition,
          .data_epoch = session.options().data_epoch,
          .first_row = now.first_row,
          .sent_rows = now.sent_rows,
          .received_rows = now.received_rows,
          .acked_rows = now.acked_rows,
          .returned_rows = now.returned_rows,
          .times = now.times};
}

}  // namespace millrace

#endif  // FEED_FEEDER_PARTITION_PROGRESS_H_
