// File: feed/arrow/batch_layout.h
//
// The names under which a program finds the columns of a Batch.
//
// Defines: internal::BatchLayout, internal::MakeBatch().

#ifndef FEED_ARROW_BATCH_LAYOUT_H_
#define FEED_ARROW_BATCH_LAYOUT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/batch.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"

namespace millrace::internal {

// Which column of a schema has which name; made once per schema.
// Thread safety: immutable.
class BatchLayout {
 public:
  // Errors as Batch::Create.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const BatchLayout>> Create(
      const Schema& schema, const InputMapping& mapping);

  // Names in the program, in the order of the mapping (or of the schema).
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  // Column index in the record batch, or -1.
  [[nodiscard]] int Find(absl::string_view name) const;
  // The layout's own copy of a name that it has.
  [[nodiscard]] absl::string_view Stored(absl::string_view name) const {
    return columns_.find(name)->first;
  }

 private:
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, int> columns_;
};

// `layout` was made from the schema of `rows`.
[[nodiscard]] Batch MakeBatch(RecordBatch rows, std::shared_ptr<const BatchLayout> layout);

}  // namespace millrace::internal

#endif  // FEED_ARROW_BATCH_LAYOUT_H_
