// File: testing/bench/feed_shapes.h
//
// The rows that the feed's benchmarks move.
//
// Defines: FeedShape, AllFeedShapes(), FindFeedShape().
//
//   const FeedShape* shape = FindFeedShape("f32x784");
//   RecordBatch batch = shape->Make(shape->RowsFor(int64_t{1} << 20));
//   CHECK_EQ(shape->Touch(*Batch::Create(batch)), shape->Touch(*Batch::Create(batch)));

#ifndef TESTING_BENCH_FEED_SHAPES_H_
#define TESTING_BENCH_FEED_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "millrace/batch.h"
#include "millrace/record_batch.h"

namespace millrace::bench {

// Thread safety: pure functions.
struct FeedShape {
  std::string name;       // "i64", "f32x64", "f32x784", "bin3k"
  int64_t row_bytes = 0;  // of values
  RecordBatch (*Make)(int64_t rows);
  // Takes the typed span of all rows, as a program does, and looks at its two ends.
  double (*Touch)(const Batch& batch);

  // Rows of a batch of about `bytes`; at least 1.
  [[nodiscard]] int64_t RowsFor(int64_t bytes) const {
    return bytes < row_bytes ? 1 : bytes / row_bytes;
  }
};

[[nodiscard]] const std::vector<FeedShape>& AllFeedShapes();
// nullptr if there is none of this name.
[[nodiscard]] const FeedShape* FindFeedShape(absl::string_view name);

}  // namespace millrace::bench

#endif  // TESTING_BENCH_FEED_SHAPES_H_
