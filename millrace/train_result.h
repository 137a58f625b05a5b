// File: millrace/train_result.h
//
// What a Train call did.

#ifndef MILLRACE_TRAIN_RESULT_H_
#define MILLRACE_TRAIN_RESULT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace millrace {

// Rows that were sent again although the node that had them may have used them.
struct RefedRows {
  int64_t partition = 0;
  int64_t data_epoch = 0;
  int64_t rows = 0;
  std::string node;  // the one that had them
  std::string reason;
};

struct TrainResult {
  // No node reads the queue any more; rows may be unread.
  bool terminated = false;
  // Rows that each node's program has used.
  std::map<std::string, int64_t> rows_by_node;
  std::vector<RefedRows> refed;
  // Times that a partition, or the rest of one, was taken back from one node for another.
  int64_t moved = 0;
  absl::Duration elapsed;

  [[nodiscard]] int64_t rows() const;
  [[nodiscard]] int64_t refed_rows() const;
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_RESULT_H_
