// File: feed/arrow/make_record_batch.h
//
// How the makers of record batches make them: of columns that are known to be right.
//
// Defines: internal::MakeRecordBatch().

#ifndef FEED_ARROW_MAKE_RECORD_BATCH_H_
#define FEED_ARROW_MAKE_RECORD_BATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"

namespace millrace::internal {

// `columns` as described by `schema`, each `rows` long, correct (ValidateColumns in
// feed/arrow/validate.h), in memory that `owners` keep alive.
[[nodiscard]] RecordBatch MakeRecordBatch(Schema schema, int64_t rows,
                                          std::vector<ColumnData> columns,
                                          std::vector<std::shared_ptr<const void>> owners);

}  // namespace millrace::internal

#endif  // FEED_ARROW_MAKE_RECORD_BATCH_H_
