// File: feed/receiver/receiver_rows_testing.h
//
// The rows that tests of the node's side send and read: one column "id" that counts. Test only.
//
// Defines: Rows(), Values(), kNonce.

#ifndef FEED_RECEIVER_RECEIVER_ROWS_TESTING_H_
#define FEED_RECEIVER_RECEIVER_ROWS_TESTING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "millrace/batch.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"

namespace millrace {

// The nonce of the node's attempt, as docs/feed_protocol.md has it.
inline constexpr char kNonce[] = "5b0c9e1f22d3a4b6";

// `rows` rows: first, first + 1, ...
inline RecordBatch Rows(int64_t first, int64_t rows) {
  std::vector<int64_t> values;
  for (int64_t row = first; row < first + rows; ++row) values.push_back(row);
  return *BatchBuilder().AddColumn("id", std::move(values)).Build();
}

inline std::vector<int64_t> Values(const Batch& batch) {
  if (batch.empty()) return {};
  const auto column = batch.column<int64_t>("id");
  return {column.begin(), column.end()};
}

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVER_ROWS_TESTING_H_
