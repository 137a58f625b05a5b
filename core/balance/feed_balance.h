// File: core/balance/feed_balance.h
//
// Which node is to have the next partition, and what is taken back from a slow one, where processes
// feed that know of one another through the coordinator alone: the executors of Spark.
//
// Defines: FeederLoad, FeedCandidate, FeedBalance.
//
//   FeedBalance balance;
//   balance.Tell(now, "feeder/1", {.executor_id = 0, .rows_acked = 6400, .rows_unread = 128});
//   std::optional<int64_t> room = balance.Room(0, "feeder/1");
//   std::optional<int> node = balance.Choose(now, candidates, /*partition_rows=*/1000, true);
//
// How: each feeder tells ten times a second what its nodes have acknowledged and have unread, all
// sessions together. A node's pace follows from that (core/balance/node_load.h), and from the pace
// how many rows a feeder may give to it without asking again.

#ifndef CORE_BALANCE_FEED_BALANCE_H_
#define CORE_BALANCE_FEED_BALANCE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/balance/node_load.h"

namespace millrace {

// What one feeder has with one node, its training sessions together.
struct FeederLoad {
  int executor_id = 0;
  uint32_t attempt = 0;     // of the node; what is told of an earlier one counts for nothing
  int64_t rows_acked = 0;   // since this feeder began to feed this attempt
  int64_t rows_unread = 0;  // received, not acknowledged
  int64_t partitions = 0;   // received to the end, not acknowledged to the end
};

// A node that reads the queue.
struct FeedCandidate {
  int executor_id = 0;
  bool near = false;  // on the feeder's host
  int64_t open = 0;   // partitions that are assigned to it or open there
};

// Bounded: a feeder that says nothing for kSilence is forgotten.
// Thread safety: not thread-safe. Blocking: never. `now` is steady and never falls.
class FeedBalance {
 public:
  static constexpr absl::Duration kSilence = absl::Seconds(3);

  void Tell(absl::Duration now, absl::string_view feeder, const FeederLoad& load);

  // Rows that this feeder may have unread at the node without asking; nullopt while nobody knows
  // its pace.
  [[nodiscard]] std::optional<int64_t> Room(int executor_id, absl::string_view feeder) const;

  // The node for a partition of about `partition_rows`, which is then counted as on its way there:
  // the one that will be done with it first, and a near one unless another is clearly sooner. If
  // `patient`, only of those that have little to do; nullopt if none has, or there are none. But if
  // all of them have been silent for longer than usual, one is chosen all the same, and may have
  // four times as many partitions from now on: its program may want more rows at once.
  std::optional<int> Choose(absl::Duration now, const std::vector<FeedCandidate>& candidates,
                            double partition_rows, bool patient);

  // As known now; `rows` is what lies there unread.
  [[nodiscard]] NodeLoad Load(int executor_id) const;

  // A feed begins: what programs wanted in earlier ones says nothing about it.
  void ForgetAllowances();

 private:
  struct Told {
    FeederLoad load;
    absl::Duration at;
  };
  struct Node {
    uint32_t attempt = 0;
    PaceMeter pace;
    int64_t acked = 0;  // by all feeders, forgotten ones included
    std::map<std::string, Told> feeders;
    std::deque<absl::Duration> chosen;  // when; partitions that no feeder has told of, maybe
    int64_t allowance = 1;              // see NodeLoad
  };

  static void Forget(absl::Duration now, Node* node);
  static int64_t Unread(const Node& node);
  static NodeLoad LoadOf(const Node& node);

  std::map<int, Node> nodes_;  // by executor id
};

}  // namespace millrace

#endif  // CORE_BALANCE_FEED_BALANCE_H_
