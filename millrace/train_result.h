// File: millrace/train_result.h
//
// What a Train call did.
//
// Defines: EqualNodeRows, TrainResult.

#ifndef MILLRACE_TRAIN_RESULT_H_
#define MILLRACE_TRAIN_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace millrace {

// What one node was spared or given twice, so that all nodes got equally many batches.
struct EqualNodeRows {
  std::string node;           // "worker:1"
  int64_t dropped_rows = 0;   // that it was fed, and that are in no batch
  int64_t repeated_rows = 0;  // that it was given once more to fill a batch
};

// As the coordinator's ledger has it. Drivers in C, Java and Python get the same, by the same
// names.
struct TrainResult {
  // Rows that programs have used, in all epochs. One that was used twice counts once; dropped_rows
  // are not among them.
  int64_t rows = 0;
  // Rows that were fed again although a node had them: these may have been used twice.
  int64_t rows_refed = 0;
  // With DataFeedOptions::equal, by node; empty without.
  std::vector<EqualNodeRows> equal_nodes;
  int64_t dropped_rows = 0;   // of all nodes
  int64_t repeated_rows = 0;  // of all nodes
  // It is known that every row was used exactly once: nothing was fed again, dropped or repeated,
  // all was read, and with DataFeedOptions::equal no process ended in the call that could have
  // dropped or repeated rows without a word.
  bool exactly_once = false;
  // No node reads the queue any more; rows may be unread.
  bool terminated = false;
  absl::Duration elapsed;  // of the feeding, without the wait for nodes that are yet to come
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_RESULT_H_
