// File: feed/arrow/record_batch_testing.h
//
// Record batches for tests, of every type, reproducible. Test only.
//
// Defines: RandomBatch(), RandomNestedBatch(), RandomType(), RandomBatchOf(), Nulls.
//
//   RecordBatch flat = RandomBatch(1000, Nulls::kSome, /*seed=*/7);
//   RecordBatch nested = RandomNestedBatch(1000, Nulls::kSome, /*seed=*/7);

#ifndef FEED_ARROW_RECORD_BATCH_TESTING_H_
#define FEED_ARROW_RECORD_BATCH_TESTING_H_

#include <cstdint>
#include <random>

#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"

namespace millrace {

enum class Nulls { kNone, kSome, kAll };

// `rows` rows with a column of each type of numbers and text that a feed carries, named as the
// type, and "list_float32", "list_int64" and "list_uint8" with fixed_size_lists of 3, 1 and 5
// values. Equal arguments give equal batches, on every machine.
[[nodiscard]] RecordBatch RandomBatch(int64_t rows, Nulls nulls, uint64_t seed);

// `rows` rows of dates, timestamps, lists, structs, and of random types, at most three deep. Null
// lists may have elements, and null structs have fields with values. The schema depends on the
// seed.
[[nodiscard]] RecordBatch RandomNestedBatch(int64_t rows, Nulls nulls, uint64_t seed);

// Any type that a feed carries, nested at most `depth` deep.
[[nodiscard]] Type RandomType(int depth, std::mt19937_64* random);

// Random rows of any schema of nullable columns.
[[nodiscard]] RecordBatch RandomBatchOf(const Schema& schema, int64_t rows, Nulls nulls,
                                        uint64_t seed);

}  // namespace millrace

#endif  // FEED_ARROW_RECORD_BATCH_TESTING_H_
