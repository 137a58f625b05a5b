// File: testing/ledger/ledger_rows.h
//
// The rows of the ledger tests: each is known by its number, at both ends. Test only.
//
// Defines: LedgerRowId(), LedgerRowName(), LedgerRows().
//
// The columns are id: int64 and name: utf8, as testing/reference_peer/sources.py makes them in its
// first epoch.

#ifndef TESTING_LEDGER_LEDGER_ROWS_H_
#define TESTING_LEDGER_LEDGER_ROWS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"

namespace millrace {

inline constexpr int64_t kLedgerPartitionIds = 1'000'000;
inline constexpr int64_t kLedgerEpochIds = 1'000'000'000;

[[nodiscard]] inline int64_t LedgerRowId(int64_t epoch, int64_t partition, int64_t row) {
  return epoch * kLedgerEpochIds + partition * kLedgerPartitionIds + row;
}

// "p3r17" for row 17 of partition 3.
[[nodiscard]] inline std::string LedgerRowName(int64_t id) {
  const int64_t in_epoch = id % kLedgerEpochIds;
  return absl::StrCat("p", in_epoch / kLedgerPartitionIds, "r", in_epoch % kLedgerPartitionIds);
}

// Rows [first, first + rows) of a partition.
[[nodiscard]] inline RecordBatch LedgerRows(int64_t epoch, int64_t partition, int64_t first,
                                            int64_t rows) {
  std::vector<int64_t> ids;
  std::vector<std::string> names;
  for (int64_t row = first; row < first + rows; ++row) {
    ids.push_back(LedgerRowId(epoch, partition, row));
    names.push_back(LedgerRowName(ids.back()));
  }
  return *BatchBuilder().AddColumn("id", std::move(ids)).AddStrings("name", names).Build();
}

}  // namespace millrace

#endif  // TESTING_LEDGER_LEDGER_ROWS_H_
