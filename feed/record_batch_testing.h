// File: feed/record_batch_testing.h
//
// Record batches for tests, of every type, reproducible. Test only.
//
// Defines: RandomBatch(), Nulls.
//
//   RecordBatch batch = RandomBatch(1000, Nulls::kSome, /*seed=*/7);

#ifndef FEED_RECORD_BATCH_TESTING_H_
#define FEED_RECORD_BATCH_TESTING_H_

#include <cstdint>

#include "feed/record_batch.h"

namespace millrace {

enum class Nulls { kNone, kSome, kAll };

// `rows` rows with a column of each scalar type that a feed carries, named as the type, and
// "list_float32", "list_int64" and "list_uint8" with fixed_size_lists of 3, 1 and 5 values. Equal
// arguments give equal batches, on every machine.
[[nodiscard]] RecordBatch RandomBatch(int64_t rows, Nulls nulls, uint64_t seed);

}  // namespace millrace

#endif  // FEED_RECORD_BATCH_TESTING_H_
