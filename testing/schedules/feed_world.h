// File: testing/schedules/feed_world.h
//
// Calls of Train and Inference under a ThreadScheduler: what a seed decides, how it is run, and
// what must hold at its end. Test only.
//
// Defines: FeedPlan, FeedOutcome, RunFeed().
//
//   const FeedOutcome outcome = RunFeed(MakeFeedPlan(17));
//   if (!outcome.broken.empty()) ...              // the rules that do not hold

#ifndef TESTING_SCHEDULES_FEED_WORLD_H_
#define TESTING_SCHEDULES_FEED_WORLD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/thread_scheduler.h"

namespace millrace {

struct FeedPlan {
  enum class Call { kTrain, kInference };
  struct Fault {
    enum class Kind { kBreak, kKill } kind = Kind::kBreak;
    int node = 0;
    absl::Duration after;  // since the fault before
    absl::Duration down;   // of a killed node, until its next attempt
  };

  uint64_t seed = 1;
  Call call = Call::kTrain;
  int nodes = 1;
  std::vector<int64_t> rows;  // of each partition
  int64_t epochs = 1;
  int64_t calls = 1;          // of Train, one after the other
  int64_t source_rows = 1;    // of a batch of the source
  int64_t batch_bytes = 100;  // that batches are cut to
  int64_t budget_bytes = 1000;
  int64_t keep_bytes = 0;
  bool deterministic = true;
  int64_t most_rows = 1;              // of a NextBatch
  std::vector<absl::Duration> pause;  // of each node's program after a batch, at most
  // Rows after which each node's program wants no more; 0: it wants all. Training only.
  std::vector<int64_t> stop_after;
  absl::Duration source_pause;  // of a reader of the source before some batches, at most
  std::optional<absl::Duration> cancel_after;  // the call is cancelled
  // Training in which all nodes get equally many batches of most_rows rows.
  enum class Equal { kOff, kDrop, kPad } equal = Equal::kOff;
  std::vector<Fault> faults;

  [[nodiscard]] std::string ToString() const;
};

[[nodiscard]] FeedPlan MakeFeedPlan(uint64_t seed);

struct FeedOutcome {
  absl::Status status;  // of the call; one that failed may have been right to
  ScheduleResult schedule;
  absl::Duration took;     // of the call, in virtual time
  absl::Duration excused;  // of it, at most: frames were under way, or threads not chosen
  int64_t rows_again = 0;
  int64_t rows_refed = 0;
  std::vector<std::string> broken;  // the rules that do not hold; empty is good
};

// Blocks for some ten milliseconds. A run that is stuck ends the process: see ThreadScheduler.
[[nodiscard]] FeedOutcome RunFeed(const FeedPlan& plan);

}  // namespace millrace

#endif  // TESTING_SCHEDULES_FEED_WORLD_H_
