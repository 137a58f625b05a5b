// File: core/coordinator/state/feed_moves.h
//
// What is taken back from slow nodes, so that others feed it to faster ones: of feeds whose feeders
// know of one another through the coordinator alone.
//
// Defines: TakeBack, FeedMoves.
//
//   FeedMoves moves;
//   if (moves.IsDue(now, "feed-7")) {
//     moves.Plan(now, "feed-7", ledger.OpenSessions("feed-7"), loads, usual_rows, waiting_rows);
//   }
//   for (const TakeBack& one : moves.Of("feed-7")) ...   // the feeder sends REVOKE
//
// It decides as a driver does for its own sessions (core/balance/node_load.h), but allows more
// time, since another task feeds the partition that is taken back. Rows that are being taken back,
// or were and are not fed again yet, count as work of the node that will be idle first.

#ifndef CORE_COORDINATOR_STATE_FEED_MOVES_H_
#define CORE_COORDINATOR_STATE_FEED_MOVES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/balance/node_load.h"
#include "core/coordinator/state/feed_ledger.h"

namespace millrace {

// A session whose rest is wanted elsewhere.
struct TakeBack {
  int64_t partition = 0;
  int executor_id = 0;  // the node that has it
  uint64_t feeder_attempt = 0;
};

// Bounded by the open sessions of open feeds.
// Thread safety: not thread-safe. Blocking: never. `now` is steady and never falls.
class FeedMoves {
 public:
  // A plan takes a look at every open session: so often and no more.
  [[nodiscard]] bool IsDue(absl::Duration now, absl::string_view feed_id) const;

  // `open`: the feed's sessions. `loads`: of each node that reads, by executor id; `rows` is what
  // lies there unread. `usual_rows`: of a partition. `waiting_rows`: of partitions that no session
  // has. `complete`: every partition has or had a session; nothing is taken back before.
  void Plan(absl::Duration now, absl::string_view feed_id, const std::vector<PartitionReport>& open,
            const std::map<int, NodeLoad>& loads, double usual_rows, double waiting_rows,
            bool complete);

  // What is to be taken back, as long as its session is open and for kAsked at most.
  [[nodiscard]] std::vector<TakeBack> Of(absl::string_view feed_id) const;

  void Forget(absl::string_view feed_id);

 private:
  // A node that has nothing left to give does not answer.
  static constexpr absl::Duration kAsked = absl::Seconds(10);

  struct Asked {
    TakeBack what;
    absl::Duration since;
  };
  struct Feed {
    absl::Duration planned_at;
    std::map<int64_t, Asked> asked;  // by partition, of sessions that are open
  };

  std::map<std::string, Feed, std::less<>> feeds_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_FEED_MOVES_H_
