// File: core/coordinator/feed_ledger.h
//
// The book of what was fed: for each feed (a Train call, a micro-batch, an Inference execution) and
// each partition, where it went and how far it came.
//
// Defines: PartitionState, PartitionReport, PartitionRecord, FeedSummary, FeedLedger.
//
//   ledger.Open("feed-7", "input", /*num_partitions=*/100);
//   ledger.Report("feed-7", {.partition = 3, .state = PartitionState::kReceived, .executor_id = 2,
//                            .rows_received = 1000});
//   ledger.Summary("feed-7");   // 100 partitions, 1 received, 1000 rows, ...

#ifndef CORE_COORDINATOR_FEED_LEDGER_H_
#define CORE_COORDINATOR_FEED_LEDGER_H_

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

// "pending", "feeding", "received", "done", "failed".
[[nodiscard]] absl::string_view PartitionStateName(PartitionState state);

// What a feeder tells of one partition. Row counts are cumulative within one session.
struct PartitionReport {
  int64_t partition = 0;
  PartitionState state = PartitionState::kFeeding;
  int executor_id = -1;         // the node that is fed; -1 only with kPending and kFailed
  uint32_t node_attempt = 0;
  uint64_t feeder_attempt = 0;  // of the feeder (Spark: taskAttemptId); grows with each session
  uint64_t rows_received = 0;
  uint64_t rows_acked = 0;
  uint64_t rows_returned = 0;
  // Why it was fed again from row 0, if this session started over. Empty otherwise.
  std::string refed_reason;
};

struct PartitionRecord {
  PartitionReport last;
  int sessions = 0;          // feeder attempts seen
  int refed = 0;             // how often it was fed again from row 0
  uint64_t rows_refed = 0;   // rows received before such a restart: some may have been used twice
  std::string refed_reason;  // the last one
};

struct FeedSummary {
  std::string feed_id;
  std::string queue;
  int64_t partitions = 0;  // announced by Open, or seen if more
  int64_t pending = 0, feeding = 0, received = 0, done = 0, failed = 0;
  uint64_t rows_received = 0, rows_acked = 0, rows_returned = 0;
  int64_t partitions_refed = 0;
  uint64_t rows_refed = 0;
  // No partition was fed again: every row was delivered exactly once.
  bool exactly_once = true;
  bool closed = false;
  // At most kMaxListed of each, lowest first.
  std::vector<int64_t> failed_partitions;
  std::vector<int64_t> refed_partitions;
};

// Bounded: at most kMaxFeeds feeds are kept. When a new one is opened beyond that, the oldest
// closed one goes; with none closed, Open is refused. Closing keeps the summary and drops the
// partitions.
//
// Thread safety: not thread-safe; Coordinator holds its own lock around it.
class FeedLedger {
 public:
  static constexpr int kMaxListed = 100;
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
  // if the partition is outside 0..kMaxPartitions-1.
  absl::Status Report(absl::string_view feed_id, const PartitionReport& report);

  // A node was chosen for a partition that nobody reports on yet. Until somebody does it counts as
  // open there. Unknown and closed feeds: nothing happens.
  void Assign(absl::string_view feed_id, int64_t partition, int executor_id);
  // The node of Assign(), or of the last report; nullopt if there is none.
  [[nodiscard]] std::optional<int> Assigned(absl::string_view feed_id, int64_t partition) const;
  // Partitions of all feeds that were assigned to this node, are fed to it, or wait there to be
  // acknowledged.
  [[nodiscard]] int64_t OpenOn(int executor_id) const;

  // The feed has ended. Unknown and closed ones: nothing happens.
  void Close(absl::string_view feed_id);

  // Returns NOT_FOUND for an unknown feed.
  [[nodiscard]] absl::StatusOr<FeedSummary> Summary(absl::string_view feed_id) const;

  // Of every feed, oldest first.
  [[nodiscard]] std::vector<FeedSummary> Summaries() const;

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
    std::set<int64_t> failed;         // exactly those of `partitions` that are kFailed
    std::set<int64_t> refed;          // and those that were fed again
  };

  void Count(const PartitionRecord& record, int sign, FeedSummary* summary);
  void CountOpen(int executor_id, int by);
  void Unassign(Feed& feed, int64_t partition);
  static FeedSummary WithLists(const Feed& feed);
  bool MakeRoom(std::string* removed);

  std::deque<std::string> order_;                  // ids of feeds_, oldest first
  absl::flat_hash_map<std::string, Feed> feeds_;
  absl::flat_hash_map<int, int64_t> open_;  // by executor id: see OpenOn(); no zeros
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_FEED_LEDGER_H_
