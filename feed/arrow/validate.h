// File: feed/arrow/validate.h
//
// The last check of columns whose memory is known to be there: what only reading the values shows.
//
// Defines: ValidateColumns(), IsValidUtf8().

#ifndef FEED_ARROW_VALIDATE_H_
#define FEED_ARROW_VALIDATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "millrace/column_view.h"
#include "millrace/schema.h"

namespace millrace {

// `columns` fit `schema`: type by type, and every buffer is as long as offset and length ask for
// (the caller has made sure of that). Checks that each has `rows` rows, that offsets do not
// decrease and stay within the data or the values of the lists (nanoarrow's FULL validation), and
// that text is UTF-8 where it is not null. Columns of numbers cost nothing: nothing in them can be
// wrong. Returns INVALID_ARGUMENT naming the column.
[[nodiscard]] absl::Status ValidateColumns(const Schema& schema, int64_t rows,
                                           const std::vector<ColumnData>& columns);

// Fast for ASCII. Empty text is valid.
[[nodiscard]] bool IsValidUtf8(absl::string_view text);

}  // namespace millrace

#endif  // FEED_ARROW_VALIDATE_H_
