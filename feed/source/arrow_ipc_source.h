// File: feed/source/arrow_ipc_source.h
//
// Rows from Arrow IPC files: what Arrow calls the file format ("Feather V2") and the stream format,
// told apart by their first bytes. One file is one partition.
//
// Defines: ArrowIpcSource.
//
//   MILLRACE_ASSIGN_OR_RETURN(ArrowIpcSource source,
//                             ArrowIpcSource::Create({"a.arrow", "b.arrow"}));
//
// Any bytes are safe. What feeds do not carry is refused with INVALID_ARGUMENT: other column types,
// dictionaries, compressed bodies, big-endian data, and streams of before Arrow 0.15.

#ifndef FEED_SOURCE_ARROW_IPC_SOURCE_H_
#define FEED_SOURCE_ARROW_IPC_SOURCE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "feed/arrow/schema.h"
#include "feed/source/source.h"

namespace millrace {

// Deterministic as long as the files stay as they are. Each batch is read into memory of its own: a
// file that is cut short meanwhile is an error, never a crash.
class ArrowIpcSource final : public PartitionedSource {
 public:
  // Reads the schemas. Returns INVALID_ARGUMENT without a path, if a file is no Arrow IPC of rows
  // that a feed carries, or if schemas differ, naming the file; NOT_FOUND, PERMISSION_DENIED and so
  // on from the system.
  [[nodiscard]] static absl::StatusOr<ArrowIpcSource> Create(std::vector<std::string> paths);

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] int num_partitions() const override { return static_cast<int>(paths_.size()); }
  // Readers return DATA_LOSS, naming the file and the place, if it ends in the middle of a message
  // or without the mark of its end; INVALID_ARGUMENT for what is no batch of the schema.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return true; }

 private:
  ArrowIpcSource(Schema schema, std::vector<std::string> paths)
      : schema_(std::move(schema)), paths_(std::move(paths)) {}

  Schema schema_;
  std::vector<std::string> paths_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_ARROW_IPC_SOURCE_H_
