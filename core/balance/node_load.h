// File: core/balance/node_load.h
//
// What the nodes of a Train call have to do, and what follows from it: who gets the next partition,
// and what is taken back from a node because another one will be done with it sooner. Pure state
// and tables of numbers: no node, no lock, no clock. For the driver's feeder
// (feed/feeder/feeder_nodes.h, feed/feeder/train_job.h) and for the coordinator, which does the
// same for feeders elsewhere.
//
// Defines: PaceMeter, NodeLoad, SecondsLeft(), WantsMore(), ChooseNode(), OpenPartition, MoveRules,
// MovePlan, PlanMoves().
//
//   PaceMeter pace;
//   pace.Update(now, /*acked_rows=*/640, /*busy=*/true);
//   const double rate = pace.RowsPerSecond(now);
//   std::vector<NodeLoad> loads = {{.partitions = 2, .rows = 5000, .pace = rate}};
//   std::optional<size_t> next = ChooseNode(loads, /*partition_rows=*/1000, /*patient=*/true);
//   MovePlan plan = PlanMoves(loads, open_partitions);
//
// A node's pace is the number of rows that it has acknowledged per time in which it had rows. While
// its pace is not known a node gets one partition, and from then on so much that it is busy for
// kWorkAhead. Rows that a node's program was not given yet can be taken back (REVOKE of
// docs/feed_protocol.md): once nothing is left to give out, a node that runs dry gets what
// the node that would be done last has not begun, or the rest of what it has begun, if that is then
// done clearly sooner.

#ifndef CORE_BALANCE_NODE_LOAD_H_
#define CORE_BALANCE_NODE_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace millrace {

// A node with as much to do gets no more.
inline constexpr absl::Duration kWorkAhead = absl::Milliseconds(200);

// Rows per second of one node. Thread safety: none. Blocking: never.
class PaceMeter {
 public:
  // `now` is steady and never falls; `acked_rows` are those since the start, `busy` says that more
  // are with the node. Times in which it is not busy do not count.
  void Update(absl::Duration now, int64_t acked_rows, bool busy);

  // Of the last seconds; lower than that if the node has been silent for unusually long. nullopt
  // before the first acknowledgement.
  [[nodiscard]] std::optional<double> RowsPerSecond() const;

  // Busy since the first row, without any acknowledgement; 0 after one.
  [[nodiscard]] absl::Duration silent() const;

  // Without an acknowledgement for clearly longer than is usual for it: it may want more rows than
  // it has before it acknowledges any.
  [[nodiscard]] bool overdue() const;

 private:
  struct Sample {
    absl::Duration busy;  // time so far
    int64_t rows;         // acknowledged so far
  };
  // Between acknowledgements, and a tolerance. Of at least two samples.
  [[nodiscard]] absl::Duration UsualSilence() const;

  bool busy_ = false;
  absl::Duration updated_{};
  absl::Duration busy_time_{};
  std::deque<Sample> samples_;  // of the last seconds; the first one is where they begin
};

struct NodeLoad {
  bool reading = true;         // the program reads the queue
  int64_t partitions = 0;      // given to it and not acknowledged to the end
  double rows = 0;             // of them that are not acknowledged, as far as is known
  std::optional<double> pace;  // rows per second; nullopt: not known yet
  absl::Duration silent;       // without a pace: how long it has been busy
  int64_t allowance = 1;       // partitions that it may have whatever its pace
  int64_t assigned = 0;        // partitions it was ever given
};

// Until the node is done; nullopt if it has something to do and no pace.
[[nodiscard]] std::optional<double> SecondsLeft(const NodeLoad& node);

[[nodiscard]] bool WantsMore(const NodeLoad& node);

// The node that will have done one more partition of about `partition_rows` first. If `patient`, of
// those that want more, otherwise of all. nullopt if there is none.
[[nodiscard]] std::optional<size_t> ChooseNode(const std::vector<NodeLoad>& nodes,
                                               double partition_rows, bool patient);

// A partition that is with a node, and can be taken back.
struct OpenPartition {
  size_t node = 0;     // index of PlanMoves()'s nodes
  bool begun = false;  // rows of it are acknowledged
  double rows = 0;     // that are not acknowledged, as far as is known
};

// When a move is worth it.
struct MoveRules {
  // A node with less to do takes something over.
  absl::Duration ahead = kWorkAhead;
  // From the decision until the rows are at the other node.
  absl::Duration delay = absl::Milliseconds(20);
  // Work that takes a node less than this is left to it.
  absl::Duration least = absl::Milliseconds(5);
};

struct MovePlan {
  std::vector<size_t> take_back;  // indexes of PlanMoves()'s partitions
  // Nothing more is to be taken back now, but will be once a node that is faster has less to do.
  bool more_later = false;
};

// To be asked when every partition is with a node.
[[nodiscard]] MovePlan PlanMoves(std::vector<NodeLoad> nodes,
                                 const std::vector<OpenPartition>& partitions,
                                 const MoveRules& rules = {});

}  // namespace millrace

#endif  // CORE_BALANCE_NODE_LOAD_H_
