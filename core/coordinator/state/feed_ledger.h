// File: core/coordinator/state/feed_ledger.h
//
// The book of what was fed: for each feed (a Train call, a micro-batch, an Inference execution) and
// each partition, where it went and how far it came.
//
// Defines: PartitionState, Movable, FeederStages, PartitionReport, PartitionRecord, RefedSummary,
// FeedSummary, QueueLedger, FeedLedger.
//
//   ledger.Open("feed-7", "input", /*num_partitions=*/100);
//   ledger.Report("feed-7", {.partition = 3, .state = PartitionState::kReceived, .executor_id = 2,
//                            .rows_received = 1000});
//   ledger.Summary("feed-7");   // 100 partitions, 1 received, 1000 rows, ...

#ifndef CORE_COORDINATOR_STATE_FEED_LEDGER_H_
#define CORE_COORDINATOR_STATE_FEED_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

enum class PartitionState {
  kPending = 0,   // nobody feeds it
  kFeeding = 1,   // a session is open
  kReceived = 2,  // the node holds every row
  kDone = 3,      // every row is acknowledged (training) or every result is back (inference)
  kFailed = 4,
};

// What a feeder can take back from a node while the session is open (REVOKE).
enum class Movable {
  kNo = 0,
  kWhole = 1,   // a partition of which nothing was used
  kAnyRow = 2,  // the rest of it, from any row on
};

// Where a feeder's time went, in microseconds.
struct FeederStages {
  uint64_t source_us = 0;  // reading the source
  uint64_t encode_us = 0;  // making frames of its rows
  uint64_t credit_us = 0;  // waiting for the node to take more
  uint64_t wire_us = 0;    // handing frames to the socket
};

// What a feeder tells of one partition. Row counts and times are cumulative within one session.
struct PartitionReport {
  int64_t partition = 0;
  PartitionState state = PartitionState::kFeeding;
  int executor_id = -1;  // the node that is fed; -1 only with kPending and kFailed
  uint32_t node_attempt = 0;
  uint64_t feeder_attempt = 0;  // of the feeder; grows with each session
  uint64_t first_row = 0;       // of the session: rows before it were of earlier ones
  // Rows of the partition before this one. Of a session that has ended early rows_received is how
  // far the node may have used them.
  uint64_t rows_received = 0;
  uint64_t rows_acked = 0;
  uint64_t rows_returned = 0;
  FeederStages stages;
  Movable movable = Movable::kNo;
  // Why rows are sent again, if some are. Empty otherwise. What is sent again counts without a
  // reason too: a session that takes a partition over before the row that the one before came to.
  std::string refed_reason;
  // How far the node of the session before this one may have used the rows, if the feeder knows:
  // that session's last report may be lost.
  uint64_t rows_before = 0;
  // So often all rows from refed_from on were fed again, since nobody knew how many of them the
  // node before had: they count as such when the session has ended. With a refed_reason.
  int refed_all = 0;
  uint64_t refed_from = 0;
  // Of a session that has ended, where whoever comes next had better not try the same again.
  absl::Status error;
};

struct PartitionRecord {
  PartitionReport last;
  int sessions = 0;          // feeder attempts seen
  int refed = 0;             // how often it was fed again from row 0
  uint64_t rows_refed = 0;   // rows received before such a restart: some may have been used twice
  std::string refed_reason;  // the last one
  int refed_all = 0;         // as reported, and not counted yet
  uint64_t refed_from = 0;   // the lowest one
};

// Rows that were sent again since this node had them, for one reason.
struct RefedSummary {
  int executor_id = -1;  // -1: several nodes
  std::string reason;
  int64_t times = 0;
  uint64_t rows = 0;
};

struct FeedSummary {
  std::string feed_id;
  std::string queue;
  int64_t partitions = 0;  // announced by Open, or seen if more
  int64_t pending = 0, feeding = 0, received = 0, done = 0, failed = 0;
  // Of the last session of each partition, those before it where it resumed included.
  uint64_t rows_received = 0, rows_acked = 0, rows_returned = 0;
  int64_t partitions_refed = 0;
  uint64_t rows_refed = 0;
  // rows_refed by node and reason, oldest first; after kMaxReasons the rest is one.
  std::vector<RefedSummary> refed;
  FeederStages stages;  // of all sessions
  // No partition was fed again: every row was delivered exactly once.
  bool exactly_once = true;
  bool closed = false;
  // At most kMaxListed of each, lowest first.
  std::vector<int64_t> failed_partitions;
  std::vector<int64_t> refed_partitions;
};

// One queue of one node, all sessions and attempts together: rows that were sent twice count twice.
struct QueueLedger {
  std::string queue;
  uint64_t rows_received = 0, rows_acked = 0, rows_returned = 0;
  uint64_t rows_refed = 0;  // this node may have used them, and they were sent again, anywhere
  FeederStages stages;
};

// Bounded: at most kMaxFeeds feeds are kept. When a new one is opened beyond that, the oldest
// closed one goes; with none closed, Open is refused. Closing keeps the summary and drops the
// partitions.
//
// Thread safety: not thread-safe; Coordinator holds its own lock around it.
class FeedLedger {
 public:
  static constexpr int kMaxListed = 100;
  static constexpr size_t kMaxReasons = 16;
  static constexpr int kMaxFeeds = 1024;
  static constexpr int64_t kMaxPartitions = 1 << 20;  // per feed

