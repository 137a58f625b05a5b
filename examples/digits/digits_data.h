// The rows of digits.csv: columns id (int64), label (int64) and image (64 float32), split into
// those to train with and every fifth, which is held out.
#ifndef EXAMPLES_DIGITS_DIGITS_DATA_H_
#define EXAMPLES_DIGITS_DIGITS_DATA_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/record_batch.h"

namespace millrace::examples {

struct DigitsData {
  RecordBatch train;
  RecordBatch held_out;  // rows 0, 5, 10, ... of the file
};

// Returns NOT_FOUND or INVALID_ARGUMENT with file and line.
absl::StatusOr<DigitsData> ReadDigits(const std::string& path);

// The share of equal elements; both have as many, at least one.
double Accuracy(std::span<const int64_t> predictions, std::span<const int64_t> labels);

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_DIGITS_DATA_H_
