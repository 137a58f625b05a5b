// File: core/coordinator/state/saved_train.h
//
// Train calls that another driver may have to go on with: which call it is, how far it came, and
// what it returned.
//
// Defines: TrainCall, SavedSession, TrainOutcome, SavedTrain.

#ifndef CORE_COORDINATOR_STATE_SAVED_TRAIN_H_
#define CORE_COORDINATOR_STATE_SAVED_TRAIN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millrace {

// The calls on one queue are known by their order. A program that goes on makes the same ones.
struct TrainCall {
  std::string feed_id;  // of one that is new
  std::string queue;
  int64_t partitions = 0;
  int64_t epochs = 0;
  bool deterministic = false;
};

// The last session of a partition that is not done. The node may have rows from first_row on; those
// before it are used.
struct SavedSession {
  int executor_id = -1;
  uint32_t node_attempt = 0;
  int64_t first_row = 0;
  int refed_all = 0;       // as of PartitionReport
  int64_t refed_from = 0;  // the same
};

// What a call returned, as TrainResult says (millrace/train_result.h).
struct TrainOutcome {
  absl::Status status;
  int64_t rows = 0;
  int64_t rows_refed = 0;
  bool exactly_once = false;
  bool terminated = false;
  absl::Duration elapsed;
};

// Partitions count those of all epochs: epoch * partitions + partition.
struct SavedTrain {
  std::string feed_id;
  int64_t rounds = 0;    // that have ended (FeedEnd)
  bool aborted = false;  // it was given up, and had not returned
  std::map<int64_t, SavedSession> begun;
  std::map<int64_t, int64_t> done;      // their rows
  std::optional<TrainOutcome> outcome;  // it has returned: nothing is to be fed
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_SAVED_TRAIN_H_