  // Announces a feed. Again with the same values: OK, nothing changes.
  // Returns ALREADY_EXISTS if it is open with other values, INVALID_ARGUMENT for an empty id or a
  // number of partitions outside 0..kMaxPartitions, RESOURCE_EXHAUSTED if kMaxFeeds are open.
  // `*removed`: the closed feed that went, if one did.
  absl::Status Open(absl::string_view feed_id, absl::string_view queue, int64_t num_partitions,
                    std::string* removed = nullptr);

  // Takes the report of a session. A report of a lower feeder_attempt than the last one is ignored.
  // Returns NOT_FOUND for an unknown feed, FAILED_PRECONDITION for a closed one, INVALID_ARGUMENT
  // if the partition is outside 0..kMaxPartitions-1, or more rows are acknowledged than received.
  absl::Status Report(absl::string_view feed_id, const PartitionReport& report);

  // What a ledger before this one knew of a partition that nobody has reported on here: `last`,
  // rows_refed, refed_all and refed_from.
  void Restore(absl::string_view feed_id, const PartitionRecord& known);

  // A node was chosen for a partition that nobody reports on yet. Until somebody does it counts as
  // open there. Unknown and closed feeds: nothing happens.
  void Assign(absl::string_view feed_id, int64_t partition, int executor_id);
  // The node of Assign(), or of the last report; nullopt if there is none, or that session has
  // ended and left nothing in doubt: the rest may go anywhere.
  [[nodiscard]] std::optional<int> Assigned(absl::string_view feed_id, int64_t partition) const;
  // Partitions of all feeds that were assigned to this node, are fed to it, or wait there to be
  // acknowledged.
  [[nodiscard]] int64_t OpenOn(int executor_id) const;

  // Returns NOT_FOUND for an unknown feed, INVALID_ARGUMENT for a partition that it does not have.
  [[nodiscard]] absl::Status CheckPartition(absl::string_view feed_id, int64_t partition) const;

  // The feed has ended. Unknown and closed ones: nothing happens.
  void Close(absl::string_view feed_id);

  // Returns NOT_FOUND for an unknown feed.
  [[nodiscard]] absl::StatusOr<FeedSummary> Summary(absl::string_view feed_id) const;

  // Of every feed, oldest first.
  [[nodiscard]] std::vector<FeedSummary> Summaries() const;

  // Of every queue from which something was fed to this node, by name; feeds that are kept no more
  // included.
  [[nodiscard]] std::vector<QueueLedger> Queues(int executor_id) const;

  // The last reports of the sessions that are open (kFeeding, kReceived), by partition. Empty for
  // an unknown or closed feed.
  [[nodiscard]] std::vector<PartitionReport> OpenSessions(absl::string_view feed_id) const;
  // Partitions of the feed that were assigned to this node, or of which rows still come to it.
  [[nodiscard]] int64_t UnderWay(absl::string_view feed_id, int executor_id) const;
  // About so many rows have the partitions whose last session failed, if `usual_rows` is a
  // partition.
  [[nodiscard]] double FailedRows(absl::string_view feed_id, double usual_rows) const;
  // Ids of the feeds that are open, oldest first.
  [[nodiscard]] std::vector<std::string> OpenFeeds() const;

  // Returns NOT_FOUND for an unknown feed, a closed one, or a partition without a report.
  [[nodiscard]] absl::StatusOr<PartitionRecord> Partition(absl::string_view feed_id,
                                                          int64_t partition) const;

  // The partitions that a follow-up has to feed again because this node attempt is gone: not kDone
  // and last fed to it. Lowest first, all of them. Empty for an unknown or closed feed.
  [[nodiscard]] std::vector<int64_t> UnfinishedOn(absl::string_view feed_id, int executor_id,
                                                  uint32_t node_attempt) const;

 private:
  struct Feed {
    FeedSummary summary;  // counts of `partitions`, kept up to date; lists are made on demand
    int64_t announced = 0;
    std::map<int64_t, PartitionRecord> partitions;
    std::map<int64_t, int> assigned;  // executor ids, of partitions that nobody reported on since
    absl::flat_hash_map<int, int64_t>
        under_way;             // by executor id: those, and those that are kFeeding
    std::set<int64_t> open;    // exactly those of `partitions` that are kFeeding or kReceived
    std::set<int64_t> failed;  // and kFailed
    std::set<int64_t> refed;   // and those that were fed again
  };

  void Count(const PartitionRecord& record, int sign, Feed* feed);
  // Adds what the session of `report` has done since `before`, an earlier report of it or none.
  void CountSession(const PartitionReport& report, const PartitionReport& before, Feed* feed);
  void CountRefed(int executor_id, const std::string& reason, uint64_t rows, Feed* feed);
  void CountOpen(int executor_id, int by);
  void Unassign(Feed& feed, int64_t partition);
  static FeedSummary WithLists(const Feed& feed);
  bool MakeRoom(std::string* removed);

  std::deque<std::string> order_;  // ids of feeds_, oldest first
  absl::flat_hash_map<std::string, Feed> feeds_;
  absl::flat_hash_map<int, int64_t> open_;  // by executor id: see OpenOn(); no zeros
  absl::flat_hash_map<int, std::map<std::string, QueueLedger>> queues_;  // by executor id and queue
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_FEED_LEDGER_H_
