// File: feed/source/tfrecord/example_testing.h
//
// Examples as Protobuf has them, from our reader and from batches, to compare them. Test only.
//
// Defines: ReadExample(), ParseExample(), SameExample(), ExampleOf().

#ifndef FEED_SOURCE_TFRECORD_EXAMPLE_TESTING_H_
#define FEED_SOURCE_TFRECORD_EXAMPLE_TESTING_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "feed/source/tfrecord/example.pb.h"
#include "millrace/record_batch.h"

namespace millrace {

// What example_wire.h makes of these bytes; nullopt if they are no Example.
[[nodiscard]] std::optional<example_testing::Example> ReadExample(absl::string_view bytes);

// What Protobuf makes of them. It logs nothing.
[[nodiscard]] std::optional<example_testing::Example> ParseExample(absl::string_view bytes);

// The same features with the same values, to the bit.
[[nodiscard]] bool SameExample(const example_testing::Example& a,
                               const example_testing::Example& b);

// A row of a batch: a feature for each column that is not null, float64 as float.
[[nodiscard]] example_testing::Example ExampleOf(const RecordBatch& batch, int64_t row);

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_EXAMPLE_TESTING_H_
